"""Lines of a program: which one is the user's own, and how lines are shown."""

from __future__ import annotations

import functools
import linecache
import os
import site
import sys
import sysconfig
import types
from collections.abc import Sequence
from typing import Any

import torch

# (file, line, function), as the extension reports the frames of a stack.
Line = tuple[str, int, str]


_OWN = tuple(os.path.dirname(file) + os.sep for file in (torch.__file__, __file__))


@functools.cache
def _packages() -> tuple[str, ...]:
    """The folders of installed packages."""
    paths = sysconfig.get_paths()
    folders = {paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages()}
    return tuple(folder + os.sep for folder in sorted(folders))


@functools.cache
def distance_of(file: str) -> int:
    """0: the user's own file; 1: an installed package; 2: torch, the standard library or Stator."""
    if file.startswith((*_OWN, "<frozen")):
        return 2
    if file.startswith(_packages()):  # before the standard library, which often contains this folder
        return 1
    return 2 if file.startswith(sysconfig.get_paths()["stdlib"] + os.sep) else 0


def is_of_user(file: str) -> bool:
    """Whether a file is the user's own."""
    return distance_of(file) == 0


@functools.cache
def is_standard(file: str) -> bool:
    """Whether a file is of the standard library."""
    folder = sysconfig.get_paths()["stdlib"] + os.sep
    return file.startswith("<frozen") or (file.startswith(folder) and not file.startswith(_packages()))


def user_index(stack: Sequence[Sequence[Any]]) -> int:
    """The index of the user's own line in a stack (outermost first): the innermost line of the user's files; if there
    is none, of an installed package; if there is none, the innermost line."""
    if not stack:
        return -1
    nearest = min(distance_of(line[0]) for line in stack)
    if nearest == 2:
        return len(stack) - 1
    return max(index for index, line in enumerate(stack) if distance_of(line[0]) == nearest)


def short_path(file: str) -> str:
    """The path relative to the current folder or to the folder of installed packages; unchanged outside of both."""
    for folder in (*_packages(), os.getcwd() + os.sep):
        if file.startswith(folder):
            return file[len(folder) :]
    return file


def source_of(file: str, line: int) -> str:
    """The text of a line; empty if the source is not there."""
    return linecache.getline(file, line).strip()


def show(line: Sequence[Any]) -> str:
    return f"{short_path(line[0])}:{line[1]}, in {line[2]}"


def running(skip: int) -> list[Line]:
    """The lines of the program that run on this thread, outermost first, without the `skip` innermost frames, and
    without those of torch, the standard library and Stator."""
    lines: list[Line] = []
    frame: types.FrameType | None = sys._getframe(skip)
    while frame is not None:
        if distance_of(frame.f_code.co_filename) < 2:
            lines.insert(0, (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname))
        frame = frame.f_back
    return lines
