"""Backward passes inside compiled calls, captured while `stator.config.compiled_autograd` is set.

Torch's compiled autograd turns a run of the autograd engine into a program. Stator compiles it like any other, with
the settings of the function that was called. Compiled autograd is imported when the setting is first used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch

from . import _C

if TYPE_CHECKING:
    from .targets import Settings

# The settings that compiled the programs in torch's cache. The cache key is the backward pass alone, so the cache is
# cleared when the settings change.
_kept_for: Settings | None = None


def call(compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a compiled function; a backward pass that starts before it returns is compiled as well."""
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
    """Drops the programs of backward passes, unless one of them is running."""
    global _kept_for
    if _kept_for is None or sys.modules["torch._dynamo.compiled_autograd"].in_compiled_autograd_region:
        return
    torch._C._dynamo.compiled_autograd.clear_cache()
    _kept_for = None


_C.set_backward_caller(call)
