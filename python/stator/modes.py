"""Modes of a thread: compile on a miss (the default), `run` (cached entries only), `disable` (plain Python)."""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import _C
from .errors import InvalidTarget

# The thread states of the extension: arguments of `_C.run_mode`.
COMPILE, RUN_ONLY, OFF = 0, 1, 2

# Marks of a disabled function that an exporter also writes to the nodes made in it.
_EXPORTED = ("_torchdynamo_disable", "_torchdynamo_disable_recursive")

# Maps each of our wrappers to the user's function. Not an attribute of the wrapper, because functools.wraps copies
# attributes: a user's wrapper around one of ours must not be taken for ours.
_originals: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def remember_original(wrapper: Any, original: Any) -> None:
    _originals[wrapper] = original


def innermost(target: Any) -> Any:
    """The user's own callable below any number of wrappers of ours and of torch's. To compile a disabled function
    compiles this callable, as with torch.compile."""
    while True:
        if isinstance(target, _C.CompiledFunction):
            target = target.__wrapped__
        elif (compiled := _below_torch_compile(target)) is not None:
            target = compiled
        elif (original := _original_of(target)) is not None:
            target = original
        else:
            return target


def _below_torch_compile(target: Any) -> Any:
    """What torch.compile or torch.compiler.disable was given, if `target` is what it returned; else None."""
    if isinstance(target, torch.nn.Module):
        dynamo = sys.modules.get("torch._dynamo.eval_frame")
        return target._orig_mod if dynamo is not None and isinstance(target, dynamo.OptimizedModule) else None
    attributes = vars(target) if isinstance(target, types.FunctionType) else {}
    # A user's wrapper around it has some of the attributes as well.
    if attributes.get("_torchdynamo_wrapper_id") != id(target):
        return None
    return attributes.get("_torchdynamo_orig_callable")


def _original_of(target: Any) -> Any:
    if isinstance(target, torch.nn.Module):
        return vars(type(target)).get("_stator_original")
    try:
        return _originals.get(target)
    except TypeError:  # not hashable, or no weak references: not one of our wrappers
        return None


class _Mode:
    """A mode, usable as a context manager and as a decorator for functions, classes and modules.

    `state`: the thread state in this mode; None leaves it unchanged. `marks`: attributes of the wrappers, which the
    capture reads. `unwrap`: wrap the user's callable instead of the compiled one.
    """

    captures = False

    def __init__(self, state: int | None, marks: dict[str, Any], unwrap: bool):
        self._state = state
        self._marks = marks
        self._unwrap = unwrap
        self._before: list[int] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return _Mode, (self._state, self._marks, self._unwrap)

    def __enter__(self) -> _Mode:
        if self._state is not None:
            self._before.append(_C.run_mode(self._state))
        return self

    def __exit__(self, *exc: object) -> None:
        if self._state is not None:
            if not self._before:
                raise AssertionError("left a block that was never entered")
            _C.run_mode(self._before.pop())

    def __call__(self, target: Any) -> Any:
        if isinstance(target, type):
            return self._patch_class(target)
        if isinstance(target, (staticmethod, classmethod)):
            return type(target)(self(target.__func__))
        if not callable(target):
            raise InvalidTarget(
                f"{type(target).__name__} cannot be called: {target!r}", hint="pass a function, a class or a module"
            )
        if self._unwrap:
            target = innermost(target)
        if isinstance(target, torch.nn.Module):
            from .modules import wrap_module

            return wrap_module(target, self)
        return self.wrap(target)

    def wrap(self, target: Callable[..., Any], owner: type | None = None) -> Callable[..., Any]:
        """A function that calls `target` in this mode."""
        call = self._caller(target)
        functools.update_wrapper(call, target, updated=())
        remember_original(call, target)
        for name, value in self._marks.items():
            setattr(call, name, value)
        return call

    def _notes(self, target: Callable[..., Any]) -> dict[str, Any]:
        """Annotations of the operators in `target` for an exporter, with torch's names for them."""
        notes = {name: self._marks[name] for name in _EXPORTED if name in self._marks}
        if notes:
            notes["_torchdynamo_disable_method"] = getattr(target, "__name__", None) or type(target).__name__
        return notes

    def _caller(self, target: Callable[..., Any]) -> Callable[..., Any]:
        state, run_mode = self._state, _C.run_mode
        is_exporting, annotate, notes = torch.compiler.is_exporting, torch.fx.traceback.annotate, self._notes(target)
        if state is None:
            # Torch recognises its own wrapper by this name, and does not capture what such a frame calls.
            def nonrecursive_disable_wrapper(*args: Any, **kwargs: Any) -> Any:
                if is_exporting():
                    with annotate(notes):
                        return target(*args, **kwargs)
                return target(*args, **kwargs)

            return nonrecursive_disable_wrapper

        def call(*args: Any, **kwargs: Any) -> Any:
            before = run_mode(state)
            try:
                if is_exporting():
                    with annotate(notes):
                        return target(*args, **kwargs)
                return target(*args, **kwargs)
            finally:
                run_mode(before)

        return call

    def _patch_class(self, cls: type) -> type:
        """Patches the class so that instances are made and called in this mode; returns the same class object."""
        names = ["__init__"]
        if any("__call__" in vars(base) for base in cls.__mro__):
            names.append("__call__")
        for name in names:
            method = getattr(cls, name)
            setattr(cls, name, self.wrap(innermost(method) if self._unwrap else method))
        return cls


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Runs `fn` (a function, class or module) and everything it calls as plain Python; if `recursive` is False, only
    `fn` itself.

    A captured caller breaks at the call and reports `reason`. Without `fn`: a decorator and a context manager.
    """
    # The marks are those of torch.compiler.disable, so each system honours the other's.
    marks = {
        "_torchdynamo_disable": True,
        "_torchdynamo_disable_recursive": recursive,
        "_torchdynamo_disable_msg": reason,
    }
    mode = _Mode(OFF if recursive else None, marks, unwrap=True)
    return mode if fn is None else mode(fn)


def run(fn: Any = None) -> Any:
    """Compiled functions called in `fn` use cached entries only; a miss runs as plain Python and compiles nothing.

    Without `fn`: a decorator and a context manager.
    """
    mode = _Mode(RUN_ONLY, {}, unwrap=False)
    return mode if fn is None else mode(fn)
