"""What is known of one operator with sub-graphs, and its node."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree

from ..current import Recording, disable_tracing
from .parts import Part, Tensors, empty_as, lifted_key, trace_part


@dataclass(eq=False)
class Operand:
    """Stands for a tensor in the arguments of a node."""

    index: int


@dataclass(eq=False)
class NumberOperand:
    """Stands for a symbolic number in the arguments of a node."""

    index: int


@dataclass(eq=False)
class Lifted:
    """Stands for the values that the parts of a node use, in a tuple of its arguments."""


@dataclass(eq=False)
class CallNode:
    """A `stator::traced_call` for `module.py`. Its tensors are those of the operator, then the lifted ones; so are its
    numbers."""

    op: Any
    args: Any  # with Operand, NumberOperand, Part and Lifted
    kwargs: dict[str, Any]
    parts: list[Part]
    lifted: list[Any]
    numbers: list[Any]
    result: Any  # what the operator returns: the numbers of its results in tuples and lists
    keeps_operands: bool = False  # for compilers: the node has the values of its operands


class Row(abc.ABC):
    """What is known of one operator. Subclasses say which functions it takes, and what its results are."""

    def __init__(self, op: Any, recording: Recording) -> None:
        self.op = op
        self.recording = recording
        self.operands: Tensors = []  # flat
        self.numbers: list[Any] = []  # symbolic numbers among the operator's arguments
        self.parts: list[Part] = []
        self.outputs: Tensors = []  # in a backward pass: what `saved` gave

    @abc.abstractmethod
    def take(self, *args: Any, **kwargs: Any) -> None:
        """Takes the operator's arguments: sets `operands`, and traces the parts."""

    @abc.abstractmethod
    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        """The arguments of the node."""

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of the node."""
        return {}

    @abc.abstractmethod
    def results(self) -> Tensors:
        """Fakes of the results; in the real mode they are computed."""

    def keeps_operands(self) -> bool:
        return False

    def result(self, count: int) -> Any:
        """What the operator returns, with the numbers of its `count` results in their places."""
        return tuple(range(count))

    def unflatten(self, results: Tensors) -> Any:
        """What the program gets."""
        return tuple(results)

    def check_differentiable(self) -> None:  # noqa: B027 (most have nothing to check)
        """Raises if the arguments do not allow the gradients that the program needs."""

    def constants(self, results: Tensors) -> Tensors:
        """The results that have no gradient."""
        return [r for r in results if not (r.is_floating_point() or r.is_complex())]

    def saved(self, results: Tensors) -> Tensors:
        """The results that the gradients need."""
        return []

    takes_none = False  # as the gradient of a result that nothing used; zeros otherwise

    def gradients(self, inputs: Tensors, grads: list[Any]) -> list[Any]:
        """Of the operands and the lifted tensors, which are `inputs`."""
        raise RuntimeError(f"cannot be traced: make_fx has no gradient for the operator {self.op.name()}")

    # ---- helpers

    @property
    def is_real(self) -> bool:
        return bool(self.recording.options.tracing_mode == "real")

    def part(self, name: str, function: Callable[..., Any], operands: Tensors) -> Part:
        part = trace_part(self.recording, name, function, operands)
        self.parts.append(part)
        return part

    @property
    def lifted(self) -> list[Any]:
        found = {lifted_key(value): value for part in self.parts for value in part.used()}
        return list(found.values())

    @property
    def lifted_tensors(self) -> Tensors:
        return [value for value in self.lifted if isinstance(value, torch.Tensor)]

    def record(self) -> Tensors:
        lifted = self.lifted
        for part in self.parts:
            part.lifted = lifted
        with torch.no_grad():
            with disable_tracing():
                # Results share no memory with operands.
                taken = {t.untyped_storage()._cdata for t in (*self.operands, *self.lifted_tensors)}
                results = [r.clone() if r.untyped_storage()._cdata in taken else r for r in self.results()]
            node = CallNode(
                self.op,
                self.arguments([Operand(i) for i in range(len(self.operands))], Lifted()),
                self.keywords(),
                self.parts,
                lifted,
                self.numbers,
                self.result(len(results)),
                self.keeps_operands(),
            )
            calls = self.recording.calls
            calls.append(node)
            numbers = self.numbers + [value for value in lifted if not isinstance(value, torch.Tensor)]
            self.recording.tracer.record_call(len(calls) - 1, self.operands + self.lifted_tensors, numbers, results)
        return results

    def run(self, part: Part, operands: Tensors) -> Tensors:
        """Computes a part, in the real mode."""
        from ..module import build_part

        results = build_part(part)(*operands, *part.lifted)
        return [results] if part.gives_one else list(results)

    def like(self, part: Part, rows: Any = None) -> Tensors:
        """Fakes of the part's results, with a first dimension of `rows`."""
        return [empty_as(result, rows) for result in part.tensors]


class Structured(Row):
    """An operator whose result has the structure of what its first part returns."""

    def unflatten(self, results: Tensors) -> Any:
        part, tensors = self.parts[0], iter(results)
        leaves = [next(tensors) if isinstance(leaf, torch.Tensor) else leaf for leaf in part.leaves]
        return pytree.tree_unflatten(leaves, part.spec)


def apply(row: Row, args: Any, kwargs: Any) -> Any:
    with torch.no_grad():
        row.take(*args, **kwargs)
    lifted = row.lifted_tensors
    inputs = row.operands + lifted
    if torch.is_grad_enabled() and not row.recording.options.pre_dispatch and any(t.requires_grad for t in inputs):
        row.check_differentiable()
        results = list(_Differentiable.apply(row, *inputs))
    else:
        results = row.record()
    return row.unflatten(results)


class _Differentiable(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, row: Row, *inputs: torch.Tensor) -> Any:
        ctx.row, ctx.count = row, len(inputs)
        ctx.set_materialize_grads(not row.takes_none)
        results = row.record()
        ctx.save_for_backward(*inputs, *row.saved(results))
        ctx.mark_non_differentiable(*row.constants(results))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        saved = list(ctx.saved_tensors)
        ctx.row.outputs = saved[ctx.count :]
        return None, *ctx.row.gradients(saved[: ctx.count], list(grads))
