"""`compile` and the small functions beside it."""

from __future__ import annotations

import functools
import os
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, overload

import torch

from . import _C, backends, backward, torch_compiler
from .config import check_compatible, config
from .errors import InvalidOption, InvalidTarget, StatorError
from .guards import Export, Fail, Filter
from .logs import log
from .modes import innermost
from .shapes_spec import normal
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
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
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
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
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
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """Captures a function, method, class, nn.Module or other callable as graphs on its first call. Later calls check
    guards and run the graph. Code that cannot be captured runs as plain Python.

    fullgraph: the call must be captured in one graph; otherwise `stator.Unsupported` names the break.
    dynamic: None: a size that differs between two calls becomes a symbol, so that one capture serves all sizes from 2
        on. True: all sizes are symbols from the first capture on. False: each new size is captured. A size that the
        program needs as a number (`range(x.size(0))`) is specialised on.
    backend: a name of `list_backends()` or a callable `(gm, example_inputs) -> callable`; None is the default backend.
    mode, options: passed to the backend if it accepts them. Two options are Stator's own: `shadow=n` also runs each
        n-th call as plain Python and logs the first difference; `on_difference` is a function that gets it.
    error_on_graph_break: True makes a break in this callable an error even if its caller allows breaks; False allows
        breaks even if the caller forbids them; None inherits from the caller. `fullgraph` overrides both.
    guard_filter_fn: gets a list of `stator.Guard` and returns for each whether it is checked. The user is responsible
        for the facts that it leaves out. `options` may hold it instead.
    guard_export_fn: gets the guards of each capture that made a graph.
    guard_fail_fn: on a recompilation, gets a `stator.GuardFail` for each entry whose guards failed.
    disable: returns `model` unchanged. The environment variable STATOR_DISABLE=1 does so for every call, and so do
        torch's TORCH_COMPILE_DISABLE=1 and, if its module is imported, torch._dynamo.config.disable.
    name: how messages call the function, in place of its own name.
    recompile_limit: `config.recompile_limit` for this callable.
    isolate_recompiles: entries of this callable are not shared with, nor counted for, others of the same code.
    shapes_spec: torch's ShapesSpec or ParamsSpec, or a dict of specs by parameter: the sizes and ints that vary, and
        what holds for them. All others are constants. A call for which it does not hold raises ConstraintViolation.

    Without `model` it returns a decorator.
    """
    check_supported()
    check_compatible()
    if not isinstance(disable, bool):
        raise InvalidOption(f"disable must be True or False, not {disable!r}")
    shadow = _taken(options, "shadow", 0), _taken(options, "on_difference", None)
    if isinstance(options, dict) and options.keys() & _OWN_OPTIONS:
        options = {key: value for key, value in options.items() if key not in _OWN_OPTIONS} or None
    if isinstance(options, dict) and "guard_filter_fn" in options:  # where torch.compile takes it
        if guard_filter_fn is not None:
            raise InvalidOption("guard_filter_fn is given twice", hint="pass it once, as an argument or as an option")
        guard_filter_fn = options["guard_filter_fn"]
        options = {key: value for key, value in options.items() if key != "guard_filter_fn"} or None
    callbacks = (guard_filter_fn, guard_export_fn, guard_fail_fn)
    own = (name, recompile_limit, isolate_recompiles)
    spec = normal(shapes_spec)
    settings = Settings(
        fullgraph, dynamic, backend, mode, options, error_on_graph_break, *callbacks, *own, spec, *shadow
    )
    log.forget()
    torch_compiler.add_backend(_ResetByTorch)
    if disable or _is_disabled():
        return _Decorator(None) if model is None else _unchanged(model)
    return _Decorator(settings) if model is None else compile_target(model, settings)


# Options that no backend gets.
_OWN_OPTIONS = frozenset({"shadow", "on_difference"})


def _taken(options: Any, name: str, otherwise: Any) -> Any:
    return options.get(name, otherwise) if isinstance(options, dict) else otherwise


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


def _is_disabled() -> bool:
    """Whether the environment, or torch's own setting, turns compilation off."""
    variables = (os.environ.get(name) for name in ("STATOR_DISABLE", "TORCH_COMPILE_DISABLE"))
    return "1" in variables or torch_compiler.setting("disable") is True


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


class _ResetByTorch:
    """`torch._dynamo.reset()` resets the backends that it knows; this one stands for Stator."""

    @staticmethod
    def reset() -> None:
        reset()


def _follow_torch_reset() -> None:
    """Makes torch's own functions clear Stator's caches as well."""
    of_torch = torch.compiler.reset

    @functools.wraps(of_torch)
    def both() -> None:
        of_torch()
        reset()

    torch.compiler.reset = both


_follow_torch_reset()


def forget(target: Any) -> None:
    """Clears the cache of one function, method, module (compiled, or the one it was compiled from) or code object. For
    any other target it clears everything, with a warning, because the target's code is unknown."""
    codes = [target] if isinstance(target, types.CodeType) else _codes_of(target)
    for code in codes:
        _C.forget(code)
    if codes:
        return
    warnings.warn(f"{target!r} has no code object: the entire cache is cleared", RuntimeWarning, stacklevel=2)
    reset()


def _codes_of(target: Any) -> list[types.CodeType]:
    """The code objects that may have entries for calls of the target."""
    functions = [target]
    if isinstance(target, torch.nn.Module):
        from .modules import calls_of

        target = innermost(target)
        functions = [*calls_of(target), target.forward]
    elif not callable(target) and callable(getattr(target, "forward", None)):
        functions = [target.forward]
    plain = (innermost(getattr(function, "__func__", function)) for function in functions)
    return [function.__code__ for function in plain if isinstance(getattr(function, "__code__", None), types.CodeType)]


def cache_entries(target: Any) -> list[dict[str, Any]]:
    """The entries of a compiled function or module, a plain function or a code object, in the order of lookup."""
    if isinstance(target, torch.nn.Module):
        call = vars(type(target)).get("__call__")
        return _C.cache_entries(innermost(call)) if call is not None else []
    target = getattr(target, "__func__", target)
    return _C.cache_entries(innermost(target))
