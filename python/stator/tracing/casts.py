"""Nodes after which a compiler must round as a plain call does: `meta["low_precision_pointwise_barrier"]`."""

from __future__ import annotations

import sys
from typing import Any

import torch

_LOW = (torch.float16, torch.bfloat16)


def emulates_casts() -> bool:
    """The setting of torch's compiler; off where the compiler is not in use."""
    config = sys.modules.get("torch._inductor.config")
    return config is not None and bool(config.emulate_precision_casts)


class Running(list[Any]):
    """The operators whose decompositions run, outermost first. `spans`: the nodes of each outermost one."""

    def __init__(self, tracer: Any) -> None:
        super().__init__()
        self.tracer = tracer
        self.spans: list[range] = []
        self.start = 0

    def append(self, operator: Any) -> None:
        if not self:
            self.start = self.tracer.position()
        super().append(operator)

    def pop(self, *args: Any) -> Any:
        operator = super().pop(*args)
        if not self:
            self.spans.append(range(self.start, self.tracer.position()))
        return operator


def inner_nodes(running: Any) -> set[int]:
    """The nodes of decompositions without the last one of each."""
    return {index for span in getattr(running, "spans", ()) for index in span[:-1]}


def mark_cast(node: torch.fx.Node, native: Any) -> None:
    """Marks the node if its result, or an operand, is of low precision."""

    def is_low(one: torch.fx.Node) -> bool:
        definition = getattr(one.meta, "definition", None)
        meta = native.meta(*definition) if definition is not None else None
        return meta is not None and meta[0] in _LOW

    if any(map(is_low, (node, *node.all_input_nodes))):
        node.meta["low_precision_pointwise_barrier"] = True
