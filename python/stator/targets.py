"""Turns the target of `compile` into a function to capture, and wraps the result as an object of the same kind."""

from __future__ import annotations

import copyreg
import functools
import types
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from . import _C, backends, guards, shapes_spec
from .errors import InvalidOption, InvalidTarget
from .modes import innermost, remember_original


@dataclass(frozen=True)
class Settings:
    """The arguments of one `compile` call, as given. Copies and pickles of a compiled module are made with them."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: Any = None
    mode: str | None = None
    options: dict[str, Any] | None = None
    error_on_graph_break: bool | None = None
    guard_filter_fn: guards.Filter | None = None
    guard_export_fn: guards.Export | None = None
    guard_fail_fn: guards.Fail | None = None
    name: str | None = None
    recompile_limit: int | None = None
    isolate_recompiles: bool = False
    shapes_spec: Any = None  # torch's ShapesSpec
    shadow: int = 0
    on_difference: Callable[[Any], None] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.fullgraph, bool):
            raise InvalidOption(f"fullgraph must be True or False, not {self.fullgraph!r}")
        if not (self.dynamic is None or isinstance(self.dynamic, bool)):
            raise InvalidOption(
                f"dynamic must be True, False or None, not {self.dynamic!r}",
                hint="None makes sizes that change symbols",
            )
        if not (self.name is None or isinstance(self.name, str)):
            raise InvalidOption(f"name must be a str or None, not {self.name!r}")
        limit = self.recompile_limit
        if limit is not None and (type(limit) is not int or limit < 1):
            raise InvalidOption(f"recompile_limit must be a positive int or None, not {limit!r}")
        if type(self.shadow) is not int or self.shadow < 0:
            raise InvalidOption(f"the option shadow must be a positive int, or 0, not {self.shadow!r}")
        if not isinstance(self.isolate_recompiles, bool):
            raise InvalidOption(f"isolate_recompiles must be True or False, not {self.isolate_recompiles!r}")
        if not (self.error_on_graph_break is None or isinstance(self.error_on_graph_break, bool)):
            raise InvalidOption(f"error_on_graph_break must be True, False or None, not {self.error_on_graph_break!r}")
        for name in ("guard_filter_fn", "guard_export_fn", "guard_fail_fn", "on_difference"):
            if (given := getattr(self, name)) is not None and not callable(given):
                raise InvalidOption(f"{name} must be a callable or None, not {given!r}")
        if self.dynamic is not None and self.shapes_spec is not None:
            raise InvalidOption("dynamic and shapes_spec are both given", hint="shapes_spec says which sizes vary")
        backends.resolve(self.backend, self.mode, self.options, self.dynamic)

    @property
    def captures(self) -> bool:
        return True

    @property
    def shares_entries(self) -> bool:
        """Whether other `compile` calls may use the entries. False if a graph break is an error here (an entry of
        another `compile` call may end at a break), or if callbacks saw or filtered the guards."""
        callbacks = (self.guard_filter_fn, self.guard_export_fn, self.guard_fail_fn)
        own = self.isolate_recompiles or self.error_on_graph_break is True or self.shapes_spec is not None
        return not own and callbacks == (None, None, None)

    def for_backward(self) -> Settings:
        """Settings for backward passes inside a call. That code is not the function's own, and may break where torch
        calls hooks."""
        return replace(self, fullgraph=False, error_on_graph_break=None, shapes_spec=None)

    def __call__(self, target: Any) -> Any:
        return compile_target(target, self)

    def wrap(self, target: Callable[..., Any], owner: type | None = None) -> Callable[..., Any]:
        """Compiles a function whose code object may be shared with other functions. Functions of one `owner` and equal
        settings share their entries."""
        return compile_function(_with_code_of(owner, target, self), self)


def compile_target(target: Any, settings: Settings) -> Any:
    """The compiled object for any kind of target. A class is patched in place and returned."""
    if isinstance(target, type):
        return _compile_class(target, settings)
    if isinstance(target, (staticmethod, classmethod)):
        return type(target)(compile_target(target.__func__, settings))
    if not callable(target):
        raise InvalidTarget(
            f"{type(target).__name__} cannot be called: {target!r}",
            hint="stator.compile takes a function, a method, a class, an nn.Module or another callable",
        )
    target = innermost(target)
    if isinstance(target, torch.nn.Module):
        from .modules import compile_module

        return compile_module(target, settings)
    if isinstance(target, types.MethodType):
        return types.MethodType(compile_target(target.__func__, settings), target.__self__)
    if not isinstance(target, types.FunctionType):
        target = shim(target)
    return compile_function(target, settings)


# Pickle compiled functions by qualified name, like plain functions.
copyreg.pickle(_C.CompiledFunction, lambda fn: fn.__qualname__)


def compile_function(fn: types.FunctionType, settings: Settings) -> Callable[..., Any]:
    """A `CompiledFunction` for a Python function, with the attributes that backends may require."""
    foreign = getattr(fn, "get_compiler_config", None)
    # functools.wraps copies the attribute of what torch.compile returned.
    is_copied = hasattr(fn, "_torchdynamo_orig_callable")
    if foreign is not None and not isinstance(foreign, _ConfigGetter) and not is_copied:
        raise InvalidTarget(
            f"{fn.__qualname__} has an attribute get_compiler_config already", hint="compile the function below it"
        )
    backend = backends.resolve(settings.backend, settings.mode, settings.options, settings.dynamic)
    strict = settings.error_on_graph_break is True
    callbacks = guards.callbacks(settings.guard_filter_fn, settings.guard_export_fn, settings.guard_fail_fn)
    cache_key = backend.cache_key if settings.shares_entries else object()
    if settings.name is not None:
        fn = with_own_code(fn, settings.name)
    stated = () if settings.shapes_spec is None else (shapes_spec.Spec(settings.shapes_spec, fn),)
    compiled = _C.CompiledFunction(
        fn,
        backend.compiler,
        settings.fullgraph,
        False if backend.has_static_sizes else settings.dynamic,
        backend.name,
        cache_key,
        strict,
        callbacks,
        settings.recompile_limit or 0,
        *stated,
    )
    compiled._stator_settings = settings
    # Applies to the body when another compiled function inlines it.
    compiled.error_on_graph_break = settings.fullgraph or settings.error_on_graph_break
    compiled._stator_config = _ConfigGetter(backend)
    made = compiled if backend.context is None else _in_context(compiled, fn, backend.context)
    if not settings.shadow:
        return made
    from .checking.shadow import shadowed

    return shadowed(made, fn, settings)


def with_backend(compiled: Any, backend: Any) -> Callable[..., Any]:
    """The same compiled function with another backend, for a stance that names one for all. The extension calls it."""
    settings: Settings = compiled._stator_settings
    if settings.backend == backend:
        return compiled
    known = vars(compiled).get("_stator_other_backend")
    if known is None or known[0] != backend:
        made = compile_function(compiled.__wrapped__, replace(settings, backend=backend, mode=None, options=None))
        known = compiled._stator_other_backend = (backend, made)
    return known[1]


class _ConfigGetter:
    """`compiled.get_compiler_config()`: the configuration that the backend reports, or None."""

    def __init__(self, backend: backends.Backend):
        self._backend = backend

    def __call__(self) -> Any:
        return self._backend.compiler_config()


def _in_context(compiled: Any, fn: types.FunctionType, context: Callable[[], Any]) -> Callable[..., Any]:
    @functools.wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        with context():
            return compiled(*args, **kwargs)

    call.get_compiler_config = compiled.get_compiler_config  # type: ignore[attr-defined]
    remember_original(call, fn)
    return call


def shim(target: Callable[..., Any]) -> types.FunctionType:
    """A Python function that only calls `target`, for callables without a Python frame.

    Each shim has its own code object, because cache entries and limits belong to code objects.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    name = getattr(target, "__name__", None) or type(target).__name__
    fresh = with_own_code(call, name)
    functools.update_wrapper(fresh, target, updated=())
    return fresh


# By owner and cache key, the code that compiled functions share. It lives as long as one of them; so do its entries.
_shared_code: weakref.WeakKeyDictionary[type, weakref.WeakValueDictionary[int, types.CodeType]] = (
    weakref.WeakKeyDictionary()
)


def _with_code_of(owner: type | None, fn: Any, settings: Settings) -> types.FunctionType:
    """A copy of a function with the code object that others of its owner have, if they may share entries."""
    if owner is None or not settings.shares_entries:
        return with_own_code(fn)
    one, other = (
        backends.resolve(settings.backend, settings.mode, settings.options, settings.dynamic).cache_key
        for _ in range(2)
    )
    if one is not other:  # the key is new for each `compile` call: nothing can be shared
        return with_own_code(fn)
    key = id(one)  # unique while the code lives: its entries, and the functions compiled with it, hold the key
    codes = _shared_code.setdefault(owner, weakref.WeakValueDictionary())
    code = codes.get(key)
    made = with_own_code(fn, code=code)
    if code is None:
        codes[key] = made.__code__
    return made


def with_own_code(fn: Any, name: str | None = None, code: types.CodeType | None = None) -> types.FunctionType:
    """A copy of a function with its own code object, or with `code`."""
    code = code or fn.__code__.replace(co_name=name or fn.__name__, co_qualname=name or fn.__code__.co_qualname)
    copy = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    copy.__kwdefaults__ = fn.__kwdefaults__
    for attribute in ("__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(copy, attribute, getattr(fn, attribute))
    copy.__dict__.update(fn.__dict__)
    return copy


def _compile_class(cls: type, settings: Settings) -> type:
    owner = next((base for base in cls.__mro__ if "__call__" in vars(base)), None)
    if owner is None:
        raise InvalidTarget(
            f"instances of {cls.__name__} cannot be called, so there is nothing to compile",
            hint="define __call__, or compile the methods",
        )
    method = innermost(vars(owner)["__call__"])
    if not isinstance(method, types.FunctionType):
        method = shim(method)
    elif owner is not cls:
        method = with_own_code(method)
    type.__setattr__(cls, "__call__", compile_function(method, settings))
    return cls
