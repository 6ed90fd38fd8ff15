"""What the nodes of a trace remember of the program: lines, modules, annotations, operators that were decomposed."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import SequenceKey

from .. import _C, places
from ..fx_meta import GraphMeta, NodeMeta
from ..fx_symbols import GraphSymbols
from .current import Recording, unseen
from .foreign import ForeignSymbols
from .module_reads import told_of_reads

# Keys of `torch.fx.traceback`'s current metadata that new nodes inherit under `preserve_node_meta()`.
_INHERITED = ("custom", "recompute", "ac_graph_id", "from_node", "is_gradient_acc", "partitioner_tag")


@dataclass
class Note:
    """What one node, or several, remember."""

    lines: list[tuple[str, int, str]] = field(default_factory=list)  # file, line, function; outermost first
    modules: dict[str, tuple[str, str]] = field(default_factory=dict)  # (path, class) by call
    entries: dict[str, Any] = field(default_factory=dict)

    def same(self, other: Note) -> bool:
        return self.lines == other.lines and self.modules == other.modules and self.entries == other.entries


class Notes:
    """Collects notes while a function is traced. The number of a note is the location of its nodes in the graph."""

    def __init__(self, lines: bool, modules: ModuleCalls | None, outermost: CodeType) -> None:
        self.has_lines = lines
        self.modules = modules
        self.outermost = outermost  # of the frame that calls the traced function
        self.recording: Recording | None = None
        self.notes = [Note()]

    def __call__(self) -> Any:
        """What the tracer asks for each node: a new place, or the number of a known one."""
        note = Note(self.lines(), self.modules.stack() if self.modules else {}, self.entries())
        if note.same(self.notes[-1]):
            return len(self.notes) - 1
        self.notes.append(note)
        return (note.lines[-1][0], note.lines[-1][2], note.lines[-1][1]) if note.lines else ("", "", 0)

    def lines(self) -> list[tuple[str, int, str]]:
        found: list[tuple[str, int, str]] = []
        frame = sys._getframe(2) if self.has_lines else None
        while frame is not None and frame.f_code is not self.outermost:
            code = frame.f_code
            if places.distance_of(code.co_filename) < 2:
                found.append((code.co_filename, frame.f_lineno, code.co_name))
            frame = frame.f_back
        return found[::-1]

    def entries(self) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        if self.modules and self.modules.function is not None:
            entries["torch_fn"] = self.modules.function
        if self.recording is not None and self.recording.decomposed:
            entries["original_aten"] = self.recording.decomposed[0]
        if fx_traceback.has_preserved_node_meta():
            current = fx_traceback.get_current_meta()
            entries |= {key: current[key] for key in _INHERITED if key in current}
            node = torch._C._current_autograd_node()
            entries["seq_nr"] = node._sequence_nr() if node is not None else torch.autograd._get_sequence_nr() - 1
            if node is not None:
                entries["autograd_backward"] = True
        return entries


class ModuleCalls(TorchFunctionMode):  # type: ignore[misc]
    """The modules whose `forward` runs, and the function of torch that runs."""

    def __init__(self, root: torch.nn.Module) -> None:
        super().__init__()
        self.root = root
        self.calls: list[tuple[torch.nn.Module, str, str]] = []  # (module, path, key)
        self.times: dict[str, int] = {}
        self.function: tuple[str, str] | None = None
        self.counts: dict[str, int] = {}
        self.read: dict[int, list[str]] = {}  # by module: the paths by which the program read it

    def stack(self) -> dict[str, tuple[str, str]]:
        return {key: (path, f"{type(m).__module__}.{type(m).__qualname__}") for m, path, key in self.calls}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__
        self.counts[name] = self.counts.get(name, 0) + 1
        previous, self.function = self.function, (f"{name}_{self.counts[name]}", f"{type(func).__name__}.{name}")
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.function = previous

    def path_of(self, module: torch.nn.Module) -> str | None:
        """How the running module reaches this one."""
        if not self.calls:
            return "" if module is self.root else None
        if reads := self.read.get(id(module)):
            return reads.pop() if len(reads) > 1 else reads[0]  # one that is called inside of another's arguments
        owner, path, _ = self.calls[-1]
        for name, child in owner.named_modules(remove_duplicate=False):
            if child is module and name:
                return f"{path}.{name}" if path else name
        return None

    def running_path(self, module: torch.nn.Module) -> str:
        return next((path for running, path, _ in reversed(self.calls) if running is module), "")

    @contextlib.contextmanager
    def routes(self) -> Iterator[None]:
        """In this block `read` has how the program read a module last, if one of the modules has two names."""
        modules = [module for _, module in self.root.named_modules(remove_duplicate=False)]
        if len(modules) == len({id(module) for module in modules}):
            yield
            return
        known = {id(module) for module in modules}
        thread = threading.get_ident()

        def note(owner: torch.nn.Module, name: Any, found: Any) -> None:
            if id(found) in known and threading.get_ident() == thread:
                key = name if isinstance(name, str) else str(name % len(owner))
                reads = self.read.get(id(owner))
                route = reads[-1] if reads else self.running_path(owner)
                self.read.setdefault(id(found), []).append(f"{route}.{key}" if route else key)

        with told_of_reads(note):
            try:
                yield
            finally:
                self.read.clear()

    def enter(self, module: torch.nn.Module, _args: Any) -> None:
        path = None if isinstance(module, torch.fx.GraphModule) else self.path_of(module)
        if path is None:  # inlined: the stack of the caller
            self.calls.append(self.calls[-1] if self.calls else (self.root, "", ""))
            return
        times = self.times[path] = self.times.get(path, -1) + 1
        self.calls.append((module, path, f"{path}@{times}" if times else path))

    def leave(self, _module: torch.nn.Module, _args: Any, _result: Any) -> None:
        self.calls.pop()

    @contextlib.contextmanager
    def watching(self, has_torch_fn: bool) -> Iterator[None]:
        handles = []
        try:
            for module in dict.fromkeys(self.root.modules()):
                handles.append(module.register_forward_pre_hook(self.enter, prepend=True))
                handles.append(module.register_forward_hook(self.leave, always_call=True))
            with self.routes(), self if has_torch_fn else contextlib.nullcontext():
                yield
        finally:
            for handle in handles:
                handle.remove()


def _without_guards(row: list[Any]) -> list[Any]:
    """A symbol's kind, hint and bounds, without those that guards gave it."""
    kind, hint, least, _ = row
    return row if hint is None else [kind, hint, 2 if least is not None and least >= 2 else least, None]


class TraceMeta(GraphMeta):
    """Metadata of the nodes of a trace; of a sub-graph, if there is no `trace`."""

    def __init__(self, native: _C.Graph, trace: Any = None, guards: Any = None) -> None:
        super().__init__(native)
        self.memories = trace.tracer.memories() if trace is not None else ([], [], [])
        self.buffers: dict[int, torch.Tensor] = {}  # by number of the storage
        self.guards: list[str] | None = None  # of the symbolic mode
        self.notes: list[Note] = trace.notes.notes if trace is not None and trace.notes is not None else []
        self.is_guarded = False
        self.inner: dict[str, list[Any]] = {}  # rows of symbols that only sub-graphs have
        if trace is not None and trace.foreign.mode is not None:
            self._fake_mode = trace.foreign.mode
        if guards is not None:
            self.guards, rows = guards
            has_foreign = trace.foreign.mode is not None
            symbols = ForeignSymbols(native, trace.foreign) if has_foreign else GraphSymbols(native)
            # Guards are over all symbols, those too that are numbers now.
            symbols.table = {name: _without_guards(row) for name, *row in rows}
            self._symbols = symbols

    def take_part(self, part: TraceMeta) -> None:
        """`part`: of a sub-graph, whose symbols this graph makes too."""
        part.outer = self
        self.inner |= {name: row for name, *row in part.native.symbol_table()} | part.inner

    @property
    def symbols(self) -> GraphSymbols | None:
        found = super().symbols
        if self.outer is None and self.inner:
            if found is None:
                found = self._symbols = GraphSymbols(self.native)
                self._has_symbols = True
            found.table = self.inner | found.table
            self.inner = {}
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> TraceMeta:
        return self  # copies of a module share the values of nodes, as those of their nodes do

    def fake(self, meta: tuple[Any, ...], definition: tuple[int, ...]) -> torch.Tensor:
        """Values of nodes that share memory in the trace do so too."""
        with unseen():  # by a trace around this one, whose function reads a value
            return self._fake(meta, definition)

    def _fake(self, meta: tuple[Any, ...], definition: tuple[int, ...]) -> torch.Tensor:
        storages, offsets, _ = self.memories
        value = int(definition[0])
        dtype, sizes, strides, device, requires_grad = self.evaluated(meta)
        storage = storages[value] if value < len(storages) and len(strides) == len(sizes) else -1
        if storage < 0:
            return super().fake(meta, definition)
        fake_mode = self.fake_mode if self.symbols is None else self.symbols.fake_mode
        env = fake_mode.shape_env
        is_silent = contextlib.nullcontext() if env is None else env.suppress_guards()
        with torch.inference_mode(False), torch.no_grad(), fake_mode, is_silent:
            buffer = self.buffer(storage, device)
            made = torch.empty(0, dtype=dtype, device=device)
            try:
                made.set_(buffer.untyped_storage(), offsets[value], sizes, strides)
            except RuntimeError:  # the operator after this one changed the tensor's place
                return super().fake(meta, definition)
        return made.requires_grad_(requires_grad)

    def buffer(self, storage: int, device: torch.device) -> torch.Tensor:
        found = self.buffers.get(storage)
        if found is None:
            count = self.memories[2][storage]
            if isinstance(count, str):
                assert self.symbols is not None
                count = self.symbols.number(count)
            found = self.buffers[storage] = torch.empty(count, dtype=torch.uint8, device=device)
        return found

    @property
    def shape_env(self) -> Any:
        """Torch's environment of the symbols, with the guards of the trace; None if the trace was not symbolic."""
        if self.guards is None:
            return None
        symbols = self.symbols
        assert symbols is not None
        if not self.is_guarded:
            self.is_guarded = True
            assert symbols.fake_mode is not None  # makes the symbols
            for truth in self.guards:
                bool(symbols.texts.value(truth))  # torch's symbols note the question
        return symbols.shape_env

    def bindings(self, places: dict[str, tuple[int | None, int | None]]) -> dict[Any, tuple[Any, ...]]:
        """Paths in the result of a node by torch's symbols. A place is the number of the result, and a dimension."""
        from torch.fx.experimental.symbolic_shapes import CallMethodKey

        symbols = self.symbols
        assert symbols is not None

        def path(result: int | None, dim: int | None) -> tuple[Any, ...]:
            first = () if result is None else (SequenceKey(result),)
            return first if dim is None else (*first, CallMethodKey("size"), SequenceKey(dim))

        return {symbols.number(name).node.expr: path(*place) for name, place in places.items()}

    def note(self, location: int) -> Note:
        return self.notes[location] if location < len(self.notes) else Note()

    def annotate(self, meta: NodeMeta, location: int) -> None:
        if self.notes:
            meta.update(self.note(location).entries)

    def has_lines(self, location: int) -> bool:
        return bool(self.note(location).lines)

    def stack_trace(self, location: int) -> str:
        parts = []
        for file, line, function in self.note(location).lines:
            source = places.source_of(file, line)
            parts.append(f'  File "{file}", line {line}, in {function}\n' + (f"    {source}\n" if source else ""))
        return "".join(parts)

    def module_stack(self, location: int) -> dict[str, tuple[str, str]]:
        return self.note(location).modules
