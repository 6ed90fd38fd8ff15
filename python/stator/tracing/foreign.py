"""FakeTensors of torch among the arguments of a trace. The function gets fakes of ours; at the end, values of nodes are
made in the mode that the arguments belong to, with its symbols."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch

from ..fx_symbols import GraphSymbols
from ..fx_texts import NumberText


class ForeignInputs:
    def __init__(self, leaves: list[Any]) -> None:
        fakes = sys.modules.get("torch._subclasses.fake_tensor")
        self.fake_class: Any = fakes.FakeTensor if fakes is not None else ()
        self.mode: Any = None
        self.numbers: dict[str, Any] = {}  # our symbols by the text of torch's expression
        self.symbols: dict[str, Any] = {}  # torch's symbolic integers by the name of our symbol
        self.bases: dict[Any, torch.Tensor] = {}
        for position, leaf in enumerate(leaves if fakes is not None else ()):
            if not isinstance(leaf, self.fake_class):
                continue
            if self.mode is None:
                self.mode, first = leaf.fake_mode, position
            elif leaf.fake_mode is not self.mode:
                raise AssertionError(
                    f"the inputs {first} and {position} of the traced function are FakeTensors of different modes: "
                    f"{self.mode} and {leaf.fake_mode}"
                )
        self.has_symbols = self.mode is not None and any(
            isinstance(leaf, torch.SymInt) or (isinstance(leaf, self.fake_class) and _is_symbolic(leaf))
            for leaf in leaves
        )

    def is_foreign(self, leaf: Any) -> bool:
        return isinstance(leaf, self.fake_class) or (self.mode is not None and isinstance(leaf, torch.SymInt))

    @contextlib.contextmanager
    def watching(self, tracer: Any) -> Iterator[None]:
        """In this block, FakeTensors from outside the function become constants of the trace."""

        def made(tensor: torch.Tensor) -> torch.Tensor | None:
            fakes = sys.modules.get("torch._subclasses.fake_tensor")
            if fakes is None or not isinstance(tensor, fakes.FakeTensor):
                return None
            return self.add(tracer, tensor, "a FakeTensor from outside", is_attribute=True)

        tracer.set_foreign(made)
        try:
            yield
        finally:
            tracer.set_foreign(None)  # the tracer takes no part in garbage collection

    def add(self, tracer: Any, leaf: Any, name: str, is_attribute: bool = False) -> Any:
        if isinstance(leaf, torch.SymInt):
            return self.number(tracer, leaf, name, is_input=True)
        storage = leaf.untyped_storage()._cdata
        sizes = [self.number(tracer, size, f"{name}.size({i})") for i, size in enumerate(leaf.size())]
        strides = [self.number(tracer, stride, f"{name}.stride({i})") for i, stride in enumerate(leaf.stride())]
        offset = self.number(tracer, leaf.storage_offset(), f"{name}.storage_offset()")
        made = tracer.foreign_input(leaf, sizes, strides, offset, self.bases.get(storage), name, is_attribute)
        self.bases[storage] = made
        return made

    def number(self, tracer: Any, number: Any, source: str, is_input: bool = False) -> Any:
        if not isinstance(number, torch.SymInt):
            return int(number)
        expression = number.node.expr
        if expression.is_number:
            return int(expression)
        text = str(expression)
        made = tracer.integer_input(number.node.hint, source) if is_input else self.numbers.get(text)
        if made is None:
            made = self.composed(tracer, expression, number.node.shape_env)
        if made is None:
            made = tracer.symbol(number.node.hint, source)
        self.numbers.setdefault(text, made)
        if isinstance(made, torch.SymInt) and str(made.node).isidentifier():
            self.symbols.setdefault(str(made.node), number)
        return made

    def composed(self, tracer: Any, expression: Any, env: Any) -> Any:
        """An expression over symbols that are known; None if it is not one."""
        if not all(str(symbol) in self.numbers for symbol in expression.free_symbols) or expression.is_symbol:
            return None
        try:
            return NumberText(self).value(str(expression))
        except (KeyError, SyntaxError, TypeError):
            return None

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """In this block no mode of torch's fakes is active."""
        fakes = sys.modules.get("torch._subclasses.fake_tensor")
        if fakes is None:
            yield
            return
        with fakes.unset_fake_temporarily():
            yield


def _is_symbolic(fake: torch.Tensor) -> bool:
    return any(isinstance(number, torch.SymInt) for number in (*fake.size(), *fake.stride(), fake.storage_offset()))


class ForeignSymbols(GraphSymbols):
    """Symbols of a graph whose inputs have torch's symbols already."""

    def __init__(self, graph: Any, foreign: ForeignInputs) -> None:
        super().__init__(graph)
        self.foreign = foreign

    def _make_mode(self) -> None:
        self._fake_mode = self.foreign.mode
        env = self._fake_mode.shape_env
        given = {name: number for name, number in self.foreign.symbols.items() if name in self.table}
        self.table = {name: row for name, row in self.table.items() if name not in given}
        self._known |= given
        if env is not None:
            with env.ignore_fresh_unbacked_symbols():
                self._make_symbols(env)
