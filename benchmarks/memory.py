"""Resident memory over many calls and over many rounds of compile and reset."""

from __future__ import annotations

import gc
from pathlib import Path

import torch

import stator

from .measure import Row, Table
from .models import MLP


def resident() -> float:
    """Resident memory of this process in MiB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def calls(count: int) -> tuple[float, float]:
    """MiB before and after `count` calls of a warm compiled function."""
    compiled = stator.compile(lambda x: x + 1)
    x = torch.ones(4)
    for _ in range(1000):
        compiled(x)
    before = resident()
    for _ in range(count):
        compiled(x)
    return before, resident()


def rounds(count: int, warm: int = 200) -> tuple[float, float]:
    """MiB before and after `count` rounds of compile, call and reset of a new model."""
    x = torch.randn(2, 16)

    def once() -> None:
        stator.compile(MLP(16, 16))(x)
        stator.reset()

    with torch.no_grad():
        for _ in range(warm):
            once()
        before = resident()
        for _ in range(count):
            once()
    return before, resident()


def run(quick: bool = False) -> list[Table]:
    scale = 10 if quick else 1
    rows = []
    for name, (before, after) in (
        (f"{1_000_000 // scale:,} calls", calls(1_000_000 // scale)),
        (f"{2_000 // scale:,} rounds of compile, call, reset", rounds(2_000 // scale)),
    ):
        grown = after - before
        rows.append(Row(name, f"{before:.0f} to {after:.0f} MiB", target="flat (< 8 MiB)", ok=grown < 8))
    return [Table("Resident memory", rows)]
