"""Watches the plain run of shadow mode: code that was not visited is visited when it begins, before anything of it
runs. If that shows something that cannot be put back, the run ends there."""

from __future__ import annotations

import _thread
import gc
import os
import sys
import types
from collections.abc import Callable
from typing import Any

from .contents import Unsavable, reason_of
from .reach import is_library_file

# C functions after which code would run that is not watched.
_ENDS = {
    id(_thread.start_new_thread): "a thread that the program starts",
    id(sys.setprofile): "a profile function of the program's own",
    id(getattr(os, "fork", None)): "a process that the program starts",
}


class Stopped(BaseException):
    """Ends the plain run. It is no `Exception`, so that the program does not handle it."""


class Watch:
    """`begins` is called with code, and the globals it runs with, unless its id is in `known`."""

    def __init__(self, known: dict[int, types.CodeType], begins: Callable[[types.CodeType, dict[str, Any]], None]):
        self.reason: str | None = None  # why the run was ended
        self._known = known
        self._begins = begins
        self._is_over = False
        # What the garbage collector calls runs whenever a collection is due, and is not part of the program.
        self._of_collector = {id(code) for f in gc.callbacks if (code := getattr(f, "__code__", None)) is not None}

    def over(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, watched."""

        def run(*args: Any, **kwargs: Any) -> Any:
            sys.setprofile(self._see)
            try:
                return function(*args, **kwargs)
            finally:
                self._is_over = True
                sys.setprofile(None)

        return run

    def _is_in_collector(self, frame: types.FrameType | None) -> bool:
        while self._of_collector and frame is not None:
            if id(frame.f_code) in self._of_collector:
                return True
            frame = frame.f_back
        return False

    def _see(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "call":
            if id(frame.f_code) in self._known or self._is_in_collector(frame):
                return
        elif event != "c_call" or id(arg) not in _ENDS or self._is_over:
            return
        try:
            if event == "c_call":
                raise Unsavable(_ENDS[id(arg)])
            _check_import(frame)
            self._begins(frame.f_code, frame.f_globals)
        except Exception as problem:
            self.reason = reason_of(problem)
            raise Stopped(self.reason) from None


def _check_import(frame: types.FrameType) -> None:
    if frame.f_code.co_name == "<module>":
        spec = frame.f_globals.get("__spec__")
        if getattr(spec, "_initializing", False) and not is_library_file(frame.f_code.co_filename):
            raise Unsavable(f"an import of a module for the first time: {frame.f_globals['__name__']}")
