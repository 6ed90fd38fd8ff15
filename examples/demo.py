"""Compiles a small BERT, compares it with eager, times it beside torch.compile, and prints the capture report.

Run by `make demo`.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

warnings.filterwarnings("ignore")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch  # noqa: E402

import stator  # noqa: E402
from benchmarks import models  # noqa: E402
from benchmarks.measure import per_call, show_time  # noqa: E402


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def main() -> None:
    case = models.by_name("BERT")
    model, inputs = case.build().eval(), case.inputs(0)
    print(f"{type(model).__name__}, {sum(p.numel() for p in model.parameters()):,} parameters, random weights\n")

    with torch.no_grad():
        expected = model(**inputs).last_hidden_state
        # Each system compiles something small first, so that no once-per-process cost is measured.
        for compile in (stator.compile, lambda fn: torch.compile(fn, backend="eager")):
            compile(lambda x: x + 1)(torch.ones(2))

        fast = stator.compile(model, fullgraph=True)
        peer = torch.compile(model, backend="eager", fullgraph=True)
        ours_first, out = timed(lambda: fast(**inputs).last_hidden_state)
        peer_first, _ = timed(lambda: peer(**inputs))
        eager, ours, theirs = (per_call(lambda m=m: m(**inputs)) for m in (model, fast, peer))
    print(f"equal to eager, bit for bit:  {torch.equal(out, expected)}")
    print(f"state_dict keys unchanged:    {list(fast.state_dict()) == list(model.state_dict())}\n")
    print(f"{'':12}{'first call':>14}{'later calls':>14}")
    for name, first, later in (
        ("eager", None, eager),
        ("torch.compile", peer_first, theirs),
        ("stator", ours_first, ours),
    ):
        print(f"{name:14}{show_time(first) if first else '':>12}{show_time(later):>14}")
    print(f"\nThe first call is {peer_first / ours_first:.0f}x faster than torch.compile's (backend='eager').\n")

    model.train()
    torch.manual_seed(0)
    case.loss(fast(**inputs)).backward()
    mine = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    torch.manual_seed(0)
    case.loss(model(**inputs)).backward()
    same = all(torch.equal(mine[name], p.grad) for name, p in model.named_parameters() if p.grad is not None)
    print(f"a training step, {len(mine)} gradients equal to eager's:  {same}\n")

    model.eval()
    with torch.no_grad():
        print(stator.explain(model)(**inputs))


if __name__ == "__main__":
    main()
