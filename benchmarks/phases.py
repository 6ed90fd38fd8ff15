"""Where the time of a capture goes, and which tier of fake tensors served its operators."""

from __future__ import annotations

import torch

import stator

from . import models
from .measure import Row, Table


def run(quick: bool = False) -> list[Table]:
    phase_rows, tier_rows = [], []
    with torch.no_grad():
        for case in models.ALL:
            model, inputs = case.build().eval(), case.inputs(0)
            best = None
            for _ in range(3):
                report = stator.explain(model)(**inputs)
                if best is None or report.compile_times.get("total", 0) < best.compile_times.get("total", 0):
                    best = report
            assert best is not None
            times = best.compile_times
            total = times.get("total", sum(times.values()))
            parts = ", ".join(f"{name} {ms:.2f}" for name, ms in times.items() if name != "total")
            per_op = total * 1000 / max(best.op_count, 1)
            phase_rows.append(
                Row(f"{case.name} ({best.op_count} ops)", f"{total:.2f} ms = {parts}", f"{per_op:.1f} us")
            )

            stator.reset()
            stator.compile(model)(**inputs)
            tiers = stator.counters().get("tiers", {})
            tier_rows.append(Row(case.name, ", ".join(f"{name} {count}" for name, count in tiers.items())))
    stator.reset()
    return [
        Table("Capture by phase (ms)", phase_rows, peer="per op"),
        Table("Operator calls that each fake tier served", tier_rows),
    ]
