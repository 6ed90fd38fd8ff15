"""Compiled modules: objects that differ from the original only in how a call runs.

The object is an instance of a new subclass of the original's class, and its `__dict__` is the original's dict object:
both objects share parameters, buffers, hooks, training flag and plain attributes. Only `__call__` differs. The
captured program sees the original as `self`, so `type(self)` is the same as in eager.
"""

from __future__ import annotations

import copy
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from . import _C
from .errors import InvalidTarget
from .modes import innermost

if TYPE_CHECKING:
    from .targets import Settings


class Wrapping(Protocol):
    """How a wrapped module runs (compiled, disabled, ...): makes its `__call__`, and wraps copies in the same way."""

    @property
    def captures(self) -> bool: ...  # whether calls are captured

    def __call__(self, target: Any) -> Any: ...

    def wrap(self, target: Callable[..., Any], owner: type | None = None) -> Callable[..., Any]: ...


def compile_module(module: torch.nn.Module, settings: Settings) -> torch.nn.Module:
    if isinstance(module, torch.jit.ScriptModule):
        raise InvalidTarget(
            f"{type(module).__name__} is a TorchScript module, which has no Python to capture",
            hint="compile the module it was scripted from",
        )
    return wrap_module(module, settings)


def wrap_module(module: torch.nn.Module, wrapping: Wrapping) -> torch.nn.Module:
    """A module that derives from `module`'s class, shares `module`'s state, and is called by `wrapping`."""
    wrapper: Any = object.__new__(_wrapper_class(module, wrapping))
    object.__setattr__(wrapper, "__dict__", module.__dict__)
    return wrapper


def _wrapper_class(module: torch.nn.Module, wrapping: Wrapping) -> type:
    original = type(module)
    if _is_lazy(module):
        call: Any = _lazy_call(module, wrapping)
    elif wrapping.captures and _has_lazy_member(module):
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
    """Ignores the wrapper. Guards are named after the closure's variables, so the original is named `self`. Modules of
    one class share the code, and so their entries."""

    def call(_wrapper: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    call.__name__ = call.__qualname__ = type(self).__name__
    call.__code__ = _shown_as_forward(call.__code__, type(self))
    made = wrapping.wrap(call, type(self))
    own = type(self).__call__
    if isinstance(made, _C.CompiledFunction) and isinstance(own, types.FunctionType):
        made._torchdynamo_inline = own  # what torch.compile captures in place of a call
    return made


def calls_of(module: torch.nn.Module) -> list[Any]:
    """The `__call__`s of the wrappers of a module."""
    below = (vars(cls) for cls in type.__subclasses__(type(module)))
    return [body["__call__"] for body in below if body.get("_stator_original") is module and "__call__" in body]


def _shown_as_forward(code: types.CodeType, cls: type) -> types.CodeType:
    """The code with the name and the place of the class's `forward`, as messages and tracebacks show them."""
    code = code.replace(co_qualname=f"{cls.__qualname__}.forward")
    forward = getattr(inspect.unwrap(innermost(getattr(cls, "forward", None))), "__code__", None)
    if not isinstance(forward, types.CodeType):
        return code
    # Every instruction is at the first line; its column is not known (entries of kind 13 in CPython's location table).
    units = len(code.co_code) // 2
    lines = b"".join(bytes((0x80 | 13 << 3 | min(8, units - start) - 1, 0)) for start in range(0, units, 8))
    return code.replace(co_filename=forward.co_filename, co_firstlineno=forward.co_firstlineno, co_linetable=lines)


def _subclass(original: type, body: dict[str, Any]) -> type:
    """A subclass made without `__init_subclass__`, because a user's may register or reject it."""
    meta = type(original)
    cls = type.__new__(meta, original.__name__, (_Blank,), body)
    try:
        cls.__bases__ = (original,)
    except TypeError:  # the original's instances have slots, so the layouts differ
        cls = type.__new__(meta, original.__name__, (original,), body)
    return cls


class _Blank(torch.nn.Module):  # type: ignore[misc]
    """Has the layout of a plain nn.Module, so that the bases of its subclasses can be replaced."""


def _slot_forwarders(module: torch.nn.Module) -> dict[str, Any]:
    """Properties that forward attributes in `__slots__` to the original; they are not in the shared `__dict__`."""

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


def _has_lazy_member(module: torch.nn.Module) -> bool:
    # `module.modules()` resumes a generator at each level of the tree for each module.
    seen, waiting = {module}, [module]
    while waiting:
        for member in waiting.pop()._modules.values():
            if member is not None and member not in seen:
                if _is_lazy(member):
                    return True
                seen.add(member)
                waiting.append(member)
    return False


def _lazy_call(module: Any, wrapping: Wrapping) -> Callable[..., Any]:
    """A lazy module infers shapes in the first call, which changes the class of the original, and so of the wrapper."""

    def call(wrapper: Any, /, *args: Any, **kwargs: Any) -> Any:
        if _is_lazy(module):
            module._infer_parameters(module, args, kwargs or None)
        object.__setattr__(wrapper, "__class__", _wrapper_class(module, wrapping))
        return wrapper(*args, **kwargs)

    return call


def _first_call(module: Any, wrapping: Wrapping) -> Callable[..., Any]:
    """If a submodule is lazy, the first call is plain Python, because each lazy submodule infers its shapes when it is
    called."""

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
