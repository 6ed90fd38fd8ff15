"""Nodes of captured graphs for control flow: `torch.cond`, `while_loop`, `map`, `scan`.

Branches and bodies are graphs of their own. A node knows which of its tensors each of them takes (`places`), and runs
the one that the data chooses.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]


class _Joined(torch.autograd.Function):  # type: ignore[misc]
    """Gradients of a choice reach all tensors that either branch takes: zeros, from the branch that was not taken."""

    @staticmethod
    def forward(ctx: Any, count: int, *tensors: torch.Tensor) -> Tensors:
        ctx.count = count
        ctx.inputs = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors[count:]]
        # Copies: what the branch keeps for its own backward pass must not change with them.
        return tuple(tensor.clone() for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        needed = ctx.needs_input_grad[1 + ctx.count :]
        zeros = [
            torch.zeros(shape, dtype=dtype, device=device) if need else None
            for need, (shape, dtype, device) in zip(needed, ctx.inputs, strict=True)
        ]
        return (None, *gradients, *zeros)


def _joined_as(name: str) -> Any:
    """The same under the name by which torch's own nodes of autograd go."""
    return types.new_class(name, (_Joined,))


_JOINED = {"cond": _joined_as("CondAutogradOp"), "scan": _joined_as("ScanAutogradOp")}


def join(what: str, made: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> Tensors:
    """The results of a branch, as results of all that was given to the choice, or to the loop."""
    joined: Tensors = _JOINED[what].apply(len(made), *made, *tensors)
    return joined


def stacked(rows: Sequence[torch.Tensor], length: int) -> Tensors:
    """What `length` rows like these give."""
    return tuple(torch.stack([row] * length) for row in rows)


class Cond:
    """`torch.cond`: the first tensor says which part runs. `joined`: gradients follow."""

    def __init__(self, yes: Any, yes_places: Sequence[int], no: Any, no_places: Sequence[int], joined: bool) -> None:
        self.yes, self.yes_places = yes, yes_places
        self.no, self.no_places = no, no_places
        self.joined = joined

    def __call__(self, predicate: torch.Tensor, *tensors: torch.Tensor) -> Tensors:
        part, places = (self.yes, self.yes_places) if bool(predicate) else (self.no, self.no_places)
        made: Tensors = tuple(part(*[tensors[place] for place in places]))
        return join("cond", made, tensors) if self.joined else made

    def __str__(self) -> str:
        return f"cond of {len(self.yes.nodes())} and {len(self.no.nodes())} operators"


class Loop:
    """`while_loop`: the first `count` tensors are carried from one turn to the next."""

    def __init__(
        self, test: Any, test_places: Sequence[int], body: Any, body_places: Sequence[int], count: int
    ) -> None:
        self.test, self.test_places = test, test_places
        self.body, self.body_places = body, body_places
        self.count = count

    def __call__(self, *tensors: torch.Tensor) -> Tensors:
        start, others = tensors[: self.count], tensors[self.count :]
        carried = start
        while True:
            known = carried + others
            (goes_on,) = self.test(*[known[place] for place in self.test_places])
            if not bool(goes_on):
                # Results are tensors of their own, also of no turn at all.
                return tuple(tensor.clone() for tensor in start) if carried is start else carried
            carried = tuple(self.body(*[known[place] for place in self.body_places]))

    def __str__(self) -> str:
        return f"while_loop of {len(self.test.nodes())} and {len(self.body.nodes())} operators"


class Map:
    """`map`: the body runs for each row of the first `count` tensors."""

    def __init__(self, body: Any, places: Sequence[int], count: int) -> None:
        self.body, self.places, self.count = body, places, count

    def __call__(self, *tensors: torch.Tensor) -> Tensors:
        others = tensors[self.count :]
        made = []
        for row in zip(*(tensor.unbind(0) for tensor in tensors[: self.count]), strict=True):
            known = row + others
            made.append(self.body(*[known[place] for place in self.places]))
        return tuple(torch.stack(column) for column in zip(*made, strict=True))

    def __str__(self) -> str:
        return f"map of {len(self.body.nodes())} operators"


class Scan:
    """`scan`: the first `carried` tensors go from one turn to the next, of the following `rows` each turn gets a row.
    `joined`: gradients follow."""

    def __init__(self, body: Any, places: Sequence[int], carried: int, rows: int, joined: bool) -> None:
        self.body, self.places, self.carried, self.rows, self.joined = body, places, carried, rows, joined

    def __call__(self, *tensors: torch.Tensor) -> Tensors:
        carried, others = tensors[: self.carried], tensors[self.carried + self.rows :]
        made = []
        for row in zip(*(tensor.unbind(0) for tensor in tensors[self.carried :][: self.rows]), strict=True):
            known = carried + row + others
            results = tuple(self.body(*[known[place] for place in self.places]))
            carried = results[: self.carried]
            made.append(results[self.carried :])
        results = carried + tuple(torch.stack(column) for column in zip(*made, strict=True))
        return join("scan", results, tensors) if self.joined else results

    def __str__(self) -> str:
        return f"scan of {len(self.body.nodes())} operators"
