"""Stator: TorchDynamo and make_fx, native.

    import torch, stator

    @stator.compile
    def step(x): ...

`compile` captures programs into graphs; `explain` says what it made of one; `config`, `counters` and `errors` are what
their names say. See docs/architecture.md for how it works.
"""

import torch as _torch  # first: the extension needs torch's libraries loaded  # noqa: F401

from . import _C, errors
from .api import cache_entries, check_supported, compile, counters, is_supported, reset
from .backends import list_backends, register_backend
from .config import config
from .errors import (
    BackendCompilerFailed,
    InternalError,
    InvalidBackend,
    InvalidOption,
    InvalidTarget,
    RecompileLimitExceeded,
    SkipFrame,
    StatorError,
    Unsupported,
)
from .explain import ExplainOutput, explain
from .modes import disable, run
from .user import graph_break, is_compiling

__version__ = "0.1.0"

_C.set_error_types(Unsupported, InternalError, RecompileLimitExceeded, BackendCompilerFailed, SkipFrame)

__all__ = [
    "BackendCompilerFailed",
    "ExplainOutput",
    "InternalError",
    "InvalidBackend",
    "InvalidOption",
    "InvalidTarget",
    "RecompileLimitExceeded",
    "SkipFrame",
    "StatorError",
    "Unsupported",
    "cache_entries",
    "check_supported",
    "compile",
    "config",
    "counters",
    "disable",
    "errors",
    "explain",
    "graph_break",
    "is_compiling",
    "is_supported",
    "list_backends",
    "register_backend",
    "reset",
    "run",
]
