"""`torch.while_loop`."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from .gradients import vector_jacobian
from .parts import Tensors, check_like
from .row import Row


class WhileLoop(Row):
    """Integers are carried as tensors: the parts read them, and what they are afterwards depends on data."""

    def take(self, cond_fn: Any, body_fn: Any, carried: Any, additional: Any, *_: Any, **__: Any) -> None:
        self.is_number = [not isinstance(value, torch.Tensor) for value in carried]
        self.carried = [_as_tensor(value) for value in carried]
        self.additional = [value for value in additional if isinstance(value, torch.Tensor)]
        self.operands = [*self.carried, *self.additional]

        def given(args: Any) -> list[Any]:
            count, tensors = len(self.carried), iter(args[len(self.carried) :])
            rest = [next(tensors) if isinstance(value, torch.Tensor) else value for value in additional]
            return [
                a.item() if is_number else a for a, is_number in zip(args[:count], self.is_number, strict=True)
            ] + rest

        def test(*args: torch.Tensor) -> torch.Tensor:
            return _as_tensor(cond_fn(*given(args)))

        def body(*args: torch.Tensor) -> list[torch.Tensor]:
            leaves = pytree.tree_leaves(body_fn(*given(args)))
            if [isinstance(leaf, torch.Tensor) for leaf in leaves] == [not number for number in self.is_number]:
                return [_as_tensor(leaf) for leaf in leaves]
            raise RuntimeError(
                "cannot be traced: torch.while_loop: the body must return a tensor for each tensor that the loop "
                "carries, and a number for each number"
            )

        self.test, self.body = test, body
        self.part("while_loop_cond_graph", test, self.operands).gives_one = True
        made = self.part("while_loop_body_graph", body, self.operands)
        check_like(self.carried, made.tensors, "torch.while_loop: the carried tensors and the results of the body")

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        count = len(self.carried)
        return *self.parts, tuple(operands[:count]), (*operands[count:], lifted)

    def results(self) -> Tensors:
        if not self.is_real:
            return self.like(self.parts[1])
        return [value.clone() for value in self.carried] if not (made := self.iterations()) else made[-1]

    def iterations(self) -> list[Tensors]:
        """What each run of the body returns, in the real mode."""
        made, values = [], self.carried
        while bool(self.run(self.parts[0], values + self.additional)[0]):
            values = self.run(self.parts[1], values + self.additional)
            made.append(values)
        return made

    def unflatten(self, results: Tensors) -> Any:
        options = self.recording.options
        if any(self.is_number) and self.is_real and options.error_on_data_dependent_ops:
            raise RuntimeError(
                "cannot be traced: torch.while_loop returns a number that depends on data; carry a tensor, or trace "
                'with tracing_mode="fake" or "symbolic"'
            )
        return tuple(r.item() if is_number else r for r, is_number in zip(results, self.is_number, strict=True))

    def gradients(self, inputs: Tensors, grads: Tensors) -> list[Any]:
        count, rest, captured = len(self.carried), len(self.additional), self.lifted_tensors
        additional, sums = tuple(self.additional), count + len(self.additional) + len(captured)

        # Once more, with the number of the iteration and what the iteration was given as further carries.
        def forward(number: torch.Tensor, *args: torch.Tensor) -> Any:
            carried, shared = args[:count], args[2 * count :]
            return number + 1, *self.body(*carried, *shared), *[value.clone() for value in carried]

        def test(number: torch.Tensor, *args: torch.Tensor) -> Any:
            return self.test(*args[:count], *args[2 * count :])

        first = (torch.zeros((), dtype=torch.int64), *self.carried, *self.carried)
        stack = torch.ops.higher_order.while_loop_stack_output(test, forward, first, additional)
        number, given = stack[0].select(0, -1), stack[1 + count :]
        inner = vector_jacobian(self.body, count + rest, captured)

        def backward(number: torch.Tensor, *args: torch.Tensor) -> Any:
            given, shared = args[sums : sums + count], args[sums + count :]
            row = [value.index_select(0, number.reshape(1)).squeeze(0) for value in given]
            found = inner(*row, *shared, *args[:count])
            totals = [total + g for total, g in zip(args[count:sums], found[count:], strict=True)]
            return number - 1, *found[:count], *totals

        zeros = [torch.zeros_like(t) for t in (*additional, *captured)]
        carried = (number - 1, *grads, *zeros)
        return list(self.op(lambda number, *_: number >= 0, backward, carried, (*given, *additional)))[1:]


class WhileLoopStack(WhileLoop):
    """Returns the carried tensors of all iterations, stacked; the initial ones if there was none."""

    def results(self) -> Tensors:
        if not self.is_real:
            return self.like(self.parts[1], unknown_size())
        made = self.iterations() or [self.carried]
        return [torch.stack(values) for values in zip(*made, strict=True)]

    def gradients(self, inputs: Tensors, grads: Tensors) -> list[Any]:
        return Row.gradients(self, inputs, grads)


def _as_tensor(value: Any) -> torch.Tensor:
    """A tensor of a number that a loop carries, or of its test."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (bool, torch.SymBool)):
        return torch.scalar_tensor(torch.sym_ite(value, 1, 0), dtype=torch.bool)
    if isinstance(value, (int, torch.SymInt)):
        return torch.scalar_tensor(value, dtype=torch.int64)
    raise RuntimeError(f"cannot be traced: torch.while_loop: a loop cannot carry a {type(value).__name__}")


def unknown_size() -> Any:
    """A size that depends on data. Not recorded; for fakes."""
    return torch.empty(1).nonzero().shape[0]
