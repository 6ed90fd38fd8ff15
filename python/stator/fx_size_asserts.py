"""Asserts about sizes that depend on data, in `torch.fx` graphs for Python backends.

While they compile, torch's compilers take such a size for one of two or more: a tensor of one row does not broadcast,
and strides are those of a tensor with elements. They also replace operators by others that check less. So a graph
asserts both: that its sizes are at least 2, and what its operators check themselves. Where that does not hold, the
plain program runs.
"""

from __future__ import annotations

import operator
import re
from typing import Any

import torch

from . import _C
from .fx_symbols import GraphSymbols
from .fx_texts import NumberText

# Part of the message of each assert. The extension knows a failed one by it (capture/call/runners.cpp).
MESSAGE = "a size that depends on data has a value for which this graph was not compiled"
_NAME = re.compile(r"\b[a-z]+\d+\b(?!\()")
# Values for symbols, to see which sizes are below 2 whatever the data is.
_SAMPLES = (2, 3, 4, 5, 7, 8, 1000)


class SizeAsserts:
    """The asserts of one graph, which are written where the program's next operator would be."""

    def __init__(self, native: _C.Graph, graph: torch.fx.Graph, symbols: GraphSymbols) -> None:
        self.graph = graph
        self.symbols = symbols
        self.unbacked = symbols.unbacked
        self.numbers: dict[str, torch.fx.Node] = {}  # by their texts
        self.pending: dict[str, tuple[torch.fx.Node, int]] = {}  # sizes to assert: a tensor that has each, and where
        self.seen: set[str] = set()
        self.bound: set[str] = set()  # the symbols that a node binds
        self.counted: set[torch.fx.Node] = set()  # operands of the nodes that bind symbols
        checks = native.size_checks()
        # Torch's compilers find no bounds for a choice between numbers.
        self.checks = [check for check in checks if " if " not in check]
        symbols.has_open_checks = len(self.checks) != len(checks)
        self.is_changed = False
        self.text = _NodeText(self)

    @staticmethod
    def of(native: _C.Graph, graph: torch.fx.Graph) -> SizeAsserts | None:
        """None for a graph without such sizes."""
        symbols = native.symbols
        if symbols is None or not symbols.unbacked or not symbols.is_undone:
            return None
        return SizeAsserts(native, graph, symbols)

    def know(self, text: str | int | None, node: torch.fx.Node) -> None:
        """`node` computes this number."""
        if isinstance(text, str) and text not in self.numbers:
            self.numbers[text] = node
            self.is_changed = True
            self.bind(text, node)

    def see(self, meta: tuple[Any, ...] | None, tensor: torch.fx.Node) -> None:
        """Notes the sizes of a tensor that `tensor` makes."""
        for dim, size in enumerate(meta[1] if meta is not None else ()):
            if isinstance(size, str) and size not in self.seen and self.depends_on_data(size):
                self.seen.add(size)
                self.pending[size] = (tensor, dim)
                self.bind(size, tensor, dim)

    def bind(self, text: str, node: torch.fx.Node, dim: int | None = None) -> None:
        """Notes that the result of the node, or this size of it, is a new symbol."""
        if text not in self.unbacked or text in self.bound:
            return
        self.bound.add(text)
        if node.op == "placeholder":
            return
        # Torch gives one symbol to operators that count the same tensor.
        counted = (node.args[0] if node.target is operator.getitem else node).all_input_nodes
        if self.counted.isdisjoint(counted):
            node.meta.add_lazy("unbacked_bindings", lambda: self.symbols.binding(text, dim))
        self.counted.update(counted)

    def depends_on_data(self, text: str) -> bool:
        return not self.unbacked.isdisjoint(_NAME.findall(text))

    def write(self) -> None:
        """Writes the asserts about what is known by now."""
        for size, (tensor, dim) in self.pending.items():
            node = self.graph.call_function(torch.ops.aten.sym_size.int, (tensor, dim))
            self.know(size, node)
            compared = (operator.eq, (node, 1)) if is_never_large(size) else (operator.ge, (node, 2))
            self.write_assert(self.graph.call_function(*compared))
        self.pending.clear()
        if not self.is_changed:
            return
        self.is_changed = False
        open_checks = []
        for check in self.checks:
            if all(name in self.numbers for name in _NAME.findall(check)):
                self.write_assert(self.text.value(check))
            else:
                open_checks.append(check)
        self.checks = open_checks

    def write_assert(self, truth: torch.fx.Node) -> None:
        self.graph.call_function(torch.ops.aten._assert_scalar.default, (truth, MESSAGE))

    def number(self, name: str) -> torch.fx.Node:
        return self.numbers[name]


class _NodeText(NumberText):
    """Evaluates texts on nodes: each operation becomes a node."""

    def __init__(self, asserts: SizeAsserts) -> None:
        super().__init__(asserts)
        self.graph = asserts.graph

    def apply(self, function: Any, *operands: Any) -> Any:
        return self.graph.call_function(function, operands)


class _Sample:
    def __init__(self, value: int) -> None:
        self.value = value

    def number(self, name: str) -> int:
        return self.value


def is_never_large(size: str) -> bool:
    """Whether no sample of the data makes the size 2 or more."""
    for sample in _SAMPLES:
        try:
            if NumberText(_Sample(sample)).value(size) >= 2:
                return False
        except (ArithmeticError, ValueError):
            return False
    return True
