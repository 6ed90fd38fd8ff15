"""Tells traces how programs read submodules: the readers of `torch.nn` are replaced while a trace asks for it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..fork_safe import ForkSafeLock

# Called with the owner, the name or index, and the module that was read.
Note = Callable[[torch.nn.Module, Any, torch.nn.Module], None]

_CONTAINERS = (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict)
_READERS = ((torch.nn.Module, "__getattr__"), *((container, "__getitem__") for container in _CONTAINERS))

_lock = ForkSafeLock()
_notes: list[Note] = []  # of the traces that run, of all threads
_originals: list[Any] = []  # the readers that were replaced, in the order of `_READERS`


@contextlib.contextmanager
def told_of_reads(note: Note) -> Iterator[None]:
    """In this block `note` is called for each read, on the thread that reads. The first block replaces the readers, and
    the last one puts them back: blocks of several threads overlap."""
    with _lock:
        if not _notes:
            for owner, name in _READERS:
                _originals.append(owner.__dict__[name])
                setattr(owner, name, _telling(_originals[-1]))
        _notes.append(note)
    try:
        yield
    finally:
        with _lock:
            _notes.remove(note)
            if not _notes:
                for (owner, name), original in zip(_READERS, _originals, strict=True):
                    setattr(owner, name, original)
                _originals.clear()


def _telling(original: Any) -> Any:
    @functools.wraps(original)
    def read(owner: Any, name: Any) -> Any:
        found = original(owner, name)
        if isinstance(found, torch.nn.Module):
            for note in tuple(_notes):
                note(owner, name, found)
        return found

    return read
