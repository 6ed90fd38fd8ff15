"""Timing helpers and the rows that topics report."""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import stator


@dataclass
class Row:
    """One line of the table. `ok` is None if there is no target."""

    name: str
    ours: str
    peer: str = ""
    ratio: str = ""
    target: str = ""
    ok: bool | None = None

    def cells(self) -> list[str]:
        mark = "" if self.ok is None else ("yes" if self.ok else "**no**")
        return [self.name, self.ours, self.peer, self.ratio, self.target, mark]


@dataclass
class Table:
    title: str
    rows: list[Row]
    peer: str = "torch.compile"

    def markdown(self) -> str:
        head = ["", "Stator", self.peer, "ratio", "target", "met"]
        body = [row.cells() for row in self.rows]
        kept = [i for i in range(len(head)) if i < 2 or any(row[i] for row in body)]
        lines = [f"**{self.title}**", ""]
        lines.append("| " + " | ".join(head[i] for i in kept) + " |")
        lines.append("|" + "|".join("---" if i == 0 else "---:" for i in kept) + "|")
        lines += ["| " + " | ".join(row[i] for i in kept) + " |" for row in body]
        return "\n".join(lines)


def single_threaded(topic: Callable[..., Any]) -> Callable[..., Any]:
    """For topics that measure overhead, not compute: idle threads of the pool only add noise."""

    @functools.wraps(topic)
    def run(*args: Any) -> Any:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return topic(*args)
        finally:
            torch.set_num_threads(threads)

    return run


def show_time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def versus(name: str, ours: float, peer: float, least: float | None = None) -> Row:
    """A row of two times; `least` is the required ratio."""
    ratio = peer / ours
    target = "" if least is None else f">= {least:g}x"
    return Row(
        name, show_time(ours), show_time(peer), f"{ratio:.3g}x", target, None if least is None else ratio >= least
    )


def best_of(repeats: int, once: Callable[[], float]) -> float:
    """The smallest of several measurements, which is the least disturbed one."""
    return min(once() for _ in range(repeats))


def first_call(compile: Callable[[Any], Any], reset: Callable[[], None], target: Any, inputs: dict[str, Any]) -> float:
    """Seconds of the first call of a freshly compiled target, in a process that has compiled before."""
    reset()
    compiled = compile(target)
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        compiled(**inputs)
        return time.perf_counter() - start
    finally:
        gc.enable()


def our_first_call(target: Any, inputs: dict[str, Any], backend: Any = "eager", repeats: int = 7) -> float:
    def compile(fn: Any) -> Any:
        return stator.compile(fn, backend=backend, fullgraph=True)

    return best_of(repeats, lambda: first_call(compile, stator.reset, target, inputs))


def peer_first_call(target: Any, inputs: dict[str, Any], backend: Any = "eager", repeats: int = 3) -> float:
    def compile(fn: Any) -> Any:
        return torch.compile(fn, backend=backend, fullgraph=True)

    return best_of(repeats, lambda: first_call(compile, torch._dynamo.reset, target, inputs))


def per_call(call: Callable[[], Any], repeats: int = 200, seconds: float = 0.002) -> float:
    """Seconds of one call in the fastest of many batches, which are short so that some run undisturbed."""
    for _ in range(10):
        call()
    number, spent = 1, _batch(call, 1)
    while spent < seconds / 4:
        number *= 2
        spent = _batch(call, number)
    number = max(1, int(number * seconds / spent))
    gc.collect()
    gc.disable()
    try:
        return best_of(repeats, lambda: _batch(call, number)) / number
    finally:
        gc.enable()


def _batch(call: Callable[[], Any], number: int) -> float:
    loop = range(number)
    start = time.perf_counter()
    for _ in loop:
        call()
    return time.perf_counter() - start
