"""Warnings that a captured program gives by `warnings.warn`: the plan gives them when it replays the side effects."""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any

_SHOWN_BY = (
    "_showwarnmsg",
    "_showwarnmsg_impl",
    "showwarning",
    "_formatwarnmsg",
    "_formatwarnmsg_impl",
    "formatwarning",
)


def only_shows() -> bool:
    """Whether no filter turns warnings into errors, and no code of the program shows them. A list may record them."""
    if getattr(warnings, "defaultaction", "default") == "error" or any(rule[0] == "error" for rule in warnings.filters):
        return False
    return all(_is_standard(getattr(warnings, name, None)) for name in _SHOWN_BY)


def _is_standard(shown_by: Any) -> bool:
    """Whether it is a function of `warnings` itself, or a method of a list."""
    if isinstance(shown_by, types.FunctionType):
        return shown_by.__globals__ is vars(warnings)
    return isinstance(shown_by, types.BuiltinMethodType) and type(shown_by.__self__) is list


def module_of(variables: dict[str, Any]) -> str | None:
    """The name of the module with these globals; None if there is none."""
    name = variables.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return name if isinstance(module, types.ModuleType) and vars(module) is variables else None


def give(message: str, category: type[Warning], file: str, line: int, module: str) -> None:
    """What `warnings.warn` does for a line of the module."""
    place = sys.modules.get(module)
    registry = {} if place is None else vars(place).setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, file, line, module, registry)
