"""Runs in a child process. A child has all objects of the program as they are now, and whatever it does to them, or
however it ends, this process is unchanged."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import StatorError


@dataclass(frozen=True)
class Trial:
    """How a child ended. `value` is what the action returned, if it returned; else `ended` says what happened."""

    value: Any = None
    ended: str | None = None


def in_child(action: Callable[[], Any], seconds: float) -> Trial:
    """Runs `action` in a child of one thread, without output. What it returns is pickled."""
    if torch.cuda.is_initialized():
        raise StatorError(
            "a process that uses CUDA cannot be copied, so the program cannot be tried in a child process",
            hint="run it on the CPU, or before CUDA is used",
            code="no-child-process",
        )
    sys.stdout.flush()
    sys.stderr.flush()
    source, target = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork, where other threads run
        child = os.fork()
    if child == 0:
        _run(action, target)
    os.close(target)
    try:
        data, is_late = _read(source, time.monotonic() + seconds)
    finally:
        os.close(source)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)  # it has ended, or it is late
        status = os.waitpid(child, 0)[1]
    if is_late:
        return Trial(ended=f"did not end in {seconds:g} s")
    if not data:
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return Trial(ended=f"signal {signal.Signals(number).name}" if number else f"exit {os.WEXITSTATUS(status)}")
    ok, value = pickle.loads(data)
    return Trial(value=value) if ok else Trial(ended=value)


def _run(action: Callable[[], Any], target: int) -> None:
    """The child. It never returns."""
    try:
        faulthandler.disable()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        torch.set_num_threads(1)  # threads of the parent do not exist here
        data = pickle.dumps((True, action()))
    except BaseException as error:
        data = pickle.dumps((False, f"{type(error).__name__}: {error}"))
    with contextlib.suppress(BaseException):
        with os.fdopen(target, "wb") as pipe:
            pipe.write(len(data).to_bytes(8, "little") + data)
    os._exit(0)


def _read(source: int, until: float) -> tuple[bytes, bool]:
    """All that the child wrote, if it was whole; whether it was late."""
    data = bytearray()
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([source], [], [], left)[0]:
            return b"", True
        chunk = os.read(source, 1 << 20)
        if not chunk:
            break
        data += chunk
        if len(data) >= 8 and len(data) == 8 + int.from_bytes(data[:8], "little"):
            break
    is_whole = len(data) >= 8 and len(data) == 8 + int.from_bytes(data[:8], "little")
    return (bytes(data[8:]), False) if is_whole else (b"", False)
