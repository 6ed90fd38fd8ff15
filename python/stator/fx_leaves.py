"""Tensors inside a graph that begin to require gradients, such as the parameters of a module that the program makes.

Torch's compilers drop `requires_grad_` on such a tensor. So a Python backend gets one further input for each of them: a
leaf of the same metadata, made for each run. In the graph, the tensor's gradient flows to that leaf. Where the graph
returns the tensor, the run gives the leaf its data, and the program gets the leaf.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

BEGIN = "aten::requires_grad_"


class _Leaf(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, data: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
        return data.detach()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[None, torch.Tensor]:
        return None, grad


def new_leaf(data: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
    """The same memory as `data`; its gradient is that of `leaf`."""
    with torch.enable_grad():
        made: torch.Tensor = _Leaf.apply(data, leaf)
    return made


@dataclasses.dataclass
class NewLeaves:
    """The further inputs of one graph."""

    native: Any  # the graph
    metas: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)  # see `_C.Graph.meta`
    outputs: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # places of a result, and of its leaf

    def make(self) -> list[torch.Tensor]:
        with torch.inference_mode(False), torch._C._DisableTorchDispatch():
            return [
                torch.empty_strided(sizes, strides, dtype=dtype, device=device).requires_grad_()
                for dtype, sizes, strides, device, _ in self.metas
            ]

    def around(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """What a backend made of the graph, called with the graph's own inputs."""

        def run(*inputs: Any) -> Any:
            leaves = self.make()
            results = list(compiled(*inputs, *leaves))
            for place, leaf in self.outputs:
                leaves[leaf].data = results[place].detach()
                results[place] = leaves[leaf]
            return results

        return run
