"""Costs once per process: import, and the first compile over the second. Each figure comes from new processes."""

from __future__ import annotations

import json
import subprocess
import sys

from .measure import Row, Table, show_time

PROGRAM = r"""
import json, sys, time
import torch
start = time.perf_counter()
import stator
imported = time.perf_counter() - start
from benchmarks import models
case = models.by_name("MLP")
model, inputs = case.build().eval(), case.inputs(0)
with torch.no_grad():
    model(**inputs)
    times = []
    for _ in range(2):
        stator.reset()
        compiled = stator.compile(model)
        start = time.perf_counter()
        compiled(**inputs)
        times.append(time.perf_counter() - start)
heavy = [name for name in ("sympy", "torch._dynamo", "torch._inductor") if name in sys.modules]
print(json.dumps({"import": imported, "first": times[0], "second": times[1], "heavy": heavy}))
"""


def sample() -> dict[str, object]:
    out = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def run(quick: bool = False) -> list[Table]:
    samples = [sample() for _ in range(2 if quick else 5)]
    imported = min(s["import"] for s in samples)
    more = max(0.0, min(s["first"] for s in samples) - min(s["second"] for s in samples))
    heavy = samples[0]["heavy"]
    rows = [
        Row("`import stator` after `import torch`", show_time(imported), target="<= 50 ms", ok=imported <= 0.05),
        Row("first compile of a process over the second", show_time(more), target="<= 50 ms", ok=more <= 0.05),
        Row(
            "of sympy, torch._dynamo, torch._inductor imported",
            ", ".join(heavy) or "none",
            target="none",
            ok=not heavy,
        ),
    ]
    return [Table("Once per process", rows)]
