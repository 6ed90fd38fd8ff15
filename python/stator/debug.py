"""The debug folder: files that each capture writes. `stator.config.debug_dir = path`, or STATOR_DEBUG_DIR=path.

    path/run_<time>-pid_<number>/       one for each process
        0_0/capture.log    phases, their times, the outcome, and the messages of Stator's loggers
            graph.txt      the graph; graph.py: as a user's backend got it
            guards.txt     one line for each guard
            plan.txt       the steps of the plan
            break.txt      reason and place of the graph break, if there was one

Nothing is overwritten: if a folder exists, the new one gets a number.
"""

from __future__ import annotations

import datetime
import itertools
import logging
import os
import traceback
import warnings
from pathlib import Path
from typing import Any

from . import _C
from .files import LogFile, write_whole
from .once import strip_color, warn_once

_logger = logging.getLogger("stator")


class _Format(logging.Formatter):
    """Drops the escape sequences that colour text in a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return strip_color(super().format(record))


_FORMAT = _Format("%(asctime)s %(name)s: %(message)s")
# The folder of this process, by the value of `debug_dir` and the process id.
_runs: dict[tuple[str, int], Path] = {}
# What the values of `debug_dir` meant in the working directory of their first use; a child of a fork uses it too.
_meant: dict[str, Path] = {}

# Folders of the running captures, the innermost last. Only one thread captures at a time.
_open: list[Folder] = []


class Folder:
    """The folder of one capture, from its start to its end."""

    def __init__(self, path: Path):
        self.path = path
        self._handler = LogFile(path / "capture.log")
        self._handler.setFormatter(_FORMAT)
        _logger.addHandler(self._handler)
        _open.append(self)

    def say(self, text: str) -> None:
        """Writes a line to the log, independent of the loggers' level."""
        self._handler.handle(logging.LogRecord("stator.capture", logging.INFO, "", 0, text, (), None))

    def put(self, name: str, lines: list[str]) -> None:
        """Writes a file; on an error it warns."""
        try:
            write_whole(self.path / name, "".join(f"{line}\n" for line in lines))
        except OSError as error:
            warn_once(f"{self.path / name} is not written: {error}", stacklevel=3)

    def write(self, record: dict[str, Any]) -> None:
        """Writes graph, guards, plan and break of the finished capture."""
        if record["graph"] is not None:
            self.put("graph.txt", [str(record["graph"])])
        self.put("guards.txt", record["guards"])
        if record["plan"] is not None:
            self.put("plan.txt", record["plan"])
        if reason := record["break_reason"]:
            stack = [f"  {file}:{line}, in {function}" for file, line, function in reason["stack"]]
            self.put("break.txt", [f"{reason['text']} [{reason['id']}]", *stack, f"try: {reason['hint']}"])
            self.say(f"ended by a break: {reason['text']} [{reason['id']}]")
        times = ", ".join(f"{phase} {ms:.2f} ms" for phase, ms in record["phases"].items())
        self.say(f"captured as {record['compile_id']}: {record['ops']} ops, {len(record['guards'])} guards; {times}")

    def close(self, error: BaseException | None) -> None:
        if error is not None:
            self.say("failed\n" + "".join(traceback.format_exception(error)).rstrip())
        _open.remove(self)
        _logger.removeHandler(self._handler)
        self._handler.close()


def open_folder(directory: str, compile_id: str, function: str, file: str, line: int, reason: str) -> Folder | None:
    """Called when a capture starts. On an error it warns, and the capture continues without a folder."""
    try:
        folder = Folder(_fresh(run_folder(directory), compile_id.replace("/", "_")))
    except OSError as error:
        warnings.warn(f"nothing is written to stator.config.debug_dir: {error}", RuntimeWarning, stacklevel=2)
        return None
    folder.say(f"capture of {function} ({file}:{line})" + (f", again because {reason}" if reason else ""))
    return folder


def run_folder(directory: str) -> Path:
    """The folder of this process in `directory`. It is made when the first capture writes to it."""
    key = directory, os.getpid()
    if key not in _runs:
        now = datetime.datetime.now().strftime("%Y_%m_%d_%H_%M_%S_%f")
        _runs[key] = _meant.setdefault(directory, Path(directory).absolute()) / f"run_{now}-pid_{os.getpid()}"
    return _runs[key]


def note_module(gm: Any) -> None:
    """Writes graph.py: the graph that a user's backend gets."""
    if _open:
        _open[-1].put("graph.py", [gm.code.strip()])


def _fresh(directory: Path, name: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for number in itertools.count():
        path = directory / (f"{name}.{number}" if number else name)
        try:
            path.mkdir()
        except FileExistsError:
            continue
        return path
    raise AssertionError("never reached")


_C.set_debug_folder(open_folder)
