"""Programs with graph breaks: the cost of a first call, a steady call and a new entry, and how much is captured."""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable
from typing import Any

import torch

import stator

from .measure import Row, Table, best_of, first_call, per_call, single_threaded, versus

BREAKS = 50
ITERATIONS = 1000


def outside(step: int) -> None:
    """A function that neither system may capture."""


def many_breaks() -> Callable[[torch.Tensor], torch.Tensor]:
    """One function with a break after each operator."""
    lines = ["def program(x):"]
    for step in range(BREAKS):
        lines += [f"    x = x + {step % 3 + 1}", f"    outside({step})"]
    lines.append("    return x * 2")
    space: dict[str, Any] = {"outside": torch.compiler.disable(outside)}
    exec(compile("\n".join(lines), "<many breaks>", "exec"), space)
    return space["program"]


def looped(x: torch.Tensor) -> torch.Tensor:
    total = x
    for step in range(ITERATIONS):
        total = total * 0.5 + x
        if total.sum() > 1e9:
            total = total - step
        total = total + 1
    return total


def scaled(x: torch.Tensor, scale: int) -> torch.Tensor:
    return (x * scale).relu() + scale


class Counting:
    """A backend that runs the graph unchanged and counts graphs and their calls."""

    def __init__(self) -> None:
        self.graphs = self.calls = 0

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Any:
        self.graphs += 1

        def run(*args: Any) -> Any:
            self.calls += 1
            return gm.forward(*args)

        return run


SIDES: list[tuple[Callable[..., Any], Callable[[], None]]] = [
    (stator.compile, stator.reset),
    (torch.compile, lambda: torch._dynamo.reset()),
]


def first_calls(target: Any, inputs: dict[str, Any], repeats: int) -> list[float]:
    return [
        best_of(n, lambda: first_call(lambda fn: compile(fn, backend="eager"), reset, target, inputs))  # noqa: B023
        for (compile, reset), n in zip(SIDES, (3 * repeats, repeats), strict=True)
    ]


def overheads(target: Any, x: torch.Tensor, repeats: int) -> list[float]:
    """Seconds of a steady call over an eager one. They alternate, so that a slow machine affects all."""
    calls = [target]
    for compile, reset in SIDES:
        reset()
        calls.append(compile(target, backend="eager"))
    best = [float("inf")] * len(calls)
    gc.disable()
    try:
        for _ in range(repeats):
            for side, call in enumerate(calls):
                for _ in range(5):  # the first calls find the CPU caches filled by the other systems
                    start = time.perf_counter()
                    call(x)
                    best[side] = min(best[side], time.perf_counter() - start)
    finally:
        gc.enable()
    return [max(compiled - best[0], 1e-9) for compiled in best[1:]]


def new_entry(compile: Callable[..., Any], reset: Callable[[], None], x: torch.Tensor) -> float:
    """Seconds of a call that misses all entries: the fastest of a few."""
    reset()
    compiled = compile(scaled, backend="eager", dynamic=False)
    compiled(x, 1)
    best = float("inf")
    gc.collect()
    gc.disable()
    try:
        for scale in range(2, 7):
            start = time.perf_counter()
            compiled(x, scale)
            best = min(best, time.perf_counter() - start)
    finally:
        gc.enable()
    return best


def counted(target: Any, x: torch.Tensor) -> list[Counting]:
    backends = []
    for compile, reset in SIDES:
        reset()
        backend = Counting()
        compiled = compile(target, backend=backend)
        assert torch.equal(compiled(x), target(x))
        backends.append(backend)
    return backends


@single_threaded
def run(quick: bool = False) -> list[Table]:
    repeats = 1 if quick else 3
    x = torch.ones(4)
    program = many_breaks()
    rows = []
    with torch.no_grad():
        ours, peer = first_calls(program, {"x": x}, repeats)
        rows.append(versus(f"{BREAKS} breaks: first call", ours, peer, 50))
        ours, peer = overheads(program, x, 300 if quick else 2000)
        rows.append(versus(f"{BREAKS} breaks: steady call, over eager", ours, peer, 10))
        mine, theirs = counted(program, x)
        rows.append(Row(f"{BREAKS} breaks: graphs", str(mine.graphs), str(theirs.graphs)))
        ours, peer = (best_of(repeats, functools.partial(new_entry, *side, x)) for side in SIDES)
        rows.append(versus("a guard fails: call that captures again", ours, peer, 50))
        mine, theirs = counted(looped, x)
        rows.append(
            Row(
                f"loop of {ITERATIONS} with a break: graphs",
                str(mine.graphs),
                str(theirs.graphs),
                target=">= 1",
                ok=mine.graphs >= 1,
            )
        )
        rows.append(Row(f"loop of {ITERATIONS} with a break: calls of graphs", str(mine.calls), str(theirs.calls)))
        ours, peer = first_calls(looped, {"x": x}, repeats)
        rows.append(versus(f"loop of {ITERATIONS} with a break: first call", ours, peer))
        eager = per_call(lambda: looped(x), 5)
        times = []
        for compile, reset in SIDES:
            reset()
            compiled = compile(looped, backend="eager")
            times.append(per_call(lambda: compiled(x), 5))  # noqa: B023
        rows.append(versus(f"loop of {ITERATIONS} with a break: steady call", *times))
        rows.append(Row(f"loop of {ITERATIONS} with a break: eager call", f"{eager * 1e3:.3g} ms"))
    for _, reset in SIDES:
        reset()
    return [Table("Graph breaks", rows)]
