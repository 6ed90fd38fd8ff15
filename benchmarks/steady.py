"""Steady state with the default backend, compared with eager: compiling must not make these programs slower."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import stator

from . import models
from .measure import Table, per_call, single_threaded, versus


def increment(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def scale_all(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value * 2 for name, value in tensors.items()}


def _cases() -> list[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    cases: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("x + 1", increment, (torch.ones(4),)),
        ("dict of 50 tensors", scale_all, ({f"t{i}": torch.ones(4) for i in range(50)},)),
    ]
    for name in ("MLP", "GPT, 12 blocks"):
        case = models.by_name(name)
        cases.append((name, case.build().eval(), tuple(case.inputs(0).values())))
    return cases


@single_threaded
def run(quick: bool = False) -> list[Table]:
    rows = []
    with torch.no_grad():
        for name, target, args in _cases():
            compiled = stator.compile(target)
            # Alternate, so that a change of the machine's speed affects both.
            ours, eager = float("inf"), float("inf")
            for _ in range(3):
                ours = min(ours, per_call(lambda: compiled(*args)))  # noqa: B023
                eager = min(eager, per_call(lambda: target(*args)))  # noqa: B023
            rows.append(versus(name, ours, eager, 1))
    return [Table("Steady state, default backend, against eager", rows, peer="eager")]
