"""Symbolic sizes of a graph as torch's symbols, for Python backends and for the metadata of `torch.fx` nodes.

Torch's symbols need sympy, which takes long to import. So they are made when a backend asks for them: when it computes
with an example of a size, reads a node's `val`, or asks for the tracing context's fake mode, as AOTAutograd does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch._guards import GuardSource, Source, TracingContext, tracing
from torch.utils import _pytree as pytree

from . import _C
from .fx_constants import constant_numbers
from .fx_module import find_operator
from .fx_numbers import ITEM
from .fx_texts import NumberText, truth_text

_SYMBOLS_MODULE = "torch.fx.experimental.symbolic_shapes"
_NAME = re.compile(r"[a-z]+\d+")

# What a compiler relied on: its text over the graph's symbols (None: it has none), the symbols of sizes and ints in it,
# and the places of the floats in it.
GuardRow = tuple[str | None, list[str], list[int]]
# (dtype, sizes, strides, device, requires_grad): see `_C.Graph.meta`
Meta = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class _SizeSource(Source):  # type: ignore[misc]
    """The source that torch's compilers see for a symbol."""

    symbol: str

    @property
    def guard_source(self) -> GuardSource:
        return GuardSource.LOCAL

    @property
    def _name_template(self) -> str:
        return self.symbol


class ExampleSize(torch.SymInt):  # type: ignore[misc]
    """The example of a graph input that is a size. The first operation on it makes torch's own symbol."""

    def __init__(self, symbols: GraphSymbols, name: str, hint: int) -> None:
        self.symbols = symbols
        self.name = name
        self.hint = hint

    @property
    def node(self) -> Any:
        return self.symbols.number(self.name).node

    def __repr__(self) -> str:
        return self.name


def _asking(name: str) -> Any:
    def method(self: ExampleSize, *args: Any) -> Any:
        # `number` imports the module that the methods of torch.SymInt need.
        return getattr(self.symbols.number(self.name), name)(*args)

    method.__name__ = name
    return method


for _method in vars(torch.SymInt):
    _is_own = _method in vars(ExampleSize) or _method in vars(object)
    if _method.startswith("__") and not _is_own and callable(getattr(torch.SymInt, _method)):
        setattr(ExampleSize, _method, _asking(_method))
for _method in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"):
    setattr(ExampleSize, _method, _asking(_method))


def plain_number(number: Any) -> int:
    """The value at capture of a symbolic number; nothing is guarded."""
    if isinstance(number, ExampleSize):
        return number.hint
    if isinstance(number, torch.SymInt):
        return int(number.node.hint)
    raise TypeError(f"a graph takes a number here, not {type(number).__name__}")


class GraphSymbols:
    """Torch's symbols, and the fake mode that they belong to, for one graph. Does not refer to the graph."""

    def __init__(self, graph: _C.Graph, examples: list[Any] | None = None, is_undone: bool = False) -> None:
        """`is_undone`: whether all that a failed run wrote is undone, so that the graph may have asserts."""
        self.table: dict[str, list[Any]] = {name: row for name, *row in graph.symbol_table()}
        self.unbacked = {name for name, (kind, hint, *_) in self.table.items() if hint is None and kind == "int"}
        self.is_undone = is_undone
        self.has_open_checks = False  # whether the graph does not assert all that its operators check
        types = graph.types()
        numbers = [graph.number(value) if types[value] == "int" else None for value in graph.inputs]
        self.leading = [number for number in numbers if number is not None]
        self.metas: list[Meta | None] = [graph.meta(value) for value in graph.inputs[len(self.leading) :]]
        self.texts = NumberText(self)
        self.floats = _float_inputs(graph, len(self.leading), examples or [])
        texts = [str(graph.number(value)) for value in constant_numbers(graph)]
        # The symbols that torch's compilers, but not other backends, must get as constants.
        self._constants = sorted({name for text in texts for name in _NAME.findall(text) if name in self.table})
        self._is_asked = False  # whether a compiler of torch asked for the symbols
        # The example inputs. Dropped when the backend has compiled, so that the program's tensors are not kept alive.
        self.inputs = examples and [_C.number_tensor(x).clone() if isinstance(x, float) else x for x in examples]
        self.writes = examples is not None and _writes(graph)
        self.fakes: list[Any] = []
        self._known: dict[str, Any] = {}
        self._ranges: dict[Any, Any] = {}
        self._refused: list[str] = []
        self._refused_floats: list[str] = []
        self._fake_mode: Any = None
        self.has_open_floats = False  # floats of the program are symbols without a value, as if they depended on data

    # ---- what a backend gets

    def examples(self) -> list[Any]:
        """Examples of the graph's inputs: torch's symbols for sizes, and the program's own tensors."""
        assert self.inputs is not None
        return [*map(self.example, self.leading), *self.inputs]

    def example(self, name: Any) -> Any:
        if isinstance(name, int):
            return name
        if _SYMBOLS_MODULE in sys.modules:
            return self.number(name)
        return ExampleSize(self, name, self.table[name][1])

    @contextlib.contextmanager
    def context(self) -> Iterator[None]:
        """In the block, torch's compilers find the fake mode, with fakes of the example inputs."""
        context = _Context(self)
        with tracing(context):
            try:
                yield
            finally:
                context.is_over = True

    def note_question(self, is_over: bool) -> None:
        self._is_asked |= not is_over

    @property
    def refuses_numbers(self) -> bool:
        """Whether a compiler of torch needs constants for numbers of the graph."""
        return self._is_asked and bool(self._constants)

    def unasserted(self) -> tuple[str, str] | None:
        """What a compiler of torch assumed of numbers that depend on data although the graph cannot assert it, as
        (what, why); None: nothing."""
        if not self._is_asked or not self.unbacked:
            return None
        if not self.is_undone:
            what = "a write that cannot be undone beside a size that depends on data"
            return what, "what it assumes of the size may not hold"
        if self.has_open_checks:
            return "a condition", "it decides about a choice between numbers that depend on data"
        for name in self.unbacked if self._fake_mode is not None else ():
            value = self.shape_env.simplify(self.number(name).node._expr)
            if not any(self.shape_env.is_unbacked_symint(symbol) for symbol in value.free_symbols):
                return "an operator", f"it assumes that a number that depends on data is {value}"
        return None

    @property
    def is_made(self) -> bool:
        return self._fake_mode is not None

    # ---- torch's objects

    @property
    def fake_mode(self) -> Any:
        if self._fake_mode is None:
            self._make_mode()
            self._make_inputs()
        return self._fake_mode

    @property
    def shape_env(self) -> Any:
        return self.fake_mode.shape_env

    def number(self, text: str) -> Any:
        """The number that a text of `_C.Graph.meta` or `number` names."""
        found = self._known.get(text)
        if found is None:
            assert self.fake_mode is not None  # makes the symbols
            found = self._known.get(text)
        if found is None:
            found = self._known[text] = self.texts.value(text)
        return found

    def binding(self, name: str, dim: int | None) -> dict[Any, Any]:
        """The entry `unbacked_bindings` in the metadata of a node whose result, or this size of it, is a new symbol:
        torch's compilers take the symbol that they make there for ours."""
        symbol = self.number(name).node.expr
        if dim is None:
            return {symbol: ()}
        module = sys.modules[_SYMBOLS_MODULE]
        return {symbol: (module.CallMethodKey("size"), pytree.SequenceKey(dim))}

    def fake(self, meta: Meta) -> torch.Tensor:
        dtype, sizes, strides, device, requires_grad = meta
        mode = self.fake_mode
        numbers = [[self.number(n) if isinstance(n, str) else n for n in row] for row in (sizes, strides)]
        with torch.inference_mode(False), torch.no_grad(), mode:
            made = torch.empty_strided(*numbers, dtype=dtype, device=device)
        return made.requires_grad_(requires_grad)

    def fake_input(self, position: int, meta: Meta) -> torch.Tensor:
        """The fake that torch's compilers get for an input of the graph."""
        mode = self.fake_mode
        index = position - len(self.leading)
        if index >= len(self.fakes):
            return self.fake(meta)
        if self.fakes[index] is None:
            self.fakes[index] = self.fake(meta)
        assert self.fakes[index].fake_mode is mode
        return self.fakes[index]

    def _make_mode(self) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        # Tensors that are not inputs of the graph have constant sizes.
        env = ShapeEnv(assume_static_by_default=True)
        self._fake_mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
        # Compilers that trace the graph make symbols of their own for what depends on data. Ours are for metadata.
        with env.ignore_fresh_unbacked_symbols():
            self._make_symbols(env)

    def _make_symbols(self, env: Any) -> None:
        from torch.fx.experimental.symbolic_shapes import DimDynamic
        from torch.utils._sympy.numbers import int_oo
        from torch.utils._sympy.value_ranges import ValueRanges

        for name, (kind, hint, least, greatest) in self.table.items():
            if name in self.floats and not self.has_open_floats:
                value = self.floats[name].value
                if not math.isfinite(value):  # torch's symbols have no such hints
                    value = 1.0
                    self._refused_floats.append(name)
                source = _SizeSource(name)
                symbol = env.create_unspecified_symbol(value, source, DimDynamic.DYNAMIC)
                self._known[name] = env.create_symfloatnode(symbol, hint=value, source=source)
                self.floats[name].symbol = symbol
                continue
            if kind != "int":
                self._known[name] = env.create_unbacked_symfloat() if kind == "float" else env.create_unbacked_symbool()
                continue
            if hint is not None:  # the graph may assume bounds that do not hold in this call: it raises then
                least = None if least is None else min(least, hint)
                greatest = None if greatest is None else max(greatest, hint)
            bounds = ValueRanges(-int_oo if least is None else least, int_oo if greatest is None else greatest)
            if hint is None:
                number = env.create_unbacked_symint()
                symbol = number.node.expr
            else:
                source = _SizeSource(name)
                positive = True if least is not None and least > 0 else None
                symbol = env.create_symbol(
                    hint, source, DimDynamic.DYNAMIC, positive=positive, do_not_specialize_zero_one=True
                )
                number = env.create_symintnode(symbol, hint=hint, source=source)
            env._update_var_to_range(symbol, bounds)
            self._known[name] = number
            self._ranges[symbol] = (name, env.var_to_range[symbol])

    def _make_inputs(self) -> None:
        """Makes the fakes of the example inputs. From now on the mode returns them for these inputs."""
        inputs = self.inputs
        if inputs is None:
            return
        shared = _shared_storages(inputs) if self.writes else set()
        converter = self._fake_mode.fake_tensor_converter
        for real, meta in zip(inputs, self.metas, strict=True):
            if not isinstance(real, torch.Tensor) or meta is None:
                self.fakes.append(None)
                continue
            names = self.names_in(meta)
            if names and _storage(real) in shared:
                # Our fakes share no memory, so they cannot show how the tensors overlap.
                self._refused += names
            if names:
                fake = _fake_non_leaf(self, meta) if real.requires_grad and not real.is_leaf else self.fake(meta)
                converter.set_tensor_memo(real, fake)
            else:
                fake = self._fake_mode.from_tensor(real, static_shapes=True)
            self.fakes.append(fake)
        for name, number in self.floats.items() if not self.has_open_floats else ():
            self.fakes[number.place].item_memo = self._known[name]

    def names_in(self, meta: Meta) -> list[str]:
        """The symbols in sizes and strides."""
        texts = [number for row in meta[1:3] for number in row if isinstance(number, str)]
        return [name for text in texts for name in _NAME.findall(text) if name in self.table]

    # ---- what the backend relied on

    def refuse_floats(self) -> None:
        """Notes that torch's compilers do not take a float of the graph as an input."""
        self._refused_floats = list(self.floats)

    def open_floats(self) -> None:
        """Makes the symbols again, with floats of the program as numbers that depend on data."""
        self.has_open_floats = True
        self._is_asked = False
        self._fake_mode = None
        for made in (self._known, self._ranges, self._refused, self._refused_floats, self.fakes):
            made.clear()

    def take_guards(self) -> list[GuardRow]:
        """What torch's compilers asked of the sizes and numbers. To be called once, when the backend has compiled the
        graph."""
        self.inputs = None
        if self._fake_mode is None:
            return []
        env = self._fake_mode.shape_env
        rows: list[GuardRow] = [(None, [name], []) for name in self._refused]
        truths = [guard.expr for guard in env.guards]
        truths += [check.expr for checks in env.deferred_runtime_asserts.values() for check in checks]
        names = {symbol: name for symbol, (name, _) in self._ranges.items()}
        floats = {number.symbol: number.place for number in self.floats.values()}
        hints = {name for name, row in self.table.items() if row[1] is not None}
        for truth in truths:
            used = [names[symbol] for symbol in truth.free_symbols if symbol in names]
            asked = [floats[symbol] for symbol in truth.free_symbols if symbol in floats]
            if asked:
                rows.append((None, [], asked))
                continue
            if len(used) == len(truth.free_symbols) and not hints.issuperset(used):
                continue  # the compiled graph asserts what depends on data
            is_known = len(used) == len(truth.free_symbols)
            rows.append((truth_text(truth, names) if is_known else None, used or sorted(hints), []))
        for symbol, (name, before) in self._ranges.items():
            now = env.var_to_range.get(symbol, before)
            if name in hints and now.lower != before.lower:
                rows.append((f"{name} >= {now.lower}", [name], []))
            if name in hints and now.upper != before.upper:
                rows.append((f"{name} <= {now.upper}", [name], []))
        if self._refused_floats:
            rows.append((None, [], [self.floats[name].place for name in self._refused_floats]))
        if self.refuses_numbers:
            sizes = [name for name in self._constants if name in hints and name not in self.floats]
            rows.append((None, sizes, [self.floats[name].place for name in self._constants if name in self.floats]))
        env.freeze()
        return rows


class _Context(TracingContext):  # type: ignore[misc]
    def __init__(self, symbols: GraphSymbols) -> None:
        self.symbols = symbols
        self.is_over = False
        super().__init__(None)

    @property
    def fake_mode(self) -> Any:
        # Torch also reads this property when it leaves the context; no mode is made for that.
        self.symbols.note_question(self.is_over)
        return self.symbols.fake_mode if self.symbols.is_made or not self.is_over else None

    @fake_mode.setter
    def fake_mode(self, mode: Any) -> None:
        pass


def is_compiling(context: Any) -> bool:
    """Whether it is the context of a backend that is compiling a graph."""
    return isinstance(context, _Context) and not context.is_over


class _Made(torch.autograd.Function):  # type: ignore[misc]
    """A fake that requires gradients and is not a leaf."""

    @staticmethod
    def forward(ctx: Any, symbols: GraphSymbols, meta: Meta, leaf: torch.Tensor) -> torch.Tensor:
        return symbols.fake((*meta[:4], False))

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        raise AssertionError("a fake has no gradient")


def _fake_non_leaf(symbols: GraphSymbols, meta: Meta) -> Any:
    with torch.enable_grad(), symbols.fake_mode:
        leaf = torch.empty((), dtype=meta[0], device=meta[3]).requires_grad_()
        return _Made.apply(symbols, meta, leaf)


@dataclasses.dataclass
class _FloatInput:
    """A float of the program. In the graph it is a tensor without dimensions, from which a node reads the number."""

    place: int  # its index among the inputs that follow the sizes
    value: float
    symbol: Any = None  # torch's


def _float_inputs(graph: _C.Graph, leading: int, examples: list[Any]) -> dict[str, _FloatInput]:
    """The floats among the examples, by the names of their symbols."""
    places = {graph.inputs[leading + i]: i for i, example in enumerate(examples) if isinstance(example, float)}
    found = {}
    for name, _overload, args, _kwargs, results, *_ in graph.nodes() if places else ():
        if name == ITEM and args[0] in places:
            place = places[args[0]]
            found[str(graph.number(results[0]))] = _FloatInput(place, examples[place])
    return found


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _shared_storages(inputs: list[Any]) -> set[int]:
    seen: set[int] = set()
    shared: set[int] = set()
    for real in inputs:
        if isinstance(real, torch.Tensor):
            storage = _storage(real)
            (shared if storage in seen else seen).add(storage)
    return shared


def _writes(graph: _C.Graph) -> bool:
    """Whether an operator of the graph may write to an input."""
    for name, overload, *_ in graph.nodes():
        if not name.startswith("stator::") and find_operator(name, overload)._schema.is_mutable:
            return True
    return False
