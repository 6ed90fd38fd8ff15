"""What observation costs: captures while events or a trace are recorded, and without; steady calls."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

import stator

from . import models
from .measure import Row, Table, single_threaded


def _capture_ms(model: Any, inputs: dict[str, Any], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        stator.reset()
        compiled = stator.compile(model)
        start = time.perf_counter()
        compiled(**inputs)
        best = min(best, time.perf_counter() - start)
    return best * 1000


def _call_ns(function: Callable[..., Any], repeats: int) -> float:
    x, best = torch.ones(3), float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(1000):
            function(x)
        best = min(best, (time.perf_counter() - start) / 1000)
    return best * 1e9


@single_threaded
def run(quick: bool = False) -> list[Table]:
    repeats = 5 if quick else 25
    case = next(case for case in models.ALL if "GPT" in case.name)
    rows = []
    with torch.no_grad():
        model, inputs = case.build().eval(), case.inputs(0)
        off = _capture_ms(model, inputs, repeats)
        with stator.events.recording():
            events = _capture_ms(model, inputs, repeats)
        stator.events.clear()
        with tempfile.TemporaryDirectory() as directory:
            stator.trace.start(directory)
            traced = _capture_ms(model, inputs, repeats)
            stator.trace.stop()
        for name, ms in (("nothing listens", off), ("events are recorded", events), ("a trace is written", traced)):
            rows.append(Row(f"first call of {case.name}: {name}", f"{ms:.2f} ms", ratio=f"{ms / off:.2f}x"))
        compiled = stator.compile(lambda x: x + 1)
        compiled(torch.ones(3))
        rows.append(Row("steady call", f"{_call_ns(compiled, repeats):.0f} ns"))
        with stator.events.recording():
            rows.append(Row("steady call while events are recorded", f"{_call_ns(compiled, repeats):.0f} ns"))
    stator.reset()
    return [Table("What observation costs", rows)]
