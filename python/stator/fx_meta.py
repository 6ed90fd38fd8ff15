"""Metadata of nodes in `torch.fx` graphs: `val`, `example_value`, `tensor_meta`, `stack_trace`, `nn_module_stack`.

Most backends read little of it, and a FakeTensor costs more than the rest of a node. So a node's `meta` is a dict
that makes these entries on first access.
"""

from __future__ import annotations

import copy
import linecache
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.fx.passes.shape_prop import TensorMetadata

from . import _C
from .fx_symbols import GraphSymbols

_NONE_LAZY: Mapping[str, Any] = types.MappingProxyType({})
_MISSING = object()


class GraphMeta:
    """What nodes of one exported graph share: the native graph, its lines, and the mode of its FakeTensors."""

    def __init__(self, native: _C.Graph, outer: GraphMeta | None = None) -> None:
        self.native = native
        self.outer = outer  # the GraphMeta of the graph that contains this sub-graph
        self.locations = native.locations()
        self.traces: dict[int, str] = {}
        self.modules: dict[int, dict[str, tuple[str, str]]] = {}
        self._fake_mode: Any = None
        self._symbols: GraphSymbols | None = native.symbols
        self._has_symbols: bool | None = None

    @property
    def symbols(self) -> GraphSymbols | None:
        """What makes torch's symbols for the graph; None if it has no symbolic size."""
        if self.outer is not None:
            return self.outer.symbols
        if self._has_symbols is None:
            self._has_symbols = self._symbols is not None or bool(self.native.symbol_table())
            if self._has_symbols and self._symbols is None:
                self._symbols = GraphSymbols(self.native)
        return self._symbols

    @property
    def fake_mode(self) -> Any:
        if self.outer is not None:
            return self.outer.fake_mode
        if self.symbols is not None:
            return self.symbols.fake_mode
        if self._fake_mode is None:
            # Import late: it is a large part of torch that nothing else needs.
            from torch._subclasses.fake_tensor import FakeTensorMode

            self._fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
        return self._fake_mode

    def has_lines(self, location: int) -> bool:
        return True

    def stack_trace(self, location: int) -> str:
        trace = self.traces.get(location)
        if trace is None:
            file, function, line, caller, _path, _class = self.locations[location]
            source = linecache.getline(file, line).strip()
            trace = f'  File "{file}", line {line}, in {function}\n' + (f"    {source}\n" if source else "")
            if caller:
                trace = self.stack_trace(caller) + trace
            self.traces[location] = trace
        return trace

    def module_stack(self, location: int) -> dict[str, tuple[str, str]]:
        """The modules whose methods are running, from the outermost: (path, class) by path."""
        stack = self.modules.get(location)
        if stack is None:
            _file, _function, _line, caller, path, class_name = self.locations[location]
            stack = dict(self.module_stack(caller)) if caller else {}
            if class_name:
                stack[path] = (path, class_name)
            self.modules[location] = stack
        return stack

    def fake(self, meta: tuple[Any, ...], definition: tuple[int, ...]) -> torch.Tensor:
        symbols = self.symbols
        if symbols is not None:
            is_input = len(definition) == 1 and self.outer is None
            return (
                symbols.fake_input([*map(int, self.native.inputs)].index(definition[0]), meta)
                if is_input
                else symbols.fake(meta)
            )
        dtype, sizes, strides, device, requires_grad = meta
        with torch.inference_mode(False), torch.no_grad(), self.fake_mode:
            made = torch.empty_strided(sizes, strides, dtype=dtype, device=device)
        return made.requires_grad_(requires_grad)

    def evaluated(self, meta: tuple[Any, ...]) -> tuple[Any, ...]:
        """The metadata with torch's symbols in place of the texts of symbolic numbers."""
        symbols = self.symbols
        if symbols is None:
            return meta
        rows = [tuple(symbols.number(n) if isinstance(n, str) else n for n in row) for row in meta[1:3]]
        return (meta[0], *rows, *meta[3:])


class NodeMeta(dict[str, Any]):
    """A node's `meta`. `pending` lists the entries that were not made yet."""

    __slots__ = ("definition", "lazy", "location", "number", "pending", "shared")

    def __init__(
        self, shared: GraphMeta, location: int, definition: tuple[int, ...] | None, number: str | int | None = None
    ) -> None:
        self.shared = shared
        self.location = location
        self.definition = definition  # a value and the node that defines it; the value alone for inputs
        self.number = number  # of a node that computes a number: its text, see `_C.Graph.number`
        self.lazy: Mapping[str, Callable[[], Any]] = _NONE_LAZY  # the functions that make entries of `add_lazy`
        self.pending: set[str]
        if number is not None:
            self.pending = {"val", "example_value"}
        elif definition is not None and shared.native.has_meta(*definition):
            self.pending = {"val", "example_value", "tensor_meta"}
        else:
            self.pending = set()
        if location:
            if shared.has_lines(location):
                self.pending.add("stack_trace")
            if shared.module_stack(location):
                self.pending.add("nn_module_stack")

    def make(self, key: str) -> Any:
        self.pending.discard(key)
        if key in self.lazy:
            value: Any = self.lazy[key]()
        elif key == "stack_trace":
            value = self.shared.stack_trace(self.location)
        elif key == "nn_module_stack":
            value = dict(self.shared.module_stack(self.location))
        elif self.number is not None:
            symbols = self.shared.symbols
            assert symbols is not None
            value = symbols.number(self.number) if isinstance(self.number, str) else self.number
        else:
            assert self.definition is not None
            meta = self.shared.native.meta(*self.definition)
            assert meta is not None
            if key == "tensor_meta":
                value = _tensor_metadata(self.shared.evaluated(meta))
            else:
                # Both names share one object.
                other = "example_value" if key == "val" else "val"
                known = dict.get(self, other)
                value = known if known is not None else self.shared.fake(meta, self.definition)
        dict.__setitem__(self, key, value)
        return value

    def add_lazy(self, key: str, make: Callable[[], Any]) -> None:
        self.lazy = {**self.lazy, key: make}
        self.pending.add(key)

    def fill(self) -> NodeMeta:
        for key in sorted(self.pending):
            self.make(key)
        return self

    def __missing__(self, key: str) -> Any:
        if key in self.pending:
            return self.make(key)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return key in self.pending or dict.__contains__(self, key)

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.pending.discard(key)
        dict.__setitem__(self, key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __delitem__(self, key: str) -> None:
        if key in self.pending:
            self.pending.discard(key)
        else:
            dict.__delitem__(self, key)

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        if key in self.pending:
            self.make(key)
        return dict.pop(self, key) if default is _MISSING else dict.pop(self, key, default)

    def clear(self) -> None:
        self.pending.clear()
        dict.clear(self)

    def __iter__(self) -> Iterator[str]:
        return dict.__iter__(self.fill())

    def __len__(self) -> int:
        return dict.__len__(self) + len(self.pending)

    def __bool__(self) -> bool:
        return len(self) > 0

    def keys(self) -> Any:
        return dict.keys(self.fill())

    def values(self) -> Any:
        return dict.values(self.fill())

    def items(self) -> Any:
        return dict.items(self.fill())

    def __repr__(self) -> str:
        return dict.__repr__(self.fill())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NodeMeta):
            other.fill()
        return dict.__eq__(self.fill(), other)

    __hash__ = None

    def copy(self) -> NodeMeta:
        made = NodeMeta(self.shared, 0, None)
        made.location, made.definition, made.pending = self.location, self.definition, set(self.pending)
        made.number, made.lazy = self.number, self.lazy
        for key, value in dict.items(self):
            dict.__setitem__(made, key, value)
        return made

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> NodeMeta:
        made = self.copy()
        for key, value in dict.items(self):
            dict.__setitem__(made, key, copy.deepcopy(value, memo))
        return made

    def __reduce__(self) -> Any:
        return dict, (dict(self.items()),)


def _tensor_metadata(meta: tuple[Any, ...]) -> TensorMetadata:
    dtype, sizes, strides, _device, requires_grad = meta
    memory_format = torch.contiguous_format if _is_row_major(sizes, strides) else None
    return TensorMetadata(torch.Size(sizes), dtype, requires_grad, strides, memory_format, False, {})


def _is_row_major(sizes: Any, strides: Any) -> bool:
    if any(isinstance(number, torch.SymInt) for number in (*sizes, *strides)):
        return False  # the answer may need a guard
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= max(size, 1)
    return True
