"""Shows on stderr, if it is a terminal, what takes long while it runs."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TextIO

# Work that ends sooner is not mentioned.
_SECONDS = 2.0


class shown:
    """While the block runs, shows a line with `text` and the elapsed seconds, from two seconds on. Then erases it."""

    def __init__(self, text: str, stream: TextIO | None = None, seconds: float = _SECONDS):
        self._text = text
        self._stream = stream
        self._seconds = seconds
        self._ended: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        stream = self._stream or sys.stderr
        if not _is_terminal(stream):
            return
        self._stream, self._ended = stream, threading.Event()
        self._thread = threading.Thread(target=self._run, name="stator-progress", daemon=True)
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended is not None and self._thread is not None:
            self._ended.set()
            self._thread.join()

    def _run(self) -> None:
        assert self._ended is not None and self._stream is not None
        start, width = time.monotonic(), 0
        while not self._ended.wait(self._seconds):
            line = f"stator: {self._text}, {time.monotonic() - start:.0f} s"
            self._write("\r" + line.ljust(width))
            width = len(line)
        if width:
            self._write("\r" + " " * width + "\r")

    def _write(self, text: str) -> None:
        assert self._stream is not None
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # it was closed
            pass


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (AttributeError, ValueError):
        return False
