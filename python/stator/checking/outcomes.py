"""What a run gave, in a form that can be compared with another run and sent to another process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.utils._pytree as pytree

from ..same import rmse
from .tensor_state import has_memory

_PLAIN = (bool, int, float, complex, str, bytes, type(None))

# The name of a part of a result, and what is compared of it: a detached copy of a tensor, or a plain value.
Leaf = tuple[str, Any]


@dataclass(frozen=True)
class TensorFacts:
    """A copy of a tensor, and the metadata that the copy does not have."""

    data: torch.Tensor
    strides: tuple[int, ...]
    requires_grad: bool


@dataclass
class Outcome:
    """The results of a run, or the error that it raised. `ms`: the longest capture of the run."""

    leaves: list[Leaf] = field(default_factory=list)
    error: str | None = None
    message: str = ""
    ms: float = 0.0


def leaves_of(value: Any, name: str = "result") -> Iterator[Leaf]:
    """The parts of a value that are compared. Objects of other classes are compared by their class."""
    for path, leaf in pytree.tree_flatten_with_path(value)[0]:
        where = name + pytree.keystr(path)
        if isinstance(leaf, torch.Tensor):
            yield where, tensor_facts(leaf)
        elif isinstance(leaf, _PLAIN):
            yield where, leaf
        else:
            yield where, f"<{type(leaf).__module__}.{type(leaf).__qualname__}>"


def tensor_facts(tensor: torch.Tensor) -> TensorFacts:
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        strides = tensor.stride() if tensor.layout is torch.strided else ()
        data = tensor.detach().clone() if has_memory(tensor) else tensor.new_empty(0)
        return TensorFacts(data, tuple(strides), tensor.requires_grad)


def outcome_of(run: Callable[[], list[Leaf]]) -> Outcome:
    try:
        return Outcome(run())
    except Exception as error:
        return Outcome(error=type(error).__name__, message=str(error))


def first_difference(
    ref: Sequence[Leaf], res: Sequence[Leaf], tol: float, exact: Sequence[Leaf] | None = None
) -> str | None:
    """The first part of `res` that is not that of `ref`, as text. `exact`: the same in double precision, if known: then
    errors are allowed that are not much larger than those of `ref`."""
    names, others = [name for name, _ in ref], [name for name, _ in res]
    if names != others:
        only = next((name for name in (*names, *others) if (name in names) != (name in others)), names[:1])
        return f"the parts of the result are others: {only}"
    for index, ((name, one), (_, other)) in enumerate(zip(ref, res, strict=True)):
        referee = exact[index][1] if exact is not None and len(exact) == len(ref) else None
        if (text := _difference(one, other, tol, referee)) is not None:
            return f"{name}: {text}"
    return None


def _difference(ref: Any, res: Any, tol: float, referee: Any) -> str | None:
    if isinstance(ref, TensorFacts) and isinstance(res, TensorFacts):
        return _tensor_difference(ref, res, tol, referee.data if isinstance(referee, TensorFacts) else None)
    if type(ref) is not type(res):
        return f"{_kind(ref)} and {_kind(res)}"
    if type(ref) is float:
        is_same = (
            ref == res or (math.isnan(ref) and math.isnan(res)) or math.isclose(ref, res, rel_tol=tol, abs_tol=tol)
        )
    else:
        is_same = ref == res
    return None if is_same else f"{ref!r} and {res!r}"


def _kind(value: Any) -> str:
    return "a tensor" if isinstance(value, TensorFacts) else f"{type(value).__name__} {value!r}"


def _tensor_difference(ref: TensorFacts, res: TensorFacts, tol: float, referee: torch.Tensor | None) -> str | None:
    a, b = ref.data, res.data
    for what, one, other in (
        ("dtypes", a.dtype, b.dtype),
        ("sizes", tuple(a.shape), tuple(b.shape)),
        ("devices", a.device, b.device),
        ("layouts", a.layout, b.layout),
        ("strides", _strides(ref), _strides(res)),
        ("requires_grad", ref.requires_grad, res.requires_grad),
    ):
        if one != other:
            return f"{what} {one} and {other}"
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    if a.is_meta or a.is_quantized or torch.equal(a, b):
        return None
    if not (a.is_floating_point() or a.is_complex()):
        return f"{int((a != b).sum())} of {a.numel()} values differ"
    wide = torch.complex128 if a.is_complex() else torch.float64
    x, y = a.to(wide), b.to(wide)
    if torch.allclose(x, y, atol=tol, rtol=tol, equal_nan=True):
        return None
    if referee is not None and referee.shape == a.shape and rmse(referee, b) <= 2 * rmse(referee, a) + tol / 10:
        return None
    gap = (x - y).abs()
    gap = gap[~gap.isnan()]
    largest = gap.max().item() if gap.numel() else math.nan
    return f"values differ by up to {largest:g} ({str(a.dtype)[6:]}{list(a.shape)})"


def _strides(facts: TensorFacts) -> tuple[int, ...]:
    """The strides that say where elements are: not those of dimensions of one element, nor those of an empty tensor."""
    if facts.data.numel() == 0:
        return ()
    return tuple(s for s, n in zip(facts.strides, facts.data.shape, strict=False) if n != 1)
