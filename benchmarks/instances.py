"""Many instances of one class, compiled one by one: captures, first calls, and calls without their compute."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import stator

from .calls import stored
from .measure import Row, Table, best_of, per_call, show_time, single_threaded, versus

BLOCKS = 20
LAYERS = 32
MANY = 300


class Block(nn.Module):
    """A transformer block of nine modules."""

    def __init__(self, index: int | None = None) -> None:
        super().__init__()
        self.index = index
        self.norm_1, self.norm_2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)
        self.act, self.drop = nn.GELU(), nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm_1(x)).view(*x.shape[:2], 3, 2, 8).unbind(2)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v).reshape(x.shape)
        x = x + self.drop(self.out(mixed))
        x = x + self.down(self.act(self.up(self.norm_2(x))))
        return x if self.index is None else x + self.index


class Counting:
    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, gm: Any, example_inputs: list[Any]) -> Any:
        self.graphs += 1
        return stored(gm, example_inputs)


def _peer(module: nn.Module, **settings: Any) -> Any:
    return torch.compile(module, **settings)


def _first(compile: Callable[..., Any], reset: Callable[[], None], count: int, x: torch.Tensor) -> tuple[float, int]:
    """Seconds until every block was called once, and the number of graphs."""
    graphs = 0

    def once() -> float:
        nonlocal graphs
        reset()
        blocks, backend = [Block() for _ in range(count)], Counting()
        start = time.perf_counter()
        compiled = [compile(block, backend=backend) for block in blocks]
        for block in compiled:
            block(x)
        spent = time.perf_counter() - start
        graphs = backend.graphs
        return spent

    return best_of(3, once), graphs


def _steady(compile: Callable[..., Any], reset: Callable[[], None], blocks: list[Block], x: torch.Tensor) -> float:
    """Seconds of one call if the blocks are called in turn."""
    reset()
    compiled = [compile(block, backend=stored) for block in blocks]

    def all_of_them() -> None:
        for block in compiled:
            block(x)

    return per_call(all_of_them) / len(blocks)


@single_threaded
def run(quick: bool = False) -> list[Table]:
    x = torch.ones(2, 4, 16)
    sides: list[tuple[Callable[..., Any], Callable[[], None]]] = [
        (stator.compile, stator.reset),
        (_peer, torch._dynamo.reset),
    ]
    rows = []
    with torch.no_grad():
        (ours, our_graphs), (peer, peer_graphs) = (_first(*side, BLOCKS, x) for side in sides)
        rows.append(Row(f"captures of {BLOCKS} blocks", str(our_graphs), str(peer_graphs), "", "<= 2", our_graphs <= 2))
        rows.append(versus(f"first calls of {BLOCKS} blocks", ours, peer))
        single, peer_single = (_steady(*side, [Block()], x) for side in sides)
        rows.append(versus("call of a single block", single, peer_single))
        many, peer_many = (_steady(*side, [Block() for _ in range(BLOCKS)], x) for side in sides)
        rows.append(versus(f"call of one of {BLOCKS} blocks in turn", many, peer_many))
        rows.append(Row("the same, over a single block's", f"{many / single:.2f}x", f"{peer_many / peer_single:.2f}x"))
        rows[-1].target, rows[-1].ok = "<= 2x", many <= 2 * single
        indexed = _steady(*sides[0], [Block(index) for index in range(LAYERS)], x)
        rows.append(Row(f"call of one of {LAYERS} blocks with a constant of its own", show_time(indexed)))
        unseen = _steady(*sides[0], [Block() for _ in range(MANY)], x)
        rows.append(Row(f"call of one of {MANY} blocks in turn, more than rows are kept", show_time(unseen)))
    return [Table("Many instances of one class, compute removed", rows)]
