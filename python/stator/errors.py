"""What can go wrong, as the user meets it: one cause, the place in their program, one thing to do, a stable code.

`docs/errors.md` explains each code. The extension raises these types too (see `_C.set_error_types`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class StatorError(RuntimeError):
    """Base of every error that is Stator's own (errors of the user's program pass through as they are)."""

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


class Unsupported(StatorError):
    """A frame that had to be one graph (`fullgraph=True`) holds something that cannot be captured.

    Made from the record of a graph break: `id`, `text`, `file`, `line`, `hint`, `stack`.
    """

    code = "unsupported"

    def __init__(self, reason: Mapping[str, Any] | str):
        self.reason: dict[str, Any] = dict(reason) if isinstance(reason, Mapping) else {"text": str(reason)}
        where = None
        if self.reason.get("file"):
            where = f"{self.reason['file']}:{self.reason.get('line', 0)}"
            if function := self.reason.get("function"):
                where += f", in {function}"
        super().__init__(
            self.reason.get("text") or "this cannot be captured",
            hint=self.reason.get("hint") or None,
            code=self.reason.get("id") or None,
            where=where,
        )
        self.stack = self.reason.get("stack") or []


class InternalError(StatorError):
    """A defect of Stator's own; please report it."""

    code = "internal"

    def __init__(self, cause: str):
        super().__init__(cause, hint="this is a defect in Stator: please report it with the program that shows it")


class RecompileLimitExceeded(StatorError):
    """A code object was captured too often, and `fullgraph` or `fail_on_recompile_limit_hit` forbids to go on eager."""

    code = "recompile-limit"


class RecompileForbidden(StatorError):
    """A call fits nothing that is cached, and the stance `fail_on_recompile` forbids to capture it."""

    code = "recompile-forbidden"

    def __init__(self, cause: str):
        super().__init__(cause, hint="call it with such arguments before the stance is set")


class BackendCompilerFailed(StatorError):
    """The backend raised while it compiled a graph, or gave back something that cannot be called."""

    code = "backend-failed"

    def __init__(self, backend: str, graph: str, inner: BaseException | str):
        self.backend_name = backend
        self.graph_name = graph
        self.inner_exception = inner if isinstance(inner, BaseException) else None
        text = f"{type(inner).__name__}: {inner}" if isinstance(inner, BaseException) else inner
        super().__init__(
            f"backend {backend!r} failed on graph {graph!r}: {text}",
            hint="mend the backend, or set stator.config.suppress_errors = True to run such frames eager",
        )


class StateChanged(BackendCompilerFailed, AssertionError):
    """A backend changed state of the process or the thread that cannot be put back for it."""

    code = "state-changed"

    def __init__(self, backend: str, graph: str, changes: list[str]):
        super().__init__(backend, graph, f"it left changed what it must not change: {'; '.join(changes)}")
        self.changes = changes
        self.hint = "a backend must put back what it changes; if it changes nothing of the kind, please report it"


class InvalidBackend(StatorError, ValueError):
    """No backend has this name, or the object given is none."""

    code = "invalid-backend"


class InvalidTarget(StatorError, TypeError, AssertionError):
    """What was given to `compile`, `disable` or `run` cannot be called."""

    code = "invalid-target"


class InvalidOption(StatorError, ValueError, AssertionError):
    """An argument of `compile`, or a setting, has a value that it cannot have."""

    code = "invalid-option"


class SkipFrame(StatorError):
    """A backend may raise this: the frame runs as plain Python from then on, and nothing is reported as an error."""

    code = "skip-frame"

    def __init__(self, cause: str = "the backend asked to skip this frame"):
        super().__init__(cause)
