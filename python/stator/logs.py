"""Messages about captures to Python's logging, made only if a logger is enabled.

logging.getLogger("stator.breaks").setLevel(logging.INFO)        # each graph break, once per place
logging.getLogger("stator.recompiles").setLevel(logging.INFO)    # each recompilation, and the guard that failed
"""

from __future__ import annotations

import logging
from typing import Any

from . import _C

_breaks = logging.getLogger("stator.breaks")
_recompiles = logging.getLogger("stator.recompiles")


class _Log:
    """Logs captures that broke and recompilations. A place is logged once, until the next `compile` or `reset`."""

    def __init__(self) -> None:
        self._told: set[tuple[str, int, str]] = set()

    def wanted(self) -> bool:
        return _breaks.isEnabledFor(logging.INFO) or _recompiles.isEnabledFor(logging.INFO)

    def forget(self) -> None:
        self._told.clear()

    def __call__(self, record: dict[str, Any]) -> None:
        if record["recompile_reason"]:
            _recompiles.info(
                "%s (%s:%d) is captured again [%s]: %s",
                record["function"],
                record["file"],
                record["line"],
                record["compile_id"],
                record["recompile_reason"],
            )
        if reason := record["break_reason"]:
            self._tell_break(record, reason)

    def _tell_break(self, record: dict[str, Any], reason: dict[str, Any]) -> None:
        file, line = reason.get("file") or record["file"], reason.get("line") or record["line"]
        place = (file, line, reason["id"])
        if place in self._told or not _breaks.isEnabledFor(logging.INFO):
            return
        self._told.add(place)
        how = "" if record["resumes"] else "; the rest of the frame runs as plain Python"
        stack = "".join(f"\n  {path}:{number}, in {function}" for path, number, function in reason["stack"])
        function = reason.get("function") or record["function"]
        _breaks.info(
            "graph break in %s (%s:%d): %s [%s]%s%s\n  try: %s",
            function,
            file,
            line,
            reason["text"],
            reason["id"],
            how,
            stack,
            reason["hint"],
        )


log = _Log()
_C.set_capture_log(log)
