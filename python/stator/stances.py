"""`set_stance`: what compiled functions do, process-wide. `error_on_graph_break`: breaks as errors, per thread."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from . import _C
from .errors import InvalidOption, InvalidTarget

F = TypeVar("F", bound=Callable[..., Any])

STANCES = _C.stances()


T = TypeVar("T")


def _left(before: list[T]) -> T:
    """Pops the value from before the block that ends now."""
    if not before:
        raise AssertionError("left a block that was never entered")
    return before.pop()


class set_stance:
    """Sets the stance at once, for all threads. As a `with` block or decorator it restores the earlier one at the end.

    default: calls are captured and run from the cache. eager_then_compile: the first call of a function is plain
    Python; sizes and numbers that differ in the second call are symbols in its capture. force_eager: all calls are
    plain Python. eager_on_recompile: calls that miss the cache are plain Python. fail_on_recompile: calls that miss the
    cache raise `RecompileForbidden`. aot_eager_then_compile: as eager_then_compile. If the stance is "default", a
    stance set by `torch.compiler.set_stance` is used.

    force_backend: replaces the backend of every compiled function; the stance must be "default" then.
    skip_guard_eval_unsafe: where there is one entry for a call, only the guards that depend on its arguments are
    checked. Other guards (values of global variables, and the like) are not: the caller vouches for them. Where there
    are several entries, all guards are checked.
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None):
        if stance not in STANCES:
            raise InvalidOption(f"there is no stance {stance!r}", hint=f"one of {', '.join(STANCES)}")
        if not isinstance(skip_guard_eval_unsafe, bool):
            raise InvalidOption(f"skip_guard_eval_unsafe must be True or False, not {skip_guard_eval_unsafe!r}")
        if force_backend is not None and stance != "default":
            raise InvalidOption(f"the stance {stance!r} takes no force_backend", hint='use the stance "default"')
        if not (force_backend is None or isinstance(force_backend, str) or callable(force_backend)):
            raise InvalidOption(f"{force_backend!r} is not a backend", hint="give a name or a callable")
        self.stance = stance
        self._wanted = (stance, force_backend, skip_guard_eval_unsafe)
        self._before = [_C.set_stance(*self._wanted)]
        self._is_set = True  # set by the constructor; no block has been entered yet

    def __enter__(self) -> None:
        if self._is_set:
            self._is_set = False
        else:
            self._before.append(_C.set_stance(*self._wanted))

    def __exit__(self, *exc: object) -> None:
        self._is_set = False
        _C.set_stance(*_left(self._before))

    def __call__(self, fn: F) -> F:
        if not callable(fn):
            raise InvalidTarget(f"{type(fn).__name__} cannot be called: {fn!r}", hint="decorate a function")
        if self._is_set:
            self.__exit__()
        wanted = self._wanted

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = _C.set_stance(*wanted)
            try:
                return fn(*args, **kwargs)
            finally:
                _C.set_stance(*before)

        return call  # type: ignore[return-value]


class error_on_graph_break:
    """In a `with` block or a decorated function: whether a graph break raises `Unsupported`.

    It applies to captured code: compiled functions and the functions they call. The innermost block or compiled
    function decides; `fullgraph` overrides all of them.
    """

    def __init__(self, is_error: bool):
        if not isinstance(is_error, bool):
            raise InvalidOption(f"error_on_graph_break must be True or False, not {is_error!r}")
        self._is_error = is_error
        self._before: list[bool | None] = []

    def __enter__(self) -> None:
        self._before.append(_C.break_policy())
        _C.set_break_policy(self._is_error)

    def __exit__(self, *exc: object) -> None:
        _C.set_break_policy(_left(self._before))

    def __call__(self, fn: F) -> F:
        if not callable(fn):
            raise InvalidTarget(f"{type(fn).__name__} cannot be called: {fn!r}", hint="decorate a function")
        is_error = self._is_error

        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = _C.break_policy()
            _C.set_break_policy(is_error)
            try:
                return fn(*args, **kwargs)
            finally:
                _C.set_break_policy(before)

        return call  # type: ignore[return-value]
