"""Calls torch's bindings with probe arguments to learn what they pass to `__torch_function__`."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, get_alias_info


class Watch:
    """A torch-function mode that intercepts every call and stores its arguments."""

    def __init__(self) -> None:
        self.seen: tuple[Any, ...] | None = None

    def __torch_function__(self, func: Any, types: Any, *rest: Any) -> Any:
        self.seen = (func, types, *rest)
        return self


class _Other:
    """Base class of the probe arguments for objects that are not tensors but have a `__torch_function__`."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


@functools.cache
def probe_argument(index: int, is_tensor: bool) -> type:
    """The class of the probe argument for the index-th overriding argument of a call. Each is a new class that derives
    from no other one, so torch reports them in the order of the arguments."""
    return type(f"Probe{index}", (torch.Tensor if is_tensor else _Other,), {})


class DispatchProbe(torch.Tensor):  # type: ignore[misc]
    """Represents, in torch's calls, a tensor whose class has a `__torch_dispatch__`; its own calls the interpreter
    (interpreter/torch/dispatching)."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    __torch_dispatch__: Any


def probe_like(tensor: torch.Tensor) -> torch.Tensor:
    # Dispatch keys differ between inference tensors and others; the probe must be of the same kind.
    with torch.inference_mode(tensor.is_inference()), torch._C.DisableTorchFunction():
        return torch.Tensor._make_wrapper_subclass(
            DispatchProbe,
            tensor.size(),
            strides=tensor.stride(),
            storage_offset=tensor.storage_offset(),
            dtype=tensor.dtype,
            layout=tensor.layout,
            device=tensor.device,
            requires_grad=tensor.requires_grad,
        )


class _Asked(TorchDispatchMode):  # type: ignore[misc]
    was_asked = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.was_asked = True
        return NotImplemented


def answers_for_metadata(tensor: torch.Tensor) -> bool:
    """Whether the tensor's class is called for its sizes, strides, device or layout."""
    with torch._C.DisableTorchFunction(), _Asked() as mode:
        try:
            tensor.size(), tensor.stride(), tensor.storage_offset(), tensor.device, tensor.layout, tensor.dtype
        except Exception:
            return True
    return mode.was_asked


def returned_arguments(func: Any) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, str | None], ...]]:
    """Of `return_and_correct_aliasing`: which results are views of which arguments, by place, and which arguments are
    returned because they were written to, by place and name."""
    info = get_alias_info(func)
    if info.is_inplace_view_op:
        raise TypeError(f"{func} changes the sizes of a tensor")
    written = []
    for alias in info.outs_write_aliases or ():
        places = [i for i, argument in enumerate(info.args) if alias in argument.alias_set]
        if len(places) != 1:
            raise TypeError(f"{func} has several arguments of one alias")
        written.append((places[0], info.args[places[0]].name))
    return tuple((i, j) for i, j in info.read_only_alias_match_indexes), tuple(written)
