"""How long `make_fx` takes per operator, beside torch.fx.experimental.proxy_tensor.make_fx; memory per node."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Any

import torch

import stator
from stator.tracing import trace_native

from . import models
from .measure import Row, Table, best_of, show_time, single_threaded

MODES = ("real", "fake", "symbolic")


def adds(count: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def loop(x: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            x = torch.add(x, 1)
        return x

    return loop


def forward() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    case = models.by_name("GPT, 12 blocks")
    model, inputs = case.build().eval(), case.inputs(0)
    return functional(model), (dict(model.named_parameters()), dict(model.named_buffers()), inputs)


def training_step() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    case = models.by_name("GPT, 12 blocks")
    model, inputs = case.build(), case.inputs(0)
    call = functional(model)

    def step(parameters: Any, buffers: Any, inputs: Any) -> Any:
        parameters = {name: p.detach().requires_grad_() for name, p in parameters.items()}
        loss = case.loss(call(parameters, buffers, inputs))
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        with torch.no_grad():
            return [p if g is None else p - 0.1 * g for p, g in zip(parameters.values(), gradients, strict=True)]

    return step, (dict(model.named_parameters()), dict(model.named_buffers()), inputs)


def functional(model: torch.nn.Module) -> Callable[..., Any]:
    def call(parameters: Any, buffers: Any, inputs: Any) -> Any:
        return torch.func.functional_call(model, {**parameters, **buffers}, (), inputs)

    return call


def timed(call: Callable[[], Any]) -> float:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
    finally:
        gc.enable()


def eager(f: Callable[..., Any], args: tuple[Any, ...]) -> float:
    return best_of(5, lambda: timed(lambda: f(*args)))


def compare(title: str, f: Callable[..., Any], args: tuple[Any, ...], quick: bool) -> list[Row]:
    from torch.fx.experimental.proxy_tensor import make_fx as peer_make_fx

    rows = []
    for mode in MODES:
        nodes = len(stator.make_fx(f, tracing_mode=mode)(*args).graph.nodes)
        peer_nodes = len(peer_make_fx(f, tracing_mode=mode)(*args).graph.nodes)
        # In the real mode the operators' own time belongs to neither.
        compute = eager(f, args) if mode == "real" else 0.0
        native = best_of(7, lambda m=mode: timed(lambda: trace_native(f, args, m))) - compute
        whole = best_of(7, lambda m=mode: timed(lambda: stator.make_fx(f, tracing_mode=m)(*args))) - compute
        peer = best_of(1 if quick else 3, lambda m=mode: timed(lambda: peer_make_fx(f, tracing_mode=m)(*args)))
        peer = (peer - compute) / peer_nodes
        for what, seconds, least in (("", native, 50), (", torch.fx graph", whole, 15)):
            ours = seconds / nodes
            ratio = peer / ours
            rows.append(
                Row(
                    f"{title}, {mode}{what}",
                    f"{show_time(ours)}/op",
                    f"{show_time(peer)}/op",
                    f"{ratio:.3g}x",
                    f">= {least}x",
                    ratio >= least,
                )
            )
    return rows


def growth() -> list[Row]:
    x = torch.ones(4)
    rows = []
    for mode in MODES:
        few = best_of(5, lambda m=mode: timed(lambda: trace_native(adds(1000), (x,), m)))
        many = best_of(2, lambda m=mode: timed(lambda: trace_native(adds(100_000), (x,), m)))
        slope = many / few / 100
        rows.append(
            Row(f"100,000 adds against 1000, per op, {mode}", f"{slope:.3g}x", target="<= 1.5x", ok=slope <= 1.5)
        )
    return rows


def memory() -> Row:
    """To be called before other traces: memory that they freed would be used again."""
    x = torch.ones(4)
    trace_native(adds(1000), (x,), "fake")
    before = resident()
    kept = trace_native(adds(100_000), (x,), "fake")
    size = (resident() - before) / 100_000
    del kept
    return Row("memory of a node, after the trace", f"{size:.0f} bytes", target="<= 1024 bytes", ok=size <= 1024)


def resident() -> int:
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@single_threaded
def run(quick: bool = False) -> list[Table]:
    size = memory()
    x = torch.ones(4)
    rows = compare("1000 torch.add", adds(1000), (x,), quick)
    rows += compare("GPT, 12 blocks", *forward(), quick)
    rows += compare("GPT, training step", *training_step(), quick)
    return [Table("make_fx", [*rows, *growth(), size], peer="make_fx of torch")]
