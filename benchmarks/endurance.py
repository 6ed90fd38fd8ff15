"""Ten million calls, and twenty thousand captures of random programs: no crash, no memory growth."""

from __future__ import annotations

import contextlib
import io
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

import stator
from tests.fuzz.execute import arguments
from tests.fuzz.grammar import random_case

from .measure import Row, Table, single_threaded
from .memory import resident
from .models import MLP


class Counter:
    def __init__(self) -> None:
        self.seen = 0


def plain(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def writes(x: torch.Tensor, counter: Counter) -> torch.Tensor:
    counter.seen = counter.seen + 1 if counter.seen < 3 else 0
    return x * 2


def nested(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value + 1 for name, value in inputs.items()}


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    stator.graph_break("endurance")
    return y * 2


def callers() -> list[Callable[[], Any]]:
    x, counter = torch.ones(4), Counter()
    inputs = {name: torch.ones(2) for name in "abcd"}
    model, row = stator.compile(MLP(4, 4)), torch.ones(1, 4)
    one, two, three, four = (stator.compile(f) for f in (plain, writes, nested, broken))
    return [lambda: one(x), lambda: two(x, counter), lambda: three(inputs), lambda: four(x), lambda: model(row)]


def calls(count: int) -> tuple[float, float]:
    """MiB before and after `count` calls of functions that write, that break, that take dicts, and of modules."""
    kinds = callers()
    with torch.no_grad():
        for call in kinds * 1000:
            call()
        before = resident()
        for call in kinds:
            for _ in range(count // len(kinds)):
                call()
    return before, resident()


def programs() -> Iterator[None]:
    """Each step generates a program, calls it compiled with inputs of several kinds, and drops it."""
    seed = 0
    while True:
        source, inputs = random_case(seed)
        module = types.ModuleType("endured")
        exec(compile(source, "<endured>", "exec", dont_inherit=True), module.__dict__)
        compiled = stator.compile(module.program)
        for given in inputs:
            call = arguments(module, given)
            # Random programs print and raise; only their memory matters here.
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
                compiled(*call.args)
        del module, compiled
        seed += 1
        yield


def compiles(count: int, warm: int) -> tuple[float, float, int]:
    """MiB before and after `count` captures, and the number of programs."""

    def captured() -> int:
        return stator.counters()["captures"].get("graphs", 0)

    stator.reset()
    steps = programs()
    while captured() < warm:
        next(steps)
    before, start, made = resident(), captured(), 0
    while captured() - start < count:
        next(steps)
        made += 1
    return before, resident(), made


@single_threaded
def run(quick: bool = False) -> list[Table]:
    scale = 100 if quick else 1
    many, captures = 10_000_000 // scale, 20_000 // scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before, after = calls(many)
        rows = [Row(f"{many:,} calls", f"{before:.0f} to {after:.0f} MiB", target="< 8 MiB", ok=after - before < 8)]
        before, after, made = compiles(captures, captures // 4)
    name = f"{captures:,} captures of {made:,} random programs"
    rows.append(Row(name, f"{before:.0f} to {after:.0f} MiB", target="< 16 MiB", ok=after - before < 16))
    return [Table("Endurance", rows)]
