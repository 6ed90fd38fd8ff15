"""Calls past the recompile limit: no entry fits and none is made. The function should cost what it costs in eager."""

from __future__ import annotations

import operator
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

import stator

from . import models
from .measure import Row, Table, show_time, single_threaded

ALLOWED_SHARE, ALLOWED_SECONDS = 0.05, 2e-6


def increment(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def medians(target: Callable[..., Any], inputs: list[dict[str, Any]], limit: int) -> tuple[float, float]:
    """Seconds of an eager call, and what a compiled one past the limit takes longer. Each of `inputs` needs an entry of
    its own.

    The calls alternate and are compared in pairs, so that neither a slow machine nor the size of an input counts. The
    few calls that are captured again do not change a median.
    """
    stator.reset()
    compiled = stator.compile(target, dynamic=False)
    for given in inputs[:limit]:
        compiled(**given)
    times: list[list[float]] = [[], []]
    for number, given in enumerate(inputs[limit:]):
        # Whichever comes second finds the CPU caches filled.
        for side, call in sorted(enumerate((target, compiled)), reverse=number % 2 == 1, key=lambda pair: pair[0]):
            start = time.perf_counter()
            call(**given)
            times[side].append(time.perf_counter() - start)
    eager, ours = times
    return statistics.median(eager), statistics.median(map(operator.sub, ours, eager))


def row(name: str, target: Callable[..., Any], inputs: list[dict[str, Any]], limit: int) -> Row:
    before = stator.config.recompile_limit
    stator.config.recompile_limit = limit
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eager, more = medians(target, inputs, limit)
    finally:
        stator.config.recompile_limit = before
        stator.reset()
    allowed = max(ALLOWED_SHARE * eager, ALLOWED_SECONDS)
    made = Row(f"{name}, {limit} entries", show_time(max(more, 0)), show_time(eager), "", "<= 5% or 2 us")
    made.ok = more <= allowed
    return made


@single_threaded
def run(quick: bool = False) -> list[Table]:
    rows = []
    with torch.no_grad():
        for limit in (8, 256):
            inputs = [{"x": torch.ones(size)} for size in range(1, limit + 400)]
            rows.append(row("x + 1", increment, inputs, limit))
        model = models.by_name("GPT-2").build().eval()
        for limit in (8,) if quick else (8, 64):
            shapes = [(1 + n // 40, 2 + n % 40) for n in range(limit + 100)]
            inputs = [{"input_ids": torch.ones(shape, dtype=torch.long)} for shape in shapes]
            rows.append(row("GPT-2", model, inputs, limit))
    return [Table("A miss past the recompile limit, over an eager call", rows, peer="eager call")]
