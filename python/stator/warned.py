"""Warnings that a captured program gives by `warnings.warn`: the plan gives them when it replays the side effects."""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any

_SHOWN_BY = {name: getattr(warnings, name) for name in ("_showwarnmsg", "_showwarnmsg_impl", "showwarning")}


def only_shows() -> bool:
    """Whether no filter turns warnings into errors, and no code of the program shows them. A list may record them."""
    if getattr(warnings, "defaultaction", "default") == "error" or any(rule[0] == "error" for rule in warnings.filters):
        return False
    for name, standard in _SHOWN_BY.items():
        found = getattr(warnings, name, None)
        records = isinstance(found, types.BuiltinMethodType) and type(found.__self__) is list
        if found is not standard and not records:
            return False
    return True


def module_of(variables: dict[str, Any]) -> str | None:
    """The name of the module with these globals; None if there is none."""
    name = variables.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return name if isinstance(module, types.ModuleType) and vars(module) is variables else None


def give(message: str, category: type[Warning], file: str, line: int, module: str) -> None:
    """What `warnings.warn` does for a line of the module."""
    registry = vars(sys.modules[module]).setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, file, line, module, registry)
