"""Shadow mode: `stator.compile(f, options={"shadow": n})`. The first call and each n-th after it also run as plain
Python, before the compiled call, and what both gave is compared.

The plain run uses the objects of the program, whose state is then put back (`checking/state`): contents of containers,
attributes, globals, data and versions of tensors, gradients, hooks, random generators, modes. Tensor arguments with a
history are copied. So the compiled call finds everything as it was, and its own effects are the only ones that remain.
A call whose state cannot be put back runs compiled only. What is outside of the process (files, what is printed)
happens twice.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import logging
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree

from .. import places
from ..counts import counters
from ..modes import disable, remember_original
from ..user import is_compiling
from . import surroundings
from .contents import Unsavable, reason_of
from .locate import Start, starts_in_backend, starts_in_capture
from .outcomes import Leaf, Outcome, first_difference, leaves_of, outcome_of
from .state import Saved, State
from .tensor_state import with_history
from .watch import Stopped, Watch

_log = logging.getLogger("stator.shadow")

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Difference:
    """A compiled call that gave something else than the plain one. `what`: the first part that differs. `start`: the
    node of a graph where the difference starts, if it was found."""

    function: str
    call: int
    what: str
    start: Start | None

    def __str__(self) -> str:
        lines = [f"call {self.call} of {self.function} differs from the plain program: {self.what}"]
        if self.start is not None:
            lines.append(f"  starts at {self.start.node} ({self.start.operator}) of a graph, in the {self.start.cause}")
            if self.start.line:
                lines.append(f"  {places.show(self.start.line)}")
                if source := places.source_of(*self.start.line[:2]):
                    lines.append(f"    {source}")
        return "\n".join(lines)


def shadowed(compiled: Any, plain: Any, settings: Any) -> Callable[..., Any]:
    """The compiled function with checks of some calls."""
    shadow = _Shadow(compiled, plain, settings)

    @functools.wraps(compiled)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_compiling() or not shadow.is_due():
            return compiled(*args, **kwargs)
        return shadow.check(args, kwargs)

    call.get_compiler_config = compiled.get_compiler_config  # type: ignore[attr-defined]
    remember_original(call, plain)
    return call


class _Shadow:
    def __init__(self, compiled: Any, plain: Any, settings: Any):
        self._compiled = compiled
        self._plain = disable(plain)
        self._function = plain
        self._settings = settings
        self._calls = 0
        self._is_open = False
        self._said: set[str] = set()

    def is_due(self) -> bool:
        """Whether this call is checked. A call that a checked one makes is not."""
        if self._is_open:
            return False
        self._calls += 1
        return (self._calls - 1) % self._settings.shadow == 0

    def check(self, args: Any, kwargs: Any) -> Any:
        self._is_open = True
        try:
            return self._check(args, kwargs)
        finally:
            self._is_open = False

    def _check(self, args: Any, kwargs: Any) -> Any:
        try:
            if surroundings.is_watched():
                raise Unsavable("a mode, a transform, a profiler or a trace is active")
            if self._function.__code__.co_flags & _RUNS_LATER:
                raise Unsavable("a generator or coroutine function")
            state = State({"function": self._function, **_named(self._function, args, kwargs)})
            before = state.save()
            copied, second = _without_history(args, kwargs), _without_history(args, kwargs)
        except Exception as problem:  # of any object of the program; nothing was changed yet
            self._say(reason_of(problem))
            return self._compiled(*args, **kwargs)
        ref = Outcome()
        try:
            hidden = state.hidden()
            watch = Watch(state.codes, functools.partial(state.grow, (before, hidden)))
            ref = contextvars.copy_context().run(_run, watch.over(_finished(self._plain)), copied, state, hidden)
        except Stopped:
            pass  # `watch.reason` says why
        except (SystemExit, GeneratorExit) as ended:  # the compiled call is to end in the same way
            ref = Outcome(error=type(ended).__name__, message=str(ended))
        finally:
            state.restore(before)
        if watch.reason is not None:
            self._say(watch.reason)
            return self._compiled(*args, **kwargs)
        counters["shadow"]["calls"] += 1
        results: list[Any] = []
        error: Exception | None = None

        def run(*inputs: Any, **named: Any) -> Any:
            nonlocal error
            try:
                results.append(self._compiled(*inputs, **named))
            except Exception as raised:
                error = raised
                raise
            return results[0]

        res = _run(run, (args, kwargs), state, before)
        if (what := _difference(ref, res)) is not None:
            self._report(what, state, before, second)
        if error is not None:
            raise error
        return results[0]

    def _say(self, reason: str) -> None:
        counters["shadow"][f"not run: {reason}"] += 1
        if reason not in self._said:
            self._said.add(reason)
            _log.warning("%s is not checked: %s", self._function.__qualname__, reason)

    def _report(self, what: str, state: State, before: Saved, inputs: tuple[Any, Any]) -> None:
        after = state.save()
        start = None
        try:
            start = self._start(state, before, inputs)
        except Exception:
            _log.debug("the place of a difference was not found", exc_info=True)
        finally:
            state.restore(after)
        found = Difference(self._function.__qualname__, self._calls, what, start)
        counters["shadow"]["differences"] += 1
        _log.warning("%s", found)
        if (listener := self._settings.on_difference) is not None:
            try:
                listener(found)
            except Exception:
                _log.exception("the function `on_difference` of shadow mode failed")

    def _start(self, state: State, before: Saved, inputs: tuple[Any, Any]) -> Start | None:
        def again(function: Callable[..., Any]) -> None:
            args, kwargs = _without_history(*inputs)
            state.restore(before)
            state.hidden()
            try:
                contextvars.copy_context().run(_finished(function), *args, **kwargs)
            except Exception:
                pass  # what ran before is compared
            finally:
                state.restore(before)

        start, graphs = starts_in_capture(self._plain, self._function, again)
        return start or starts_in_backend(graphs, self._settings, TOLERANCE)


# A call of such a function runs nothing of it.
_RUNS_LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def _finished(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose results do not run later: generators and coroutines are closed."""

    def run(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        for leaf in pytree.tree_leaves(made):
            if isinstance(leaf, (types.GeneratorType, types.CoroutineType)):
                leaf.close()
        return made

    return run


def _run(function: Callable[..., Any], inputs: tuple[Any, Any], state: State, before: Saved) -> Outcome:
    """The outcome of a call, with the state and the arguments that it leaves."""
    args, kwargs = inputs

    def run() -> list[Leaf]:
        return list(leaves_of(function(*args, **kwargs)))

    made = outcome_of(run)
    made.leaves += leaves_of((list(args), kwargs), "arguments")
    made.leaves += state.changes(before)
    return made


def _difference(ref: Outcome, res: Outcome) -> str | None:
    if ref.error != res.error:
        errors = [f"{one.error}: {one.message}" if one.error else "no error" for one in (ref, res)]
        return f"{errors[0]}, and compiled {errors[1]}"
    return first_difference(ref.leaves, res.leaves, TOLERANCE)


def _named(function: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """The arguments by the names of parameters."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    found: dict[str, Any] = dict(zip(names, args, strict=False))
    found |= {f"argument {index}": value for index, value in enumerate(args) if index >= len(names)}
    return found | kwargs


def _without_history(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments with copies of the tensors that an operator with gradients made: a write to one of them cannot be
    undone. All other objects are the same ones."""
    storages: set[int] = set()

    def copied(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.grad_fn is None:
            return leaf
        place = leaf.untyped_storage().data_ptr()
        if place in storages:
            raise Unsavable("arguments with gradients that share memory")
        storages.add(place)
        return with_history(leaf)

    args, kwargs = pytree.tree_map(copied, (args, kwargs))
    return args, kwargs
