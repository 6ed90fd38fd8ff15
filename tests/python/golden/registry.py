"""How the programs of the golden files are registered: a topic is a file, a program is a section of it."""

from __future__ import annotations

import re
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
        reset_autocast_depth()
        return with_slots_in_order(golden_text(name, self.make(), self.calls(), self.writer))


def reset_autocast_depth() -> None:
    """Tests that ran before may have left another depth of autocast blocks than 0; it decides what the end of a block
    does."""
    depth = torch.autocast_increment_nesting()
    while depth < 1:
        depth = torch.autocast_increment_nesting()
    while depth > 0:
        depth = torch.autocast_decrement_nesting()


def with_slots_in_order(text: str) -> str:
    """Numbers the slots of the check array in the order in which the text names them. Their real numbers depend on the
    order in which guards were made for objects that no line names."""
    numbers: dict[str, int] = {}

    def renumbered(line: re.Match[str]) -> str:
        return re.sub(r"\d+", lambda slot: str(numbers.setdefault(slot.group(), len(numbers))), line.group())

    return re.sub(r"(?<=graph inputs: slots )[\d ]+(?=;)|(?<== slot )\d+", renumbered, text)


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
