"""Compiled modules: objects that are the original in everything but how a call runs.

The object is an instance of a subclass, made for it, of the original's class, and its `__dict__` is the original's own:
parameters, buffers, hooks, training flag and plain attributes are one state with two faces. Only `__call__` differs.
The captured program sees the original as `self`, so `type(self)` is what it is in eager.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from . import _C
from .errors import InvalidTarget

if TYPE_CHECKING:
    from .targets import Settings


class Wrapping(Protocol):
    """How a wrapped module runs (compiled, disabled, ...): makes the call, and the same kind of wrapper for a copy."""

    @property
    def captures(self) -> bool: ...  # whether calls become graphs

    def __call__(self, target: Any) -> Any: ...

    def wrap(self, target: Callable[..., Any]) -> Callable[..., Any]: ...


def compile_module(module: torch.nn.Module, settings: Settings) -> torch.nn.Module:
    if isinstance(module, torch.jit.ScriptModule):
        raise InvalidTarget(
            f"{type(module).__name__} is a TorchScript module, which has no Python to capture",
            hint="compile the module it was scripted from",
        )
    return wrap_module(module, settings)


def wrap_module(module: torch.nn.Module, wrapping: Wrapping) -> torch.nn.Module:
    """A module with `module`'s class as base and `module`'s state as its own, called as `wrapping` says."""
    wrapper: Any = object.__new__(_wrapper_class(module, wrapping))
    object.__setattr__(wrapper, "__dict__", module.__dict__)
    return wrapper


def _wrapper_class(module: torch.nn.Module, wrapping: Wrapping) -> type:
    original = type(module)
    if _is_lazy(module):
        call: Any = _lazy_call(module, wrapping)
    elif wrapping.captures and any(map(_is_lazy, module.modules())):
        call = _first_call(module, wrapping)
    else:
        call = _ignore_self(module, wrapping)
    body = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
        "__call__": call,
        "__reduce_ex__": _reduce_ex,
        "__deepcopy__": _deepcopy,
        "__copy__": _copy,
        "_stator_original": module,
        "_stator_wrapping": wrapping,
    }
    body |= _slot_forwarders(module)
    cls = _subclass(original, body)
    _C.answer_calls(cls)
    return cls


def _ignore_self(self: torch.nn.Module, wrapping: Wrapping) -> Any:
    """Guards are named after the variables of this closure: the original is what its own code calls `self`."""

    def call(_wrapper: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    call.__name__ = call.__qualname__ = type(self).__name__
    return wrapping.wrap(call)


def _subclass(original: type, body: dict[str, Any]) -> type:
    """A subclass that the original's class is not told of: a user's `__init_subclass__` may register or refuse it."""
    meta = type(original)
    cls = type.__new__(meta, original.__name__, (_Blank,), body)
    try:
        cls.__bases__ = (original,)
    except TypeError:  # the original's instances have slots, so their layout is another
        cls = type.__new__(meta, original.__name__, (original,), body)
    return cls


class _Blank(torch.nn.Module):  # type: ignore[misc]
    """Has the layout of any nn.Module, so that a class made from it can be given another base."""


def _slot_forwarders(module: torch.nn.Module) -> dict[str, Any]:
    """Attributes that classes keep in `__slots__` are not in `__dict__`: these reach the original's."""

    def forward(name: str) -> property:
        return property(
            lambda _: getattr(module, name),
            lambda _, value: setattr(module, name, value),
            lambda _: delattr(module, name),
        )

    return {
        name: forward(name)
        for base in type(module).__mro__
        for name, value in vars(base).items()
        if isinstance(value, types.MemberDescriptorType)
    }


def _is_lazy(module: torch.nn.Module) -> bool:
    return isinstance(module, LazyModuleMixin) and module.has_uninitialized_params()


def _lazy_call(module: Any, wrapping: Wrapping) -> Callable[..., Any]:
    """Shapes are inferred from the first call's arguments; that changes the original's class, and so the wrapper's."""

    def call(wrapper: Any, /, *args: Any, **kwargs: Any) -> Any:
        if _is_lazy(module):
            module._infer_parameters(module, args, kwargs or None)
        object.__setattr__(wrapper, "__class__", _wrapper_class(module, wrapping))
        return wrapper(*args, **kwargs)

    return call


def _first_call(module: Any, wrapping: Wrapping) -> Callable[..., Any]:
    """Where modules inside have yet to infer their shapes the first call is plain Python, since they do so one by one,
    each when it is called."""

    def call(wrapper: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = module(*args, **kwargs)
        cls = type(wrapper)
        cls.__call__ = _ignore_self(module, wrapping)
        _C.answer_calls(cls)
        return result

    return call


def _reduce_ex(self: Any, protocol: int) -> tuple[Any, ...]:
    cls = type(self)
    return _rewrap, (cls._stator_original, cls._stator_wrapping)


def _deepcopy(self: Any, memo: dict[int, Any]) -> torch.nn.Module:
    cls = type(self)
    result = _rewrap(copy.deepcopy(cls._stator_original, memo), cls._stator_wrapping)
    memo[id(self)] = result
    return result


def _copy(self: Any) -> torch.nn.Module:
    cls = type(self)
    return _rewrap(copy.copy(cls._stator_original), cls._stator_wrapping)


def _rewrap(module: torch.nn.Module, wrapping: Wrapping) -> torch.nn.Module:
    return wrap_module(module, wrapping)
