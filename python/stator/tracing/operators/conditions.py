"""`torch.cond`."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from .gradients import vector_jacobian
from .parts import Tensors, check_same
from .row import NumberOperand, Structured


class Cond(Structured):
    def take(self, pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> None:
        self.pred, self.functions = pred, (true_fn, false_fn)
        flat, spec = pytree.tree_flatten(tuple(operands))
        self.operands = ([pred] if isinstance(pred, torch.Tensor) else []) + flat
        self.numbers = [pred] if isinstance(pred, torch.SymBool) else []

        def flattened(function: Any) -> Any:
            return lambda *args: function(*pytree.tree_unflatten(args, spec))

        self.flat = [flattened(function) for function in self.functions]
        yes = self.part("true_graph", self.flat[0], flat)
        no = self.part("false_graph", self.flat[1], flat)
        check_same(yes, no, "torch.cond: the branches")

    @property
    def inputs(self) -> Tensors:
        return self.operands[1 if isinstance(self.pred, torch.Tensor) else 0 :]

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        pred, inputs = self.pred, operands
        if isinstance(self.pred, torch.Tensor):
            pred, *inputs = operands
        elif self.numbers:
            pred = NumberOperand(0)
        return pred, *self.parts, (*inputs, lifted)

    def results(self) -> Tensors:
        if not self.is_real:
            return self.like(self.parts[0])
        return self.run(self.parts[0 if bool(self.pred) else 1], self.inputs)

    def gradients(self, inputs: Tensors, grads: Tensors) -> list[Any]:
        flat, captured = self.inputs, self.lifted_tensors
        functions = [vector_jacobian(function, len(flat), captured) for function in self.flat]
        found = list(self.op(self.pred, *functions, (*flat, *grads)))
        return [None] * (len(inputs) - len(flat) - len(captured)) + found
