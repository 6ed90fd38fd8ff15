"""Symbolic sizes: captures beside the peer's and beside static ones, growth, guards, calls."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

import stator

from . import models
from .measure import Row, Table, best_of, first_call, per_call, show_time, single_threaded, versus

Inputs = dict[str, Any]


def ours(dynamic: bool) -> Callable[[Any], Any]:
    return lambda fn: stator.compile(fn, fullgraph=True, dynamic=dynamic)


def peers(dynamic: bool) -> Callable[[Any], Any]:
    return lambda fn: torch.compile(fn, backend="eager", fullgraph=True, dynamic=dynamic)


def our_captures(target: Any, inputs: Inputs, repeats: int = 9) -> tuple[float, float]:
    """Seconds of a static and of a dynamic capture. They alternate, so that a busy machine affects both."""
    static, dynamic = float("inf"), float("inf")
    for _ in range(repeats):
        static = min(static, first_call(ours(False), stator.reset, target, inputs))
        dynamic = min(dynamic, first_call(ours(True), stator.reset, target, inputs))
    return static, dynamic


def peer_capture(target: Any, inputs: Inputs, repeats: int) -> float:
    return best_of(repeats, lambda: first_call(peers(True), torch._dynamo.reset, target, inputs))


def at_most(name: str, value: float, most: float, unit: str = "x", shown: str = "") -> Row:
    return Row(name, shown or f"{value:.3g}{unit}", target=f"<= {most:g}{unit}", ok=value <= most)


def capture_rows(quick: bool) -> list[Row]:
    rows, ratios, shares = [], [], []
    for case in [models.by_name("GPT, 12 blocks"), *models.OWN[:2], *models.TRANSFORMERS]:
        model, inputs = case.build().eval(), case.inputs(0)
        static, dynamic = our_captures(model, inputs)
        peer = peer_capture(model, inputs, 1 if quick else 2)
        ratios.append(peer / dynamic)
        shares.append(dynamic / static)
        rows.append(versus(case.name, dynamic, peer, 50 if case.name.startswith("GPT, ") else None))
        rows.append(at_most(f"{case.name}, over a static capture", dynamic / static, 1.5))
    median = statistics.median(ratios)
    rows.append(Row("median", "", ratio=f"{median:.3g}x", target=">= 50x", ok=median >= 50))
    return rows


# ---- growth


def shapes_chain(count: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """`count` operators that change shapes: views, reshapes, joins and cuts by computed sizes."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(count // 5):
            n = x.shape[0]
            x = x.view(-1).reshape(n, 4)
            x = torch.cat([x, x[: n // 2]])
            x = x[: x.shape[0] - n // 2]
        return x

    return chain


def growth_row() -> Row:
    inputs = {"x": torch.ones(24, 4)}

    def capture(count: int) -> float:
        return first_call(ours(True), stator.reset, shapes_chain(count), inputs)

    turns = [(statistics.mean(capture(500) for _ in range(4)), capture(2000)) for _ in range(7)]
    slope = statistics.median(many / few for few, many in turns)
    row = at_most("2,000 view, reshape, cat and slice over 500 of them", slope, 4.4)
    row.ours = f"{show_time(min(many for _, many in turns))}, {slope:.3g}x"
    return row


# ---- calls


def questions(count: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Asks `count` things about two sizes, none of which follows from the others."""

    def ask(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        n, m = x.shape[0], y.shape[0]
        for k in range(count):
            if n * (k + 3) == m + k:
                return x
        return x + 1

    return ask


def guards_row() -> Row:
    count = 100
    args = (torch.ones(6), torch.ones(5))
    few, many = (stator.compile(questions(n), dynamic=True) for n in (0, count))
    times = [(per_call(lambda: few(*args)), per_call(lambda: many(*args))) for _ in range(5)]
    more = min(time for _, time in times) - min(time for time, _ in times)
    row = at_most(f"{count} guards on sizes", more, 1e-6, shown=show_time(max(more, 1e-9)))
    row.target = "<= 1 us"
    return row


def increment(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def scale_all(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [value * 2 for value in tensors]


def over_static(target: Any, args: tuple[Any, ...], turns: int = 5) -> float:
    """A call with symbolic sizes over one with plain sizes."""
    static, dynamic = (stator.compile(target, dynamic=dynamic) for dynamic in (False, True))
    times = [float("inf"), float("inf")]
    for _ in range(turns):
        for side, call in enumerate((static, dynamic)):
            times[side] = min(times[side], per_call(lambda: call(*args)))  # noqa: B023
    return times[1] / times[0]


@single_threaded
def run(quick: bool = False) -> list[Table]:
    with torch.no_grad():
        warm_up = {"x": torch.ones(4)}
        first_call(peers(True), torch._dynamo.reset, increment, warm_up)
        our_captures(increment, warm_up)
        captures = capture_rows(quick)
        calls = [
            growth_row(),
            guards_row(),
            at_most("call of x + 1 over a static one", over_static(increment, (torch.ones(4),)), 1.3),
            at_most(
                "call with 50 tensors over a static one",
                over_static(scale_all, ([torch.ones(n + 2) for n in range(50)],)),
                1.3,
            ),
        ]
        case = models.by_name("GPT, 12 blocks")
        steady = over_static(case.build().eval(), tuple(case.inputs(0).values()))
        calls.append(at_most(f"{case.name}, steady call over a static one", steady, 1.03))
    return [
        Table('First call with symbolic sizes (`dynamic=True`), `backend="eager"` on both sides', captures),
        Table("Symbolic sizes: growth and calls", calls),
    ]
