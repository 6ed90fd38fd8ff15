"""Messages about captures: which graphs, guards, breaks and recompilations there were.

    STATOR_LOGS=graph_breaks,recompiles python train.py     # prints them to stderr
    stator.set_logs("graph_breaks,recompiles")              # the same from a program

    graph_breaks (breaks)   each graph break, once per place
    recompiles              each recompilation, and the guard that failed
    graph                   each graph as a table
    graph_code              each graph as Python code with sizes and the program's lines
    graphs                  each graph in its text form, which `stator._C.Graph.parse` reads
    guards                  the guards of each capture as a tree, with the time of each
    bytecode                the bytecode of the function, and the plan that replaces it
    plans                   what a call does, as Python
    dynamic                 sizes that are symbols, and numbers that are inputs
    shapes                  sizes and numbers that become symbolic, or are specialised on
    perf                    the phases of each capture, in milliseconds
    all                     all of these

They are loggers of Python's logging ("stator.breaks" and so on), at level INFO; a program may configure them itself.
Torch's names for them, in TORCH_LOGS or torch._logging.set_logs, have the same effect. A message is made only if it is
wanted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch._logging._internal as torch_logging

from . import _C, places, show
from .errors import InvalidOption
from .files import LogFile
from .once import Once

_NAMES = (
    "breaks",
    "recompiles",
    "graph",
    "graph_code",
    "graphs",
    "guards",
    "bytecode",
    "plans",
    "dynamic",
    "shapes",
    "perf",
)
_LOGGERS = {name: logging.getLogger(f"stator.{name}") for name in _NAMES}
# Other names of these logs.
_ALIASES = {"graph_breaks": "breaks"}

# Torch's artifacts and logs, and what they show here.
TORCH_NAMES = {
    "graph_breaks": ("breaks",),
    "recompiles": ("recompiles",),
    "recompiles_verbose": ("recompiles",),
    "graph": ("graph",),
    "graph_code": ("graph_code",),
    "guards": ("guards",),
    "bytecode": ("bytecode",),
    "dynamic": ("dynamic", "shapes"),
    "dynamo": ("breaks", "recompiles"),
}


class _Stderr(logging.StreamHandler[Any]):
    """Writes to the current `sys.stderr`, even if the program replaces it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter("[%(name)s] %(message)s"))

    @property
    def stream(self) -> Any:
        return sys.stderr

    def format(self, record: logging.LogRecord) -> str:
        """A program's stream may take only what UTF-8 can express, which some names of files are not."""
        return super().format(record).encode(errors="backslashreplace").decode()


_handler = _Stderr()


def set_logs(names: str = "") -> None:
    """Prints these messages to stderr: a list with commas of graph_breaks, recompiles, graph, graph_code, graphs,
    guards, bytecode, plans, dynamic, shapes, perf, or all. The logs that are not named are off."""
    _set_logs(_parsed(names, "set_logs"))


def _parsed(names: str, where: str) -> set[str]:
    wanted = {_ALIASES.get(name.strip(), name.strip()) for name in names.split(",")} - {""}
    if "all" in wanted:
        return set(_LOGGERS)
    if unknown := wanted - set(_LOGGERS):
        raise InvalidOption(
            f"{where}: there is no log {', '.join(map(repr, sorted(unknown)))}",
            hint=f"one of {', '.join((*_LOGGERS, *_ALIASES))}, all",
        )
    return wanted


def _set_logs(names: set[str]) -> None:
    for name, logger in _LOGGERS.items():
        logger.removeHandler(_handler)
        logger.setLevel(logging.INFO if name in names else logging.NOTSET)
        # Our handler prints the message; handlers of the program would print it again.
        logger.propagate = name not in names
        if name in names:
            logger.addHandler(_handler)


def _set_from_environment() -> None:
    try:
        _set_logs(_parsed(os.environ.get("STATOR_LOGS", ""), "STATOR_LOGS"))
    except InvalidOption as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)


def _asked_of_torch() -> set[str]:
    """The logs that torch's own settings ask for."""
    state = torch_logging.log_state
    asked: set[str] = set()
    for theirs in state.artifact_names & TORCH_NAMES.keys():
        asked.update(TORCH_NAMES[theirs])
    # `dynamo` stands for messages of level INFO, `+dynamo` (DEBUG) for all of them.
    level: Any = state.log_qname_to_level.get("torch._dynamo")
    if isinstance(level, int) and level <= logging.INFO:
        asked.update(_LOGGERS if level <= logging.DEBUG else TORCH_NAMES["dynamo"])
    return asked


def _guards_text(record: dict[str, Any]) -> str:
    if not record["guards"]:
        return ""
    return show.guard_tree(record["guards"], record["guard_latency_us"], record["guard_costs_ns"])


def _graph_text(record: dict[str, Any]) -> str:
    return "" if record["graph"] is None else show.graph_table(record["graph"])


def _code_text(record: dict[str, Any]) -> str:
    return "" if record["graph"] is None else show.graph_code(record["graph"], show.header(record))


def _bytecode_text(record: dict[str, Any]) -> str:
    original = show.bytecode(record["code"], "ORIGINAL BYTECODE")
    return f"{original}\n\nPLAN IN ITS PLACE\n{show.plan_code(record)}"


def _dynamic_text(record: dict[str, Any]) -> str:
    if record["graph"] is None:
        return ""
    shapes = ", ".join(f"{name}: {sizes}" for name, sizes in show.symbolic_inputs(record["graph"]).items())
    return f"symbolic: {shapes}" if shapes else "all sizes are fixed"


def _perf_text(record: dict[str, Any]) -> str:
    times = ", ".join(f"{phase} {ms:.2f} ms" for phase, ms in record["phases"].items())
    return f"{record['ops']} operators, {len(record['guards'])} guards; {times}"


# The text of each log that shows a part of a capture.
_ARTIFACTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "graph": _graph_text,
    "graph_code": _code_text,
    "guards": _guards_text,
    "bytecode": _bytecode_text,
    "plans": show.plan_code,
    "dynamic": _dynamic_text,
    "perf": _perf_text,
}


class _File(LogFile):
    """Writes each message once, although it may arrive through several loggers."""

    _last: logging.LogRecord | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record is not self._last:
            super().emit(record)
        self._last = record


@contextlib.contextmanager
def log_file(path: str | Path) -> Iterator[None]:
    """For a block: what Stator's loggers print, they also write to the file. OSError if it cannot be opened."""
    handler = _File(path)
    handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
    # A logger may not propagate its messages, so each gets the handler.
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "stator"]
    loggers = [logging.getLogger(name) for name in {"stator", *names}]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
        handler.close()


class _Log:
    """Logs captures. A break is logged once per place, until the next `compile` or `reset`."""

    def __init__(self) -> None:
        self._told = Once()

    def wanted(self) -> bool:
        for logger in _LOGGERS.values():
            if logger.isEnabledFor(logging.INFO):
                return True
        state = torch_logging.log_state
        return bool(state.artifact_names or "torch._dynamo" in state.log_qname_to_level) and bool(_asked_of_torch())

    def forget(self) -> None:
        self._told.clear()

    def _wanted(self) -> set[str]:
        return {name for name, logger in _LOGGERS.items() if logger.isEnabledFor(logging.INFO)} | _asked_of_torch()

    def _say(self, name: str, text: str, *args: Any) -> None:
        logger = _LOGGERS[name]
        if logger.isEnabledFor(logging.INFO):
            logger.info(text, *args)
        else:  # torch's settings ask for it
            _handler.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, text, args, None))

    def __call__(self, record: dict[str, Any]) -> None:
        wanted = self._wanted()
        function, place = record["function"], f"{record['file']}:{record['line']}"
        if "recompiles" in wanted and record["recompile_reason"]:
            self._say(
                "recompiles",
                "%s (%s) is captured again [%s]: %s",
                function,
                place,
                record["compile_id"],
                record["recompile_reason"],
            )
        if "shapes" in wanted:
            for what, texts in (("symbolic from now on", record["changed"]), ("specialised", record["specialised"])):
                for text in texts:
                    self._say("shapes", "%s (%s) [%s] %s: %s", function, place, record["compile_id"], what, text)
        if "graphs" in wanted and record["graph"] is not None:
            self._say("graphs", "%s (%s) [%s]:\n%s", function, place, record["compile_id"], record["graph"])
        for name in _ARTIFACTS:
            if name in wanted and (text := _ARTIFACTS[name](record)):
                self._say(name, "%s (%s) [%s]:\n%s", function, place, record["compile_id"], text)
        if "breaks" in wanted and (reason := record["break_reason"]):
            self._tell_break(record, reason)

    def _tell_break(self, record: dict[str, Any], reason: dict[str, Any]) -> None:
        stack = reason["stack"] or [(record["file"], record["line"], record["function"])]
        inner = stack[-1]
        told = (inner[0], inner[1], reason["id"])
        if not self._told.first(told):
            return
        how = "" if record["resumes"] else "; the rest of the frame runs as plain Python"
        index = places.user_index(stack)
        file, line, function = stack[index]
        source = places.source_of(file, line)
        self._say(
            "breaks",
            "graph break in %s (%s:%d): %s [%s]%s%s%s\n  try: %s",
            function,
            file,
            line,
            reason["text"],
            reason["id"],
            how,
            f"\n    {source}" if source else "",
            "".join(f"\n  {path}:{number}, in {name}" for path, number, name in stack[index + 1 :]),
            reason["hint"],
        )


log = _Log()
_set_from_environment()
_C.set_capture_log(log)
