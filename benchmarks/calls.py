"""What a call costs without its compute: the backend returns a stored result."""

from __future__ import annotations

from typing import Any

import torch

import stator

from . import models
from .measure import Row, Table, per_call, show_time, single_threaded, versus


def stored(gm: Any, example_inputs: list[torch.Tensor]) -> Any:
    """Runs the graph once; every later call returns that result."""
    kept: list[Any] = []

    def call(*args: torch.Tensor) -> Any:
        if not kept:
            kept.append(gm.forward(*args))
        return kept[0]

    return call


def empty(x: torch.Tensor) -> None:
    return None


def increment(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@single_threaded
def run(quick: bool = False) -> list[Table]:
    x = torch.ones(4)
    rows = []
    with torch.no_grad():
        plain = per_call(lambda: empty(x))
        ours_fn = stator.compile(increment, backend=stored)
        peer_fn = torch.compile(increment, backend=stored)
        ours, peer = per_call(lambda: ours_fn(x)), per_call(lambda: peer_fn(x))
        rows.append(versus("x + 1", ours, peer))
        over = ours - plain
        rows.append(
            Row(
                "x + 1, over an empty Python function",
                show_time(max(over, 0)),
                show_time(peer - plain),
                "",
                "<= 0.5 us",
            )
        )
        rows[-1].ok = over <= 0.5e-6
        for name in ("BERT", "GPT-2", "Llama", "T5"):
            case = models.by_name(name)
            model, inputs = case.build().eval(), case.inputs(0)
            ours_model = stator.compile(model, backend=stored, fullgraph=True)
            torch._dynamo.reset()
            peer_model = torch.compile(model, backend=stored, fullgraph=True)
            peer = per_call(lambda: peer_model(**inputs))  # noqa: B023
            try:
                ours = per_call(lambda: ours_model(**inputs))  # noqa: B023
            except stator.StatorError as error:
                rows.append(Row(name, f"failed: {error.code}", show_time(peer), ok=False))
                continue
            rows.append(versus(name, ours, peer, 40))
    return [Table("A call with its compute removed", rows)]
