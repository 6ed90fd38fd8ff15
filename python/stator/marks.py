"""Marks that users put on functions and tensors. The marks of torch's own functions have the same effect."""

from __future__ import annotations

import functools
import inspect
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch

from . import _C
from .errors import InvalidTarget

F = TypeVar("F", bound=Callable[..., Any])

# Read by the extension: addresses of marked callables, and the functions that are captured in place of others.
allowed: set[int] = set()
disallowed: set[int] = set()
substitutes: dict[Callable[..., Any], Callable[..., Any]] = {}
# Marked callables without weak reference support are kept alive, so that their addresses are not reused.
_held: list[Any] = []


def _must_be_callable(fn: Any) -> None:
    if not callable(fn):
        raise InvalidTarget(f"{type(fn).__name__} cannot be called: {fn!r}", hint="mark a function")


def _mark(fn: Any, mark: set[int], other: set[int]) -> Any:
    if isinstance(fn, (list, tuple)):
        return [_mark(each, mark, other) for each in fn]
    _must_be_callable(fn)
    address = id(fn)
    other.discard(address)
    if address not in mark:
        mark.add(address)
        _C.drop_marked(fn)
        try:
            weakref.finalize(fn, mark.discard, address)
        except TypeError:
            _held.append(fn)
    return fn


def allow_in_graph(fn: Any) -> Any:
    """Marks a callable, or each of a list: its operators are put into the graph, and graph breaks in it are ignored. A
    Python backend sees one node that calls it, if it neither reads data, nor writes to its arguments, nor returns views
    of them.

    `torch.compiler.allow_in_graph` has the same effect.
    """
    return _mark(fn, allowed, disallowed)


def disallow_in_graph(fn: Any) -> Any:
    """Marks a callable, or each of a list: captures break at its calls."""
    return _mark(fn, disallowed, allowed)


def nonstrict_trace(fn: F) -> F:
    """Returns a function that calls `fn` and is allowed in graphs; `fn` itself is not marked."""
    _must_be_callable(fn)

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    allow_in_graph(call)
    return call  # type: ignore[return-value]


def assume_constant_result(fn: F) -> F:
    """Marks a function that always returns the same result for the same arguments within a process. The capture calls
    it once and treats the result as a constant."""
    _must_be_callable(fn)
    fn._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return fn


def substitute_in_graph(original: Callable[..., Any], *, skip_signature_check: bool = False) -> Callable[[F], F]:
    """A decorator for a Python function that is equivalent to `original` and is captured in place of it. Outside a
    capture, the decorated function calls the original."""
    _must_be_callable(original)

    def decorate(substitute: F) -> F:
        if not inspect.isfunction(substitute):
            raise InvalidTarget(
                f"{substitute!r} is not a Python function", hint="substitute by a function written in Python"
            )
        if original in substitutes:
            raise ValueError(f"{original!r} is already substituted by {substitutes[original]!r}")
        if not skip_signature_check:
            _check_signatures(original, substitute)

        @functools.wraps(substitute)
        def call(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs)

        substitutes[original] = substitutes[call] = substitute
        return call  # type: ignore[return-value]

    return decorate


def _check_signatures(original: Callable[..., Any], substitute: Callable[..., Any]) -> None:
    def shape(signature: inspect.Signature) -> list[tuple[Any, ...]]:
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return [
            (p.kind,) if p.kind in variadic else (p.name, p.kind is p.KEYWORD_ONLY, p.default)
            for p in signature.parameters.values()
        ]

    try:
        expected, given = inspect.signature(original), inspect.signature(substitute)
    except ValueError:  # a C function without a signature
        return
    anything = shape(inspect.signature(lambda *args, **kwargs: None))
    if shape(expected) != shape(given) and anything not in (shape(expected), shape(given)):
        raise TypeError(f"{substitute!r} takes {given}, but {original!r} takes {expected}")


# Marks on tensors are attributes that torch defines; Stator's functions write the same ones, without importing
# torch.compile's modules.

_warned: set[str] = set()


def warn_once(text: str) -> None:
    """Warns, once per process and text."""
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, UserWarning, stacklevel=3)


class DimRange(NamedTuple):
    """The sizes that a marked dimension may have, as torch.compile reads them."""

    dim: int
    min: int | None
    max: int | None


def _indices(tensor: Any, index: int | Sequence[int]) -> list[int]:
    if not isinstance(tensor, torch.Tensor):
        raise InvalidTarget(f"{type(tensor).__name__} is not a tensor", hint="mark a tensor")
    return [index] if isinstance(index, int) else list(index)


def _mark_dimensions(tensor: Any, index: int | Sequence[int], attribute: str) -> None:
    indices = _indices(tensor, index)
    if not hasattr(tensor, attribute):
        setattr(tensor, attribute, set())
    getattr(tensor, attribute).update(indices)
    tensor._has_dynamo_dim_marking = True


def _note(tensor: Any, index: int | Sequence[int], attribute: str, value: Any) -> None:
    """Stores the value for each dimension, in a dict that is an attribute of the tensor."""
    if not hasattr(tensor, attribute):
        setattr(tensor, attribute, {})
    getattr(tensor, attribute).update((dim, value) for dim in _indices(tensor, index))


def _note_hints(tensor: Any, index: int | Sequence[int], hint: int | None, specialize_on: list[Any] | None) -> None:
    """Stores what only some backends of torch read."""
    if not hasattr(tensor, "_dynamo_hint_overrides"):
        tensor._dynamo_hint_overrides = {}
    if hint:
        _note(tensor, index, "_dynamo_hint_overrides", hint)
    _note(tensor, index, "_specialize_on", [] if specialize_on is None else specialize_on)


def mark_dynamic(
    tensor: torch.Tensor,
    index: int | Sequence[int],
    *,
    hint_override: int | None = None,
    min: int | None = None,
    max: int | None = None,
    specialize_on: list[Any] | None = None,
) -> None:
    """Marks a size of the tensor as varying: a capture makes it a symbol. If the program needs its value, or the size
    is not between `min` and `max`, the call raises ConstraintViolation. `hint_override` and `specialize_on` are stored
    for backends; they change nothing in a capture."""
    if isinstance(tensor, torch.nn.Parameter) and _C.get_config("force_parameter_static_shapes"):
        warnings.warn(
            "sizes of parameters are static, so mark_dynamic has no effect on a parameter; "
            "stator.config.force_parameter_static_shapes = False makes them as other sizes",
            UserWarning,
            stacklevel=2,
        )
    _mark_dimensions(tensor, index, "_dynamo_dynamic_indices")
    _note_hints(tensor, index, hint_override, specialize_on)
    marked: Any = tensor
    if not hasattr(marked, "_dynamo_dynamic_range"):
        marked._dynamo_dynamic_range = set()
    marked._dynamo_dynamic_range.update(DimRange(dim, min, max) for dim in _indices(tensor, index))


def maybe_mark_dynamic(tensor: torch.Tensor, index: int | Sequence[int]) -> None:
    """As `mark_dynamic`, without a range. If the program needs the value, it is a constant of the capture, which
    `stator.explain` reports."""
    _mark_dimensions(tensor, index, "_dynamo_weak_dynamic_indices")


def mark_unbacked(
    tensor: torch.Tensor,
    index: int | Sequence[int],
    hint_override: int | None = None,
    strict: bool = False,
    specialize_on: list[Any] | None = None,
    shape_id: str | None = None,
    min: int | None = None,
    max: int | None = None,
) -> None:
    """Marks a size of the tensor as unbacked: a capture assumes nothing about it, and breaks where the program needs
    its value. One capture serves all sizes, 0 and 1 too.

    min, max, shape_id: the capture takes the size to be in this range, and sizes of one `shape_id` to be equal. The
    graph verifies that; a call for which it does not hold runs as plain Python.
    strict: has no further effect here, since an unbacked size never becomes a constant.
    hint_override, specialize_on: stored for backends; they change nothing in a capture."""
    _mark_dimensions(tensor, index, "_dynamo_strict_unbacked_indices" if strict else "_dynamo_unbacked_indices")
    _note_hints(tensor, index, hint_override, specialize_on)
    if min is not None or max is not None:
        _note(tensor, index, "_dynamo_unbacked_bounds", (min, max))
    if shape_id is not None:
        _note(tensor, index, "_dynamo_shape_ids", shape_id)


def mark_static(tensor: Any, index: int | Sequence[int] | None = None) -> None:
    """Marks sizes of the tensor, or all of a module class, as static: they do not become symbols."""
    if isinstance(tensor, type) and issubclass(tensor, torch.nn.Module):
        marked: Any = tensor
        marked._dynamo_marked_static = True
        return
    if torch.compiler.is_compiling():  # only sizes of inputs become symbols
        return
    _mark_dimensions(tensor, range(tensor.dim()) if index is None else index, "_dynamo_static_indices")


def mark_static_address(tensor: torch.Tensor, guard: bool = False) -> None:
    """Marks the tensor's address as static, for backends that ask for it."""
    if not isinstance(tensor, torch.Tensor):
        raise InvalidTarget(f"{type(tensor).__name__} is not a tensor", hint="mark a tensor")
    marked: Any = tensor
    marked._dynamo_static_input_type = "guarded" if guard else "unguarded"
