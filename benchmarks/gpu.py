"""Models on a GPU: graphs, and steady calls against eager, in eval and in training (forward and backward)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import stator

from . import models
from .measure import Row, Table, versus

ROUNDS, CALLS = 7, 15


def _placed(case: models.Case, dtype: torch.dtype) -> dict[str, Any]:
    return {
        name: value.to("cuda", dtype if value.is_floating_point() else None)
        if isinstance(value, torch.Tensor)
        else value
        for name, value in case.inputs(0).items()
    }


def _seconds(call: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / CALLS


def _row(case: models.Case, dtype: torch.dtype, training: bool) -> Row:
    stator.reset()
    model = case.build().to("cuda", dtype).train(training)
    compiled, inputs = stator.compile(model), _placed(case, dtype)

    def step(runner: Callable[..., Any]) -> None:
        with torch.set_grad_enabled(training):
            result = runner(**inputs)
            if training:
                model.zero_grad(set_to_none=True)
                case.loss(result).backward()

    for runner in (model, compiled):  # torch settles the order of its attention kernels when the first one runs
        for _ in range(3):
            step(runner)
    graphs = stator.counters()["captures"].get("graphs", 0)
    ours, eager = float("inf"), float("inf")
    for _ in range(ROUNDS):  # alternate, so that a change of the machine's speed affects both
        ours = min(ours, _seconds(lambda: step(compiled)))
        eager = min(eager, _seconds(lambda: step(model)))
    kind = "training" if training else "eval"
    plural = "graph" if graphs == 1 else "graphs"
    return versus(f"{case.name}, {kind}, {str(dtype)[6:]}: {graphs} {plural}", ours, eager, 1)


def run(quick: bool = False) -> list[Table]:
    if not torch.cuda.is_available():
        raise SystemExit("the topic gpu needs a GPU and a build of torch with CUDA")
    rows = [
        _row(case, dtype, training)
        for case in models.ALL
        for dtype in (torch.float32, torch.bfloat16)
        for training in (False, True)
    ]
    name = torch.cuda.get_device_name()
    title = f"Steady calls on {name}, torch {torch.__version__}, default backend, against eager"
    return [Table(title, rows, peer="eager")]
