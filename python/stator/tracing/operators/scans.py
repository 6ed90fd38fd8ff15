"""Operators that run a function on each row: `map`, `scan`, `associative_scan`."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from .gradients import vector_jacobian
from .parts import Tensors, check_like, first_rows
from .row import Row, Structured


class Map(Structured):
    def take(self, function: Any, rows: Any, additional: Any) -> None:
        self.function, self.rows, self.additional = function, list(rows), list(additional)
        self.operands = self.rows + self.additional
        self.part("body_graph", function, first_rows(self.rows) + self.additional)

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        count = len(self.rows)
        return *self.parts, list(operands[:count]), (*operands[count:], lifted)

    def results(self) -> Tensors:
        count = self.rows[0].shape[0]
        if not self.is_real:
            return self.like(self.parts[0], count)
        made = [self.run(self.parts[0], [row[i] for row in self.rows] + self.additional) for i in range(count)]
        return [torch.stack(results) for results in zip(*made, strict=True)]

    def gradients(self, inputs: Tensors, grads: Tensors) -> list[Any]:
        rows, rest, captured = len(self.rows), len(self.additional), self.lifted_tensors
        inner = vector_jacobian(self.function, rows + rest, captured)

        def backward(*args: Any) -> Any:
            xs, gs, shared = args[:rows], args[rows : rows + len(grads)], args[rows + len(grads) :]
            return inner(*xs, *shared, *gs)

        found = list(self.op(backward, [*self.rows, *grads], tuple(self.additional)))
        return found[:rows] + [g.sum(0) for g in found[rows:]]


class Scan(Row):
    def take(self, function: Any, init: Any, rows: Any, additional: Any) -> None:
        self.function, self.init = function, list(init)
        self.rows, self.additional = list(rows), list(additional)
        self.operands = self.init + self.rows + self.additional
        body = self.part("scan_combine_graph", function, self.init + first_rows(self.rows) + self.additional)
        check_like(self.init, body.tensors[: len(self.init)], "torch.scan: the initial and the carried tensors")

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        first, last = len(self.init), len(self.init) + len(self.rows)
        return *self.parts, list(operands[:first]), list(operands[first:last]), (*operands[last:], lifted)

    def results(self) -> Tensors:
        body, first, count = self.parts[0], len(self.init), self.rows[0].shape[0]
        if not self.is_real:
            return self.like(body)[:first] + self.like(body, count)[first:]
        carry, made = self.init, []
        for i in range(count):
            results = self.run(body, carry + [row[i] for row in self.rows] + self.additional)
            carry = results[:first]
            made.append(results[first:])
        return carry + [torch.stack(results) for results in zip(*made, strict=True)]

    def gradients(self, inputs: Tensors, grads: Tensors) -> list[Any]:
        first, rows, rest, captured = len(self.init), len(self.rows), len(self.additional), self.lifted_tensors
        additional, count = tuple(self.additional), len(self.init) + len(self.rows) + len(self.additional)

        def forward(*args: Any) -> Any:
            results = pytree.tree_leaves(self.function(*args))
            return *results[:first], *[carry.clone() for carry in args[:first]]

        carries = list(self.op(forward, self.init, self.rows, additional))[first:]
        inner = vector_jacobian(self.function, count, captured)

        def backward(*args: Any) -> Any:
            # What was added up so far of the carries, the additional inputs and the captured tensors; then a row.
            sums, shared = args[: first + rest + len(captured)], args[len(args) - rest :]
            row = args[len(sums) : len(args) - rest]
            found = inner(*row[: first + rows], *shared, *sums[:first], *row[first + rows :])
            later = [total + g for total, g in zip(sums[first:], found[first + rows :], strict=True)]
            return *found[:first], *later, *found[first : first + rows]

        zeros = [torch.zeros_like(t) for t in (*additional, *captured)]
        reversed_rows = [t.flip([0]) for t in (*carries, *self.rows, *grads[first:])]
        found = list(self.op(backward, [*grads[:first], *zeros], reversed_rows, additional))
        sums = first + len(zeros)
        return found[:first] + [g.flip([0]) for g in found[sums:]] + found[first:sums]


class AssociativeScan(Row):
    def take(self, function: Any, rows: Any, additional: Any) -> None:
        self.function, self.rows, self.additional = function, list(rows), list(additional)
        self.operands = self.rows + self.additional
        slices = first_rows(self.rows) + first_rows(self.rows)
        self.part("associative_scan_combine_graph", function, slices + self.additional)

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        count = len(self.rows)
        return *self.parts, list(operands[:count]), (*operands[count:], lifted)

    def results(self) -> Tensors:
        body, count = self.parts[0], self.rows[0].shape[0]
        if not self.is_real:
            return self.like(body, count)
        made = [[row[0] for row in self.rows]]
        for i in range(1, count):
            made.append(self.run(body, made[-1] + [row[i] for row in self.rows] + self.additional))
        return [torch.stack(results) for results in zip(*made, strict=True)]

    def gradients(self, inputs: Tensors, grads: Tensors) -> list[Any]:
        """From the last row to the first: a result combines the result before it with a row; the first is a row."""
        count, rest, captured = len(self.rows), len(self.additional), self.lifted_tensors
        additional = tuple(self.additional)
        made = self.op(self.function, self.rows, additional)
        before = [torch.cat([row[:1], result[:-1]]) for row, result in zip(self.rows, made, strict=True)]
        is_first = torch.cumsum(torch.ones_like(self.rows[0].flatten(1)[:, 0], dtype=torch.int64), 0) == 1
        inner = vector_jacobian(self.function, 2 * count + rest, captured)

        def backward(*args: torch.Tensor) -> Any:
            # The gradient that the later rows give, and what was added up so far; then a row.
            sums, shared = args[count : count + rest + len(captured)], args[len(args) - rest :]
            row = args[count + len(sums) : len(args) - rest]
            is_first, totals = row[0], [a + b for a, b in zip(args[:count], row[1 : 1 + count], strict=True)]
            found = inner(*row[1 + count :], *shared, *totals)
            shares = [torch.where(is_first, torch.zeros_like(g), g) for g in (*found[:count], *found[2 * count :])]
            own = [torch.where(is_first, t, g) for t, g in zip(totals, found[count : 2 * count], strict=True)]
            return *shares[:count], *[a + b for a, b in zip(sums, shares[count:], strict=True)], *own

        zeros = [torch.zeros_like(t) for t in (*[row[0] for row in self.rows], *additional, *captured)]
        rows = [t.flip([0]) for t in (is_first, *grads, *before, *self.rows)]
        found = list(torch.ops.higher_order.scan(backward, zeros, rows, additional))
        first = len(zeros)
        return [g.flip([0]) for g in found[first:]] + found[count:first]
