"""The guard callbacks of a `compile` call: filter, export and failure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

# Kinds that torch.compile has as well, by its names, so that filters written for it work here.
_TYPES = {
    "Tensor": "TENSOR_MATCH",
    "Identity": "ID_MATCH",
    "Equals": "EQUALS_MATCH",
    "TypeIs": "TYPE_MATCH",
    "Length": "SEQUENCE_LENGTH",
    "Keys": "DICT_KEYS_MATCH",
    "Absent": "DICT_CONTAINS",
    "Code": "CLOSURE_MATCH",
    "SameAs": "DUPLICATE_INPUT",
    "NoAttribute": "NOT_PRESENT_IN_GENERIC_DICT",
}


class Guard(NamedTuple):
    """A fact that a capture relied on: its source (`x.weight`, `self.layers[0]`), its kind, and the guarded value.
    `module`: the class of the module that the source is, or belongs to."""

    name: str
    guard_type: str
    value: Any
    is_global: bool
    text: str
    module: type | None = None

    @property
    def has_value(self) -> bool:
        return True

    @property
    def derived_guard_types(self) -> tuple[str, ...]:
        return ()

    # `guard.orig_guard.source` is how filters of torch.compiler (skip_guard_on_...) ask about modules.

    @property
    def orig_guard(self) -> Guard:
        return self

    @property
    def source(self) -> Guard:
        return self

    def is_unspecialized_nn_module(self) -> bool:
        return self.module is not None

    def is_unspecialized_builtin_nn_module(self) -> bool:
        return self.module is not None and self.module.__module__.startswith(("torch.nn.", "torch.ao."))


class GuardFail(NamedTuple):
    """An entry whose guards failed: its compile id, the guard that failed, and the code object."""

    reason: str
    orig_code: CodeType


Filter = Callable[[Sequence[Guard]], Sequence[bool]]
Export = Callable[[Sequence[Guard]], Any]
Fail = Callable[[GuardFail], Any]

_Row = tuple[str, str, Any, bool, str, type | None]


def _guards(rows: list[_Row]) -> list[Guard]:
    return [Guard(name, _TYPES.get(kind, kind), *rest) for name, kind, *rest in rows]


def callbacks(filter_fn: Filter | None, export_fn: Export | None, fail_fn: Fail | None) -> tuple[Any, Any, Any] | None:
    """The functions that the extension calls for these callbacks; None if there are none."""
    if filter_fn is None and export_fn is None and fail_fn is None:
        return None

    def filtered(rows: list[_Row]) -> Sequence[bool]:
        assert filter_fn is not None
        return filter_fn(_guards(rows))

    def exported(rows: list[_Row]) -> None:
        assert export_fn is not None
        export_fn(_guards(rows))

    def failed(reason: str, code: CodeType) -> None:
        assert fail_fn is not None
        fail_fn(GuardFail(reason, code))

    return filter_fn and filtered, export_fn and exported, fail_fn and failed
