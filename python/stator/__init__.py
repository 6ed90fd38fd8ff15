"""Stator: TorchDynamo and make_fx in C++.

    import torch, stator

    @stator.compile
    def step(x): ...

`compile` captures programs as graphs, `make_fx` traces one call of a function, `explain` reports what one call was
captured as, `config` holds settings, `counters` counts captures, hits and breaks, `errors` defines the exceptions.
docs/architecture.md explains the design.
"""

import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

import torch as _torch  # first: the extension needs torch's libraries loaded

try:
    from . import _C
except ImportError as _error:
    raise ImportError(
        f"Stator's extension cannot be loaded with torch {_torch.__version__}; if it is not built yet, or was built "
        "for another torch, run `make build`"
    ) from _error

from . import backward_code as _backward_code  # noqa: F401 (the extension uses it)
from . import errors, metrics
from . import functions as _functions  # noqa: F401 (the same)
from . import rebuilt as _rebuilt  # noqa: F401 (the same)
from . import warned as _warned  # noqa: F401 (the same)
from .api import cache_entries, check_supported, compile, forget, is_supported, reset
from .backends import list_backends, register_backend
from .config import config
from .counts import counters
from .errors import (
    BackendCompilerFailed,
    ConstraintViolation,
    InternalError,
    InvalidBackend,
    InvalidOption,
    InvalidTarget,
    OracleError,
    RecompileForbidden,
    RecompileLimitExceeded,
    SkipFrame,
    StateChanged,
    StatorError,
    Unsupported,
)
from .guards import Guard, GuardFail
from .logs import log_file, set_logs
from .marks import (
    allow_in_graph,
    assume_constant_result,
    disallow_in_graph,
    mark_dynamic,
    mark_static,
    mark_static_address,
    mark_unbacked,
    maybe_mark_dynamic,
    nonstrict_trace,
    substitute_in_graph,
)
from .modes import disable, run
from .passes import functionalize_function as functionalize
from .skipfiles import default_skipped_files
from .stances import error_on_graph_break, set_stance
from .times import compile_times, timed
from .user import graph_break, is_compiling

__version__ = "0.1.0"

if _TYPE_CHECKING:
    from . import callbacks, events, once, testing, trace
    from .checking.repro import repro
    from .profiler import profile
    from .records import record_failures, replay
    from .report import ExplainOutput, explain
    from .tracing import make_fx

# Reports and test helpers are imported on first use.
_LATER = {
    "ExplainOutput": "report",
    "callbacks": "callbacks",
    "events": "events",
    "once": "once",
    "trace": "trace",
    "explain": "report",
    "make_fx": "tracing",
    "profile": "profiler",
    "record_failures": "records",
    "replay": "records",
    "repro": "checking.repro",
    "testing": "testing",
}


def __getattr__(name: str) -> object:
    if name in _LATER:
        from importlib import import_module

        module = import_module(f"stator.{_LATER[name]}")
        return module if _LATER[name] == name else getattr(module, name)
    raise AttributeError(f"module 'stator' has no attribute {name!r}")


if _os.environ.get("STATOR_TRACE"):
    from .trace import _start_from_environment

    _start_from_environment()

_C.set_skipped_files(default_skipped_files())
_C.set_error_types(
    Unsupported,
    InternalError,
    RecompileLimitExceeded,
    BackendCompilerFailed,
    SkipFrame,
    RecompileForbidden,
    OracleError,
    ConstraintViolation,
)

__all__ = [
    "BackendCompilerFailed",
    "ConstraintViolation",
    "ExplainOutput",
    "Guard",
    "GuardFail",
    "InternalError",
    "InvalidBackend",
    "InvalidOption",
    "InvalidTarget",
    "OracleError",
    "RecompileForbidden",
    "RecompileLimitExceeded",
    "SkipFrame",
    "StateChanged",
    "StatorError",
    "Unsupported",
    "allow_in_graph",
    "assume_constant_result",
    "cache_entries",
    "callbacks",
    "check_supported",
    "compile",
    "compile_times",
    "config",
    "counters",
    "disable",
    "disallow_in_graph",
    "error_on_graph_break",
    "errors",
    "events",
    "explain",
    "forget",
    "functionalize",
    "graph_break",
    "is_compiling",
    "is_supported",
    "list_backends",
    "log_file",
    "make_fx",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "metrics",
    "nonstrict_trace",
    "once",
    "profile",
    "record_failures",
    "register_backend",
    "replay",
    "repro",
    "reset",
    "run",
    "set_logs",
    "set_stance",
    "substitute_in_graph",
    "testing",
    "timed",
    "trace",
]
