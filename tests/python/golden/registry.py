"""How the programs of the golden files are registered: a topic is a file, a program is a section of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.python.captured import Writer, golden_text


@dataclass
class Program:
    make: Callable[[], Any]  # returns the callable to compile
    calls: Callable[[], list[tuple]]  # new arguments for each call
    writer: Writer

    def text(self, name: str) -> str:
        torch.manual_seed(0)
        return golden_text(name, self.make(), self.calls(), self.writer)


TOPICS: dict[str, dict[str, Program]] = {}


def topic(name: str) -> Callable[..., Any]:
    """A decorator for the programs of a topic. `@program(lambda: (x(),), ...)` makes the arguments of each call;
    without any there is one call with one tensor. `make=True`: the function makes the callable. `brief=True`: guards
    are only counted, for programs in which torch's own code needs a hundred of them."""
    programs = TOPICS.setdefault(name, {})

    def program(*calls: Callable[[], tuple], make: bool = False, brief: bool = False) -> Callable[[Any], Any]:
        def register(fn: Any) -> Any:
            assert fn.__name__ not in programs, f"two programs are called {fn.__name__}"
            wanted = calls or (lambda: (x(),),)
            writer = Writer(fn.__code__.co_filename, fn.__code__.co_firstlineno, brief)
            give = fn if make else lambda: fn
            programs[fn.__name__] = Program(give, lambda: [arguments() for arguments in wanted], writer)
            return fn

        return register

    return program


def x(*shape: int) -> torch.Tensor:
    """A tensor with the values 0, 1, 2, ...; the default shape is (2, 3)."""
    shape = shape or (2, 3)
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)
