"""How long the first call takes: capture, guards, backend and one run."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch

import stator

from . import models
from .measure import Row, Table, our_first_call, peer_first_call, show_time, single_threaded, versus


def adds(count: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def loop(x: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            x = torch.add(x, 1)
        return x

    return loop


def walk(gm: Any, example_inputs: list[torch.Tensor]) -> Any:
    """A typical user backend: it reads every node, then runs the module."""
    seen: dict[str, int] = {}
    for node in gm.graph.nodes:
        seen[node.op] = seen.get(node.op, 0) + len(node.args)
    return gm.forward


@single_threaded
def run(quick: bool = False) -> list[Table]:
    gpt = models.by_name("GPT, 12 blocks")
    model, inputs = gpt.build().eval(), gpt.inputs(0)
    x = {"x": torch.ones(4)}
    peer_repeats = 1 if quick else 3
    # The first compile of a process imports modules; `startup` measures that separately.
    peer_first_call(adds(3), x)
    our_first_call(adds(3), x)

    with torch.no_grad():
        rows = [versus(gpt.name, our_first_call(model, inputs), peer_first_call(model, inputs), 50)]
        # Alternate with equal numbers of runs, so that a busy machine affects both.
        turns = [
            ([our_first_call(adds(1000), x, repeats=1) for _ in range(10)], our_first_call(adds(10000), x, repeats=1))
            for _ in range(21)
        ]
        thousand, many = min(min(few) for few, _ in turns), min(many for _, many in turns)
        rows.append(versus("1000 torch.add in a loop", thousand, peer_first_call(adds(1000), x, repeats=1), 100))
        rows.append(versus("10000 torch.add in a loop", many, peer_first_call(adds(10000), x, repeats=1), 100))
        slope = statistics.median(many / statistics.mean(few) for few, many in turns)
        rows.append(Row("10x the ops costs", f"{slope:.3g}x", target="<= 11x", ok=slope <= 11))
        ours, peer = our_first_call(model, inputs, walk), peer_first_call(model, inputs, walk, repeats=peer_repeats)
        rows.append(versus(f"{gpt.name}, a Python backend that walks gm.graph", ours, peer, 20))

        model_rows, ratios = [], []
        for case in models.OWN[:3] + models.TRANSFORMERS:
            model, inputs = case.build().eval(), case.inputs(0)
            peer = peer_first_call(model, inputs, repeats=peer_repeats)
            try:
                ours = our_first_call(model, inputs)
            except stator.StatorError as error:
                model_rows.append(Row(case.name, f"failed: {error.code}", show_time(peer), ok=False))
                ratios.append(0.0)
                continue
            ratios.append(peer / ours)
            model_rows.append(versus(case.name, ours, peer))
    median = statistics.median(ratios)
    model_rows.append(Row("median", "", ratio=f"{median:.3g}x", target=">= 50x", ok=median >= 50))
    return [
        Table('First call, `backend="eager"` on both sides', rows),
        Table('First call of models, `backend="eager"` on both sides', model_rows),
    ]
