"""torch's compiler inductor, by name: what capture costs before it, and what a call costs around its kernels."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import stator

from . import models
from .measure import Row, Table, per_call, show_time, single_threaded, versus

MODELS = ("GPT, 12 blocks", "CNN")


def first_call(compiler: Callable[..., Any], model: Any, inputs: dict[str, Any]) -> tuple[float, Any]:
    """Seconds of the first call with an empty cache of kernels, and the compiled model."""
    stator.reset()
    torch._dynamo.reset()
    with torch._inductor.utils.fresh_cache():
        compiled = compiler(model, backend="inductor")
        start = time.perf_counter()
        compiled(**inputs)
        return time.perf_counter() - start, compiled


@single_threaded
def run(quick: bool = False) -> list[Table]:
    import torch._dynamo
    import torch._inductor.utils

    rows: list[Row] = []
    # The first compile of a process imports modules and looks for the host compiler.
    for compiler in (torch.compile, stator.compile):
        first_call(compiler, lambda x: x + 1, {"x": torch.ones(4)})
    with torch.no_grad():
        for name in MODELS:
            case = models.by_name(name)
            model, inputs = case.build().eval(), case.inputs(0)
            peer_first, peer = first_call(torch.compile, model, inputs)
            peer_steady = per_call(lambda: peer(**inputs))  # noqa: B023
            ours_first, ours = first_call(stator.compile, model, inputs)
            torch.testing.assert_close(ours(**inputs), model(**inputs), rtol=1e-3, atol=1e-3)
            ours_steady = per_call(lambda: ours(**inputs))  # noqa: B023
            eager = per_call(lambda: model(**inputs))  # noqa: B023
            rows.append(versus(f"{name}: first call", ours_first, peer_first, 1))
            rows.append(versus(f"{name}: steady call", ours_steady, peer_steady, 1))
            rows.append(Row(f"{name}: eager call", show_time(eager)))
    return [Table('`backend="inductor"` on both sides', rows)]
