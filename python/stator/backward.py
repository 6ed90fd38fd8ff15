"""Backward passes inside of compiled calls, captured while `stator.config.compiled_autograd` is set.

Torch's compiled autograd turns a run of the autograd engine into a program; here that program is compiled like any
other, with the settings of the function that was called. Its code is loaded when the setting is first used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from . import _C

if TYPE_CHECKING:
    from .targets import Settings

# Whose programs torch keeps now: it finds them by what a backward pass does, whoever compiled them.
_kept_for: Settings | None = None


def call(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a compiled function; a backward pass that starts before it returns is compiled, too."""
    from torch._dynamo import compiled_autograd

    global _kept_for
    settings = compiled._stator_settings
    if settings is not _kept_for:
        forget()
        _kept_for = settings

    def compile_pass(gm: Any) -> Any:
        _C.count("compiled_autograd.compiles")
        return settings.for_backward()(gm)

    with compiled_autograd._enable(compile_pass, dynamic=bool(settings.dynamic)):
        return compiled(*args, **kwargs)


def forget() -> None:
    """Drops the programs that were made of backward passes, unless one of them is running."""
    global _kept_for
    if _kept_for is None or sys.modules["torch._dynamo.compiled_autograd"].in_compiled_autograd_region:
        return
    torch._C._dynamo.compiled_autograd.clear_cache()
    _kept_for = None


_C.set_backward_caller(call)
