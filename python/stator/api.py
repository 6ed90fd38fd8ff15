"""`compile` and the small functions beside it."""

from __future__ import annotations

import os
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, overload

import torch

from . import _C, backends, backward
from .config import check_compatible, config
from .errors import InvalidOption, InvalidTarget, StatorError
from .guards import Export, Fail, Filter
from .logs import log
from .targets import Settings, compile_target

T = TypeVar("T")

SUPPORTED_PYTHONS = ((3, 11), (3, 12))


@overload
def compile(
    model: T,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    error_on_graph_break: bool | None = None,
    guard_filter_fn: Filter | None = None,
    guard_export_fn: Export | None = None,
    guard_fail_fn: Fail | None = None,
) -> T: ...


@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    error_on_graph_break: bool | None = None,
    guard_filter_fn: Filter | None = None,
    guard_export_fn: Export | None = None,
    guard_fail_fn: Fail | None = None,
) -> Callable[[T], T]: ...


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    error_on_graph_break: bool | None = None,
    guard_filter_fn: Filter | None = None,
    guard_export_fn: Export | None = None,
    guard_fail_fn: Fail | None = None,
) -> Any:
    """Captures a function, method, class, nn.Module or other callable as graphs on its first call. Later calls check
    guards and run the graph. Code that cannot be captured runs as plain Python.

    fullgraph: the call must be captured in one graph; otherwise `stator.Unsupported` names the break.
    dynamic: True makes sizes symbolic, False static, None static until one changes.
    backend: a name of `list_backends()` or a callable `(gm, example_inputs) -> callable`; None is the default backend.
    mode, options: passed to the backend if it accepts them.
    error_on_graph_break: True makes a break in this callable an error even if its caller allows breaks; False allows
        breaks even if the caller forbids them; None inherits from the caller. `fullgraph` overrides both.
    guard_filter_fn: gets a list of `stator.Guard` and returns for each whether it is checked. The user is responsible
        for the facts that it leaves out.
    guard_export_fn: gets the guards of each capture that made a graph.
    guard_fail_fn: on a recompilation, gets a `stator.GuardFail` for each entry whose guards failed.
    disable: returns `model` unchanged. The environment variable STATOR_DISABLE=1 does so for every call.

    Without `model` it returns a decorator.
    """
    check_supported()
    check_compatible()
    if not isinstance(disable, bool):
        raise InvalidOption(f"disable must be True or False, not {disable!r}")
    callbacks = (guard_filter_fn, guard_export_fn, guard_fail_fn)
    settings = Settings(fullgraph, dynamic, backend, mode, options, error_on_graph_break, *callbacks)
    log.forget()
    if disable or os.environ.get("STATOR_DISABLE") == "1":
        return _Decorator(None) if model is None else _unchanged(model)
    return _Decorator(settings) if model is None else compile_target(model, settings)


class _Decorator:
    """What `compile` without a target returns."""

    def __init__(self, settings: Settings | None):
        self._settings = settings
        self._entered = 0

    def __call__(self, target: T) -> T:
        return _unchanged(target) if self._settings is None else compile_target(target, self._settings)

    def __enter__(self) -> None:
        if self._settings is None:
            return
        if config.raise_on_ctx_manager_usage:
            raise StatorError(
                "stator.compile is not a context manager",
                hint="compile the function that the block calls: @stator.compile",
                code="context-manager",
            )
        _C.enter_block(compile_target(lambda: None, self._settings))
        self._entered += 1

    def __exit__(self, *exc: object) -> None:
        if self._settings is None:
            return
        if not self._entered:
            raise AssertionError("left a block that was never entered")
        self._entered -= 1
        _C.leave_block()


def _unchanged(target: T) -> T:
    if not callable(target):
        raise InvalidTarget(f"{type(target).__name__} cannot be called: {target!r}", hint="pass a callable")
    return target


def is_supported() -> bool:
    """Whether Stator supports this Python version."""
    return sys.version_info[:2] in SUPPORTED_PYTHONS and sys.implementation.name == "cpython"


def check_supported() -> None:
    if not is_supported():
        versions = " and ".join(f"{major}.{minor}" for major, minor in SUPPORTED_PYTHONS)
        raise StatorError(
            f"Python {sys.version_info[0]}.{sys.version_info[1]} is not supported",
            hint=f"Stator captures frames of CPython {versions}",
            code="python-version",
        )


def reset() -> None:
    """Clears captured graphs, counters and compile ids, and calls `reset()` of the backends that were used."""
    _C.reset()
    backends.reset()
    backward.forget()
    log.forget()


def forget(target: Any) -> None:
    """Clears the cache of one function, method, module or code object. For any other target it clears everything, with
    a warning, because the target's code is unknown."""
    code = target if isinstance(target, types.CodeType) else _code_of(target)
    if code is not None:
        _C.forget(code)
        return
    warnings.warn(f"{target!r} has no code object: the entire cache is cleared", RuntimeWarning, stacklevel=2)
    reset()


def _code_of(target: Any) -> types.CodeType | None:
    from .modes import innermost

    if isinstance(target, torch.nn.Module):
        call = vars(type(target)).get("__call__")
        target = target.forward if call is None else call
    elif not callable(target) and callable(getattr(target, "forward", None)):
        target = target.forward
    target = innermost(getattr(target, "__func__", target))
    return getattr(target, "__code__", None)


def cache_entries(target: Any) -> list[dict[str, Any]]:
    """The entries of a compiled function or module, a plain function or a code object, in the order of lookup."""
    from .modes import innermost

    if isinstance(target, torch.nn.Module):
        call = vars(type(target)).get("__call__")
        return _C.cache_entries(innermost(call)) if call is not None else []
    target = getattr(target, "__func__", target)
    return _C.cache_entries(innermost(target))


class Counters(Mapping[str, Any]):
    """`stator.counters`: the counts since the last reset. A mapping; calling it returns a plain dict."""

    def __call__(self) -> dict[str, Any]:
        return _C.counters()

    def __getitem__(self, name: str) -> Any:
        return _C.counters()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_C.counters())

    def __len__(self) -> int:
        return len(_C.counters())

    def __repr__(self) -> str:
        lines = []
        for name, value in self.items():
            if isinstance(value, dict):
                lines.append(f"{name}:")
                lines += [f"  {key}: {count}" for key, count in value.items()]
            else:
                lines.append(f"{name}: {value}")
        return "\n".join(lines)


counters = Counters()
