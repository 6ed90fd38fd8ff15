"""Torch's operators that take an operator, or nothing but values: `out_dtype`, `auto_functionalized`, `print`,
`run_and_save_rng_state`, ..."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

from .row import NumberOperand, Operand, Row

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_FUNCTIONS = (types.FunctionType, types.MethodType, torch.nn.Module)
_KERNELS = [torch._C.DispatchKey.CompositeExplicitAutograd, torch._C.DispatchKey.BackendSelect]

# Operators whose nodes have the values of their operands if the operator that they take needs exact strides, and one
# that orders operators only.
_KEEPS_STRIDES = ("auto_functionalized", "auto_functionalized_v2", "with_effects")


def needs_exact_strides(value: Any) -> bool:
    return isinstance(value, torch._ops.OpOverload) and torch.Tag.needs_exact_strides in value.tags


class Plain(Row):
    """An operator without functions: torch's kernel computes it."""

    def take(self, *args: Any, **kwargs: Any) -> None:
        self.given = args, kwargs
        if any(isinstance(leaf, _FUNCTIONS) for leaf in pytree.tree_leaves(self.given)):
            raise NotImplementedError(f"make_fx has no rule for the operator {self.op.name()}")
        if self.op.name() not in _KEEPS_STRIDES and any(needs_exact_strides(leaf) for leaf in pytree.tree_leaves(args)):
            raise RuntimeError(
                f"cannot be traced: the operator {self.op.name()} takes an operator that needs its operands with exact "
                "strides, which the node cannot say"
            )

        def place(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                self.operands.append(leaf)
                return Operand(len(self.operands) - 1)
            if isinstance(leaf, _NUMBERS):
                self.numbers.append(leaf)
                return NumberOperand(len(self.numbers) - 1)
            return leaf

        self.placed = pytree.tree_map(place, self.given)

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        return tuple(self.placed[0])

    def keywords(self) -> dict[str, Any]:
        return dict(self.placed[1])

    def keeps_operands(self) -> bool:
        return self.op.name() != "with_effects" and needs_exact_strides(self.given[0][0])

    def results(self) -> list[torch.Tensor]:
        kernel = next((found for key in _KERNELS if (found := self.op.py_kernels.get(key)) is not None), None)
        if kernel is None:
            raise NotImplementedError(f"make_fx has no rule for the operator {self.op.name()}")
        leaves, self.spec = pytree.tree_flatten(self.compute(kernel))
        self.is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def compute(self, kernel: Callable[..., Any]) -> Any:
        args, kwargs = self.given
        return kernel(*args, **kwargs)

    def result(self, count: int) -> Any:
        numbers = iter(range(count))
        return pytree.tree_unflatten([next(numbers) if is_tensor else None for is_tensor in self.is_tensor], self.spec)

    def unflatten(self, results: list[torch.Tensor]) -> Any:
        tensors = iter(results)
        return pytree.tree_unflatten([next(tensors) if is_tensor else None for is_tensor in self.is_tensor], self.spec)


class Print(Plain):
    """In the real mode it prints, as a plain call does."""

    def compute(self, kernel: Callable[..., Any]) -> Any:
        if self.is_real:
            real_of = self.recording.tracer.real_of
            args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: _or(real_of(t), t), self.given)
            kernel(*args, **kwargs)


def _or(found: torch.Tensor | None, other: torch.Tensor) -> torch.Tensor:
    return other if found is None else found


class SavedState(Plain):
    """Operators that take the state of the random numbers, or give it."""

    def compute(self, kernel: Callable[..., Any]) -> Any:
        if self.is_real:
            return super().compute(kernel)
        args, kwargs = self.given
        if self.op.name() == "run_with_rng_state":
            return args[1](*args[2:], **kwargs)
        device = next((t.device.type for t in self.operands), kwargs.get("device", "cpu"))
        source = torch if torch.device(device).type == "cpu" else torch.get_device_module(device)
        state = source.get_rng_state()
        return torch.empty(state.size(), dtype=state.dtype), args[0](*args[1:], **kwargs)


class WithEffects(Plain):
    """The first operand and result is a token, which orders operators."""

    def compute(self, kernel: Callable[..., Any]) -> Any:
        if self.is_real:
            return super().compute(kernel)
        args, kwargs = self.given
        made = args[1](*args[2:], **kwargs)
        return torch.empty(0), *(made if isinstance(made, tuple) else (made,))
