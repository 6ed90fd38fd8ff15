"""Copies of inputs and of the state of a program, for tests and measurements that run it more than once.

`clone_input` and `clone_inputs` copy all that a program may read of arguments: strides, alignment, gradients, marks.
`checkpoint_params` saves the state that a training step changes, and returns a function that restores it.
`same` tells whether two results are the same, up to rounding.
"""

from __future__ import annotations

import copy
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .same import bitwise_same, rmse, same

__all__ = ["bitwise_same", "checkpoint_params", "clone_input", "clone_inputs", "rmse", "same", "timed_run"]

# Copies have the same address modulo this many bytes, because kernels are selected by alignment.
_ALIGNMENT = 32
# Attributes that mark sizes of a tensor as dynamic, or its address as static.
_MARKS = "_dynamo_"


def clone_input(x: torch.Tensor, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A copy of `x` with its sizes, strides, dtype (or the one given), device and alignment; a leaf keeps
    `requires_grad` and has a copy of its gradient. Marks of dynamic sizes are copied too.

    A tensor whose elements share memory becomes a contiguous copy. Sparse and quantised tensors keep their layout,
    subclasses that wrap other tensors copy themselves, and a tensor without data is returned unchanged.
    """
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"clone_input takes a tensor, not {type(x).__name__}")
    if _has_no_data(x):
        return x
    with torch.no_grad():
        result = _copy_data(x, dtype or x.dtype)
    _copy_gradient(x, result)
    _copy_marks(x, result)
    return result


def clone_inputs(inputs: Any) -> Any:
    """Copies of a collection of arguments. A dict becomes a dict whose values are tensors, or tuples of them, which
    become lists; any other sequence becomes a list in which tensors are copied and all else is kept."""
    if type(inputs) is dict:
        return {key: _clone_value(value) for key, value in inputs.items()}
    return [clone_input(item) if isinstance(item, torch.Tensor) else item for item in inputs]


def checkpoint_params(module: torch.nn.Module) -> Callable[[], None]:
    """Saves the parameters and buffers of `module` and the state of the random generators. Returns a function that
    restores them; tensors that were not written to since are not touched."""
    cpu = torch.random.get_rng_state()
    accelerators = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    with torch.no_grad():
        saved = [(tensor, tensor._version, tensor.clone()) for tensor in (*module.parameters(), *module.buffers())]

    def restore() -> None:
        with torch.no_grad():
            torch.random.set_rng_state(cpu)
            if accelerators:
                torch.cuda.set_rng_state_all(accelerators)
            for tensor, version, value in saved:
                # Some kernels write without a new version, as batch norm does to its statistics.
                if tensor._version != version or not torch.equal(tensor, value):
                    tensor.copy_(value)

    return restore


def timed_run(function: Callable[..., Any], inputs: Sequence[Any], times: int = 1) -> tuple[Any, float]:
    """Calls `function(*inputs)` some times, with the same random numbers. The last result, and the seconds it took; an
    accelerator has finished its work before and after."""
    torch.manual_seed(1337)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = None
    for _ in range(times):
        result = function(*inputs)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return result, time.perf_counter() - start


def _clone_value(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [clone_input(item) for item in _tensors(value)]
    (tensor,) = _tensors([value])
    return clone_input(tensor)


def _tensors(values: Sequence[Any]) -> Sequence[torch.Tensor]:
    for value in values:
        if not isinstance(value, torch.Tensor):
            raise AssertionError(f"a dict of inputs holds tensors and tuples of them, not {type(value).__name__}")
    return values


def _has_no_data(x: torch.Tensor) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(x, FakeTensor)


def _copy_data(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if x.layout is torch.sparse_coo:
        indices, values = clone_input(x._indices()), clone_input(x._values(), dtype=dtype)
        return torch.sparse_coo_tensor(indices, values, x.shape, is_coalesced=x.is_coalesced(), check_invariants=False)
    if x.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = clone_input(x.crow_indices()), clone_input(x.col_indices()), clone_input(x.values(), dtype=dtype)
        return torch.sparse_compressed_tensor(*parts, x.shape, layout=x.layout)
    if x.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = clone_input(x.ccol_indices()), clone_input(x.row_indices()), clone_input(x.values(), dtype=dtype)
        return torch.sparse_compressed_tensor(*parts, x.shape, layout=x.layout)
    if x.layout is not torch.strided or x.is_quantized or not _is_plain(x):
        return x.clone()
    if x.is_meta or x.is_nested or _elements_share_memory(x):
        return x.to(dtype, copy=True, memory_format=torch.contiguous_format)
    result = _aligned_storage(x, dtype)
    result.copy_(x)
    return result


def _is_plain(x: torch.Tensor) -> bool:
    return type(x) in (torch.Tensor, torch.nn.Parameter)


def _elements_share_memory(x: torch.Tensor) -> bool:
    """Whether elements may share memory. They do not if, in the order of strides, each dimension steps over all
    elements of the smaller ones."""
    reach = 0
    for stride, size in sorted(zip(x.stride(), x.shape, strict=True)):
        if size <= 1:
            continue
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def _aligned_storage(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """An uninitialised tensor with the strides of `x`, at an address equal to that of `x` modulo the alignment."""
    width = dtype.itemsize
    needed = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) + 1 if x.numel() else 0
    buffer = torch.empty(needed + _ALIGNMENT // min(width, _ALIGNMENT), dtype=dtype, device=x.device)
    distance = (x.data_ptr() - buffer.data_ptr()) % _ALIGNMENT
    # If this dtype cannot have the address of `x`, use the nearest address that is aligned for an element.
    return buffer.as_strided(x.shape, x.stride(), distance // width)


def _copy_gradient(x: torch.Tensor, result: torch.Tensor) -> None:
    if x.is_leaf and (result.is_floating_point() or result.is_complex()):
        result.requires_grad_(x.requires_grad)
        if x.grad is not None and x.grad.dtype == result.dtype:
            result.grad = clone_input(x.grad)


def _copy_marks(x: torch.Tensor, result: torch.Tensor) -> None:
    for name in [name for name in vars(result) if name.startswith(_MARKS)]:
        delattr(result, name)
    for name, value in vars(x).items():
        if name.startswith(_MARKS):
            setattr(result, name, copy.copy(value))
