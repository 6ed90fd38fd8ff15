"""The number of graphs per architecture: two calls in eval, two training steps, greedy generation of four tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import stator

from .architectures import ARCHITECTURES, Architecture
from .measure import Row, Table, single_threaded


class Counting:
    """A backend that runs the graph unchanged and counts graphs."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Any:
        self.count += 1
        return gm.forward


def count(row: Architecture, compile: Callable[..., Any], reset: Callable[[], None]) -> list[int]:
    case, counts = row.case(), []
    for training in (False, True):
        reset()
        backend = Counting()
        model = case.build().train(training)
        compiled = compile(model, backend=backend)
        with torch.set_grad_enabled(training):
            for seed in range(2):
                torch.manual_seed(seed)
                result = compiled(**case.inputs(seed))
                if training:
                    case.loss(result).backward()
        counts.append(backend.count)
    if row.kind.prompt:
        reset()
        backend = Counting()
        model = case.build().eval()
        model.forward = compile(model.forward, backend=backend)
        model.generate(**row.kind.prompt(), max_new_tokens=4, do_sample=False)
        counts.append(backend.count)
    reset()
    return counts


def peer_compile(target: Any, backend: Any) -> Any:
    # Generation grows the cache token by token; both systems are told not to make sizes symbolic.
    return torch.compile(target, backend=backend, dynamic=False)


@single_threaded
def run(quick: bool = False) -> list[Table]:
    rows = []
    for row in ARCHITECTURES[:: 10 if quick else 1]:
        ours = count(row, stator.compile, stator.reset)
        peer = count(row, peer_compile, torch._dynamo.reset)
        ok = all(mine <= theirs for mine, theirs in zip(ours, peer, strict=True))
        rows.append(
            Row(f"{row.name} ({row.kind.name})", " / ".join(map(str, ours)), " / ".join(map(str, peer)), "", "<=", ok)
        )
    return [Table("Graphs of an architecture: eval / training / generate", rows)]
