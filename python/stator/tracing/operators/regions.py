"""Operators that compute one function on their arguments: `invoke_subgraph`, `strict_mode`, `hints_wrapper`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

from ..current import Recording
from .gradients import vector_jacobian
from .parts import Tensors
from .row import Structured


class InvokeSubgraph(Structured):
    def take(self, subgraph: Any, identifier: Any, *operands: Any) -> None:
        self.function, self.identifier = subgraph, identifier
        self.operands = list(operands)
        self.part("repeated_subgraph", subgraph, self.operands)

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        return self.parts[0], self.identifier, *operands, lifted

    def keeps_operands(self) -> bool:
        return True

    def results(self) -> Tensors:
        return self.run(self.parts[0], self.operands) if self.is_real else self.like(self.parts[0])

    def gradients(self, inputs: Tensors, grads: Tensors) -> list[Any]:
        backward = vector_jacobian(self.function, len(self.operands), self.lifted_tensors)
        return list(self.op(backward, f"{self.identifier}_backward", *self.operands, *grads))


class Region(Structured):
    """An operator that computes one function on its arguments."""

    graph_name = "strict_graph"

    def __init__(self, op: Any, recording: Recording) -> None:
        super().__init__(op, recording)
        self.rest: tuple[Any, ...] = ()
        self.named: dict[str, Any] = {}

    def take(self, function: Callable[..., Any], args: Any, *_: Any) -> None:
        leaves, spec = pytree.tree_flatten(tuple(args))
        self.operands = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

        def flat(*tensors: torch.Tensor) -> Any:
            given = iter(tensors)
            filled = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            return function(*pytree.tree_unflatten(filled, spec))

        self.part(self.graph_name, flat, self.operands)

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        return self.parts[0], (*operands, lifted), *self.rest

    def keywords(self) -> dict[str, Any]:
        return self.named

    def results(self) -> list[torch.Tensor]:
        return self.run(self.parts[0], self.operands) if self.is_real else self.like(self.parts[0])


class HintsWrapper(Region):
    graph_name = "hints_wrapper_body_graph"

    def take(self, function: Callable[..., Any], args: Any, *others: Any, **named: Any) -> None:
        super().take(function, args)
        self.rest, self.named = ({},), {"hints": others[-1] if others else named["hints"]}
