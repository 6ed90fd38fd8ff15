"""Tensor subclasses with `__torch_dispatch__` among the arguments of a trace: operators on them are nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.utils._pytree as pytree

from .. import _C

_VALUES = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)


def is_subclass(leaf: Any) -> bool:
    """Whether its operators are dispatched to Python; parameters and other classes of plain tensors are not."""
    return isinstance(leaf, torch.Tensor) and torch._C._dispatch_keys(leaf).has(torch._C.DispatchKey.Python)


def add_subclass(tracer: Any, leaf: torch.Tensor, name: str, mode: str) -> torch.Tensor:
    message = f"the program uses a tensor inside of the input {name}, a {type(leaf).__name__}: only operators on the"
    for inner in _inner(leaf, set()):
        tracer.forbid(inner, f"{message} input itself can be nodes")
    made = leaf
    if mode == "symbolic":
        raise RuntimeError(
            f"cannot be traced: the input {name} is a {type(leaf).__name__}, whose sizes cannot be symbols; use "
            'tracing_mode="fake" or "real"'
        )
    if mode == "fake":
        made = _over_fakes(tracer, leaf, name)
    tracer.subclass_input(leaf, made, name)
    return made


def with_class_of(leaf: torch.Tensor, made: torch.Tensor, name: str) -> torch.Tensor:
    """The fake of an input, as a tensor of the input's class, which may have a `__torch_function__`."""
    if type(made) is not type(leaf):
        try:
            made.__class__ = type(leaf)
        except TypeError as error:
            raise RuntimeError(
                f"cannot be traced: the input {name} is a {type(leaf).__name__}, which no tensor of a trace can become"
            ) from error
        vars(made).update(vars(leaf))
    return made


class Wrapper:
    """How to make a tensor subclass that the function made of the tensors inside of it. In a graph: an attribute."""

    def __init__(self, tensor: torch.Tensor) -> None:
        flatten = getattr(tensor, "__tensor_flatten__", None)
        self.made: type = type(tensor)
        if flatten is None or getattr(self.made, "__tensor_unflatten__", None) is None:
            raise RuntimeError(
                f"cannot be traced: a result is a {self.made.__name__} that the function made; a graph makes it again "
                "if its class has __tensor_flatten__ and __tensor_unflatten__"
            )
        self.names, self.context = flatten()
        if any(isinstance(leaf, _VALUES) for leaf in pytree.tree_leaves(self.context)):
            raise RuntimeError(
                f"cannot be traced: a result is a {self.made.__name__} whose context has values of the trace"
            )

    def parts(self, tensor: torch.Tensor) -> list[Any]:
        return [*(getattr(tensor, name) for name in self.names), tensor.size(), tensor.stride()]


def wrapped(wrapper: Wrapper, *parts: Any) -> torch.Tensor:
    """The tensor subclass over what `Wrapper.parts` gave. A node calls it."""
    *inner, size, stride = parts
    given = dict(zip(wrapper.names, inner, strict=True))
    return wrapper.made.__tensor_unflatten__(given, wrapper.context, torch.Size(size), tuple(stride))  # type: ignore[attr-defined]


def holds_fakes(tensor: torch.Tensor) -> bool:
    return _C._fake.is_fake(tensor) or any(_C._fake.is_fake(inner) for inner in _inner(tensor, set()))


def _inner(tensor: torch.Tensor, seen: set[int]) -> Iterator[torch.Tensor]:
    """The tensors that it holds, and those that they hold."""
    seen.add(id(tensor))
    for value in vars(tensor).values():
        if isinstance(value, torch.Tensor) and id(value) not in seen:
            yield value
            if is_subclass(value):
                yield from _inner(value, seen)


def _over_fakes(tracer: Any, tensor: torch.Tensor, name: str) -> torch.Tensor:
    if not is_subclass(tensor):
        return tracer.fake_of(tensor)
    flatten, unflatten = (getattr(tensor, attr, None) for attr in ("__tensor_flatten__", "__tensor_unflatten__"))
    if flatten is None or unflatten is None:
        raise RuntimeError(
            f"cannot be traced: the input {name} is a {type(tensor).__name__}, which needs __tensor_flatten__ and "
            '__tensor_unflatten__ in this mode; or use tracing_mode="real"'
        )
    names, context = flatten()
    inner = {attr: _over_fakes(tracer, getattr(tensor, attr), name) for attr in names}
    made = unflatten(inner, context, tensor.size(), tensor.stride())
    return made.requires_grad_(tensor.requires_grad)
