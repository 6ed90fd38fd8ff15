"""Exceptions that users see. Each has a cause, the place in the user's program, a hint and a stable code.

`docs/errors.md` explains each code. The extension raises these types as well (see `_C.set_error_types`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import places


class StatorError(RuntimeError):
    """Base of all errors of Stator. Errors of the user's program pass through unchanged."""

    code = "error"
    record: str | None = None  # the file that holds the failed call, see stator.record_failures

    def __init__(self, cause: str, *, hint: str | None = None, code: str | None = None, where: str | None = None):
        self.cause = cause
        self.hint = hint
        self.where = where
        if code is not None:
            self.code = code
        super().__init__(cause)

    def __str__(self) -> str:
        lines = [f"{self.cause} [{self.code}]"]
        if self.where:
            lines.append(f"  at: {self.where}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        if self.record:
            lines.append(f"  recorded in: {self.record}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[StatorError], args: tuple[Any, ...], state: dict[str, Any]) -> StatorError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class ConstraintViolation(StatorError):
    """A dimension that `mark_dynamic` marks has one value in a capture, or is outside of the range that was stated. Or
    the arguments of a call are not as `shapes_spec` states."""

    code = "constraint"


class Unsupported(StatorError):
    """A call that must be captured in one graph (`fullgraph=True`) contains a graph break.

    Made from the record of a graph break: `id`, `text`, `hint`, `stack`. The text begins with the user's own line;
    `stack` has all lines down to the one that could not be captured, outermost first.
    """

    code = "unsupported"

    def __init__(self, reason: Mapping[str, Any] | str):
        self.reason: dict[str, Any] = dict(reason) if isinstance(reason, Mapping) else {"text": str(reason)}
        self.stack = self.reason.get("stack") or []
        index = places.user_index(self.stack)
        line = self.stack[index] if self.stack else None
        if line is None and self.reason.get("file"):
            line = self.reason["file"], self.reason.get("line", 0), self.reason.get("function") or "?"
        super().__init__(
            self.reason.get("text") or "this cannot be captured",
            hint=self.reason.get("hint") or None,
            code=self.reason.get("id") or None,
            where=f"{line[0]}:{line[1]}, in {line[2]}" if line else None,
        )
        self._source = places.source_of(line[0], line[1]) if line else ""
        self._chain = [places.show(inner) for inner in self.stack[index + 1 :]]

    def __str__(self) -> str:
        lines = [f"{self.where or 'this call'}: not captured in one graph [{self.code}]"]
        if self._source:
            lines.append(f"    {self._source}")
        lines.append(f"  why: {self.cause}")
        if self._chain:
            lines.append(f"  through: {' > '.join(self._chain)}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        if self.record:
            lines.append(f"  recorded in: {self.record}")
        return "\n".join(lines)


class InternalError(StatorError):
    """A defect of Stator; please report it."""

    code = "internal"

    def __init__(self, cause: str):
        super().__init__(cause, hint="this is a defect in Stator: please report it with the program that shows it")


class OracleError(StatorError):
    """With `config.oracle`: a fresh capture differs from the entry whose guards hold, or two passes over its guards
    differ."""

    code = "oracle"

    def __init__(self, cause: str):
        super().__init__(cause, hint="this is a defect in Stator: please report it with the program that shows it")


class RecompileLimitExceeded(StatorError):
    """A code object was captured too often, and `fullgraph` or `fail_on_recompile_limit_hit` forbids running eager."""

    code = "recompile-limit"


class RecompileForbidden(StatorError):
    """No cached entry accepts the call, and the stance `fail_on_recompile` forbids capturing it."""

    code = "recompile-forbidden"

    def __init__(self, cause: str):
        super().__init__(cause, hint="call it with such arguments before the stance is set")


class BackendCompilerFailed(StatorError):
    """The backend raised while it compiled a graph, or returned an object that is not callable."""

    code = "backend-failed"

    def __init__(self, backend: str, graph: str, inner: BaseException | str):
        self.backend_name = backend
        self.graph_name = graph
        self.inner_exception = inner if isinstance(inner, BaseException) else None
        text = f"{type(inner).__name__}: {inner}" if isinstance(inner, BaseException) else inner
        super().__init__(
            f"backend {backend!r} failed on graph {graph!r}: {text}",
            hint="fix the backend, or set stator.config.suppress_errors = True to run such frames eager",
        )


class StateChanged(BackendCompilerFailed, AssertionError):
    """A backend changed state of the process or the thread that Stator cannot restore."""

    code = "state-changed"

    def __init__(self, backend: str, graph: str, changes: list[str]):
        super().__init__(backend, graph, f"it changed state that a backend must not change: {'; '.join(changes)}")
        self.changes = changes
        self.hint = (
            "a backend must restore the state that it changes; if it does not change this state, please report it"
        )


class InvalidBackend(StatorError, ValueError):
    """No backend has this name, or the given object is not a backend."""

    code = "invalid-backend"


class InvalidTarget(StatorError, TypeError, AssertionError):
    """The object given to `compile`, `disable` or `run` is not callable."""

    code = "invalid-target"


class InvalidOption(StatorError, ValueError, AssertionError):
    """An argument of `compile`, or a setting, has an invalid value."""

    code = "invalid-option"


class SkipFrame(StatorError):
    """Raised by a backend to run the frame as plain Python from then on; it is not reported as an error."""

    code = "skip-frame"

    def __init__(self, cause: str = "the backend asked to skip this frame"):
        super().__init__(cause)
