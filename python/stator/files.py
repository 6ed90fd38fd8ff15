"""Files that are complete or absent, and logs that warn if they are incomplete."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
from pathlib import Path

from .once import warn_once


def write_whole(file: Path, text: str | bytes) -> None:
    """Writes a file by renaming a complete one into its place: no reader ever sees a part of it. OSError if that fails;
    then nothing is left, and an older file is unchanged."""
    file.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(number, "wb") as made:
            # What UTF-8 cannot express, as in some names of files, is written as an escape.
            made.write(text.encode(errors="backslashreplace") if isinstance(text, str) else text)
        os.chmod(name, 0o644)
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


class LogFile(logging.FileHandler):
    """A log file that never raises OSError: the first one becomes a warning that the file is incomplete."""

    def __init__(self, path: str | Path):
        super().__init__(path, encoding="utf-8", errors="backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:
        self._warn(sys.exc_info()[1])

    def close(self) -> None:
        try:
            super().close()
        except OSError as error:
            self._warn(error)

    def _warn(self, error: BaseException | None) -> None:
        warn_once(f"{self.baseFilename} is incomplete: {error}", stacklevel=3)
