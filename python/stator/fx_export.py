"""From the native graph to `torch.fx`."""

from __future__ import annotations

import linecache
import operator
import pickle
import pkgutil
import re
from typing import Any

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.node import has_side_effect
from torch.fx.passes.shape_prop import TensorMetadata

from . import _C
from .control import Cond

_set_grad = torch._C._set_grad_enabled
_enter_autocast = torch.amp.autocast_mode._enter_autocast
_exit_autocast = torch.amp.autocast_mode._exit_autocast
_enter_inference = torch.autograd.grad_mode._enter_inference_mode
_exit_inference = torch.autograd.grad_mode._exit_inference_mode
for _function in (_set_grad, _enter_autocast, _exit_autocast, _enter_inference, _exit_inference):
    has_side_effect(_function)

_PYTHON_NODE = "stator::call"
_NAME_KEY = "stator_graph_name"


class ExportedGraphModule(_LazyGraphModule):  # type: ignore[misc]
    """A GraphModule whose code is generated when it is first called or shown, and whose pickles carry the graph
    itself: re-tracing the code, as plain ones do, would lose nodes that take no tensor, such as a switch of the
    grad mode."""

    @property
    def graph_name(self) -> str:
        return str(self.meta.get(_NAME_KEY, type(self).__name__))

    def _lazy_forward(self, *args: Any, **kwargs: Any) -> Any:
        # Not `self(...)`, which would run the module's hooks a second time.
        self.real_recompile()
        return type(self).forward(self, *args, **kwargs)

    forward = _lazy_forward

    def __reduce__(self) -> Any:
        state = {key: value for key, value in self.__dict__.items() if key not in ("_graph", "_code")}
        return _rebuild, (_pack(self.graph), state, type(self).__name__)

    def __reduce_package__(self, exporter: Any) -> Any:
        raise pickle.PicklingError("torch.package cannot hold this module; use pickle")


class _Called(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, called: Any) -> None:
        super().__init__()
        self.called = called

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result: tuple[torch.Tensor, ...] = self.called(*tensors)
        return result

    def extra_repr(self) -> str:
        return str(self.called)


def _branch(part: _C.Graph, places: Any, count: int) -> torch.fx.GraphModule:
    """A branch as a module that takes all operands of the choice."""
    graph = torch.fx.Graph()
    operands = [graph.placeholder(f"operand_{index}") for index in range(count)]
    graph.output(graph.call_module("part", tuple(operands[place] for place in places)))
    return torch.fx.GraphModule({"part": export_graph(part)}, graph)


def number_tensor(number: torch.Tensor | float) -> torch.Tensor:
    """A number of a graph as a tensor: torch gives Python the plain one."""
    return number if isinstance(number, torch.Tensor) else _C.number_tensor(number)


def plain_number(number: torch.Tensor | float) -> Any:
    return number.item() if isinstance(number, torch.Tensor) else number


def set_data(tensor: torch.Tensor, data: torch.Tensor) -> None:
    """`tensor.data = data`. Who traces a graph by way of a mode follows `set_`, and nothing else that does it."""
    if torch._C._len_torch_dispatch_stack() == 0:
        tensor.data = data
        return
    with torch.no_grad():
        tensor.set_(data)


has_side_effect(set_data)

# Operators that are exported as something else than themselves.
_FORMS = {torch.ops.aten.set_data.default: set_data}


def export_graph(graph: _C.Graph) -> ExportedGraphModule:
    return _Exporter(graph).run()


class _Exporter:
    def __init__(self, graph: _C.Graph) -> None:
        self.native = graph
        self.graph = torch.fx.Graph()
        self.names = graph.names()
        self.locations = graph.locations()
        self.traces: dict[int, str] = {}
        self.env: dict[int, torch.fx.Node] = {}
        self.plain: dict[torch.fx.Node, torch.fx.Node] = {}  # numbers, by the tensors that hold them
        self.boxed: dict[torch.fx.Node, torch.fx.Node] = {}  # tensors that stand for numbers, by the numbers
        self.constants: dict[str, Any] = {}
        self.constant_names: dict[int, str] = {}

    def run(self) -> ExportedGraphModule:
        native = self.native
        for value in native.inputs:
            name = re.sub(r"\W", "_", self.names[value])
            name = name if name.isidentifier() else f"_{name}"
            node = self.graph.placeholder(self.graph._graph_namespace.create_name(name, None))
            self.define(value, node)
        nodes = native.nodes()
        states = native.states()
        used = _used_values(nodes, native.outputs)
        switch = _StateNodes(self.graph, states, [node[5] for node in nodes])
        for index, (name, overload, args, kwargs, results, state, location) in enumerate(nodes):
            switch.before(index, state)
            if name == _PYTHON_NODE:
                call = self.call_cond if isinstance(args[1], Cond) else self.call_python
                self.define_results(call(args[0], args[1], location), results, used)
                continue
            target = _resolve(name, overload)
            declared = target._schema.arguments
            numbers = {argument.name for argument in declared if "Tensor" not in str(argument.type)}
            first = next((v for v in results if isinstance(v, _C.Value)), None) if len(results) == 1 else None
            node = self.graph.create_node(
                "call_function",
                _FORMS.get(target, target),
                tuple(self.operand(arg, declared[i].name in numbers) for i, arg in enumerate(args)),
                {key: self.operand(value, key in numbers) for key, value in kwargs.items()},
                name=None if first is None or first in self.env else re.sub(r"\W", "_", self.names[first]),
            )
            if location:
                node.meta["stack_trace"] = self.stack_trace(location)
            self.define_results(node, results, used)
        switch.finish()
        self.graph.output(tuple(self.operands(native.outputs)))
        module = ExportedGraphModule(self.constants, self.graph, "GraphModule")
        module.meta[_NAME_KEY] = native.name
        return module

    def call_python(self, tensors: Any, called: Any, location: int) -> torch.fx.Node:
        """Python objects among the nodes become modules of the graph's own."""
        attribute = f"python_{len(self.constants)}"
        self.constants[attribute] = _Called(called)
        node = self.graph.call_module(attribute, self.operands(tensors))
        if location:
            node.meta["stack_trace"] = self.stack_trace(location)
        return node

    def call_cond(self, tensors: Any, called: Cond, location: int) -> torch.fx.Node:
        """A choice is torch's own operator for it, over branches that are modules."""
        predicate, *operands = self.operands(tensors)
        branches = []
        for kind, part, places in (("true", called.yes, called.yes_places), ("false", called.no, called.no_places)):
            attribute = f"{kind}_graph_{len(self.constants)}"
            self.constants[attribute] = _branch(part, places, len(operands))
            branches.append(self.graph.get_attr(attribute))
        node = self.graph.call_function(torch.ops.higher_order.cond, (predicate, *branches, tuple(operands)))
        if location:
            node.meta["stack_trace"] = self.stack_trace(location)
        return node

    def define_results(self, node: torch.fx.Node, results: Any, used: set[int]) -> None:
        single = len(results) == 1
        for position, result in enumerate(results):
            values = result if isinstance(result, list) else [result]
            if not any(value is not None and value in used for value in values):
                if single and isinstance(result, _C.Value):
                    self.describe(result, node)
                continue
            whole = node if single else self.getitem(node, position)
            if isinstance(result, list):
                for item, value in enumerate(result):
                    if value is not None and value in used:
                        self.define(value, self.getitem(whole, item))
            else:
                self.define(result, whole)

    def getitem(self, node: torch.fx.Node, index: int) -> torch.fx.Node:
        item = self.graph.call_function(operator.getitem, (node, index))
        if "stack_trace" in node.meta:
            item.meta["stack_trace"] = node.meta["stack_trace"]
        return item

    def define(self, value: int, node: torch.fx.Node) -> None:
        # Also when it is known: the op gave that very tensor back, and later uses depend on the op.
        self.env[value] = node
        self.describe(value, node)

    def describe(self, value: int, node: torch.fx.Node) -> None:
        meta = self.native.meta(value)
        if meta is None:
            return
        dtype, sizes, strides, _device, requires_grad = meta
        shape = torch.Size(sizes)
        memory_format = torch.contiguous_format if _is_row_major(sizes, strides) else None
        node.meta["tensor_meta"] = TensorMetadata(shape, dtype, requires_grad, strides, memory_format, False, {})

    def operands(self, args: Any) -> tuple[Any, ...]:
        return tuple(self.operand(arg) for arg in args)

    def operand(self, arg: Any, is_number: bool = False) -> Any:
        if isinstance(arg, _C.Value):
            return self.number(arg) if is_number else self.tensor(arg)
        if isinstance(arg, list):
            return [self.operand(item, is_number) for item in arg]
        if isinstance(arg, torch.Tensor):
            return self.graph.get_attr(self.constant_name(arg))
        return arg

    def number(self, value: int) -> torch.fx.Node:
        """The plain number that a tensor without dimensions holds."""
        node = self.env[value]
        if _gives_number(node):
            return self.converted(node, plain_number, self.plain)
        return self.converted(node, torch.ops.aten.item.default, self.plain)

    def tensor(self, value: int) -> torch.fx.Node:
        node = self.env[value]
        return self.converted(node, number_tensor, self.boxed) if _gives_number(node) else node

    def converted(self, node: torch.fx.Node, function: Any, known: dict[torch.fx.Node, torch.fx.Node]) -> torch.fx.Node:
        if node not in known:
            known[node] = self.graph.call_function(function, (node,))
        return known[node]

    def constant_name(self, tensor: torch.Tensor) -> str:
        name = self.constant_names.get(id(tensor))
        if name is None:
            name = self.constant_names[id(tensor)] = f"_tensor_constant{len(self.constants)}"
            self.constants[name] = tensor
        return name

    def stack_trace(self, location: int) -> str:
        trace = self.traces.get(location)
        if trace is None:
            file, function, line, caller = self.locations[location]
            source = linecache.getline(file, line).strip()
            trace = f'  File "{file}", line {line}, in {function}\n' + (f"    {source}\n" if source else "")
            if caller:
                trace = self.stack_trace(caller) + trace
            self.traces[location] = trace
        return trace


def _used_values(nodes: Any, outputs: Any) -> set[int]:
    used = set(outputs)

    def visit(arg: Any) -> None:
        if isinstance(arg, _C.Value):
            used.add(arg)
        elif isinstance(arg, list):
            for item in arg:
                visit(item)

    for node in nodes:
        for arg in node[2]:
            visit(arg)
        for arg in node[3].values():
            visit(arg)
    return used


def _is_row_major(sizes: Any, strides: Any) -> bool:
    expected = 1
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= max(size, 1)
    return True


def _resolve(name: str, overload: str) -> Any:
    namespace, _, base = name.partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


def _gives_number(node: torch.fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.namespace == "stator"


class _StateNodes:
    """Writes the switches of grad mode, inference mode and autocast between nodes, as nodes that enter and exit.
    The module starts and ends in the graph's first state."""

    def __init__(self, graph: torch.fx.Graph, states: list[Any], sequence: list[int]) -> None:
        self.graph = graph
        self.states = states
        self.sequence = sequence
        self.current = 0
        self.grad = states[0][0] if states else True
        self.open: list[tuple[Any, torch.fx.Node, bool]] = []
        self.paused: tuple[Any, int] | None = None  # the state under a nested "off", and the depth to go back to
        # The last node under each autocast region: casts are shared up to there.
        self.region_ends = {states[s][4]: i for i, s in enumerate(sequence) if states[s][2]}

    def before(self, index: int, state: int) -> None:
        if state != self.current:
            self.switch(index, self.states[state])
            self.current = state

    def finish(self) -> None:
        if self.states:
            self.switch(len(self.sequence), self.states[0])

    def switch(self, index: int, new: Any) -> None:
        old = self.states[self.current]
        if new[1:] != old[1:]:
            if self.paused is not None and new[1:] == self.paused[0][1:]:
                self.close(self.paused[1])
                self.paused = None
            elif old[2] and not new[2] and new[1] == old[1] and self.region_ends.get(old[4], -1) >= index:
                self.paused = (old, len(self.open))
                for device, dtype in old[2]:
                    self.enter(_enter_autocast, _exit_autocast, device, dtype, False, old[3])
            else:
                self.close(0)
                self.paused = None
                self.enter_from_first(new)
        if self.grad != new[0]:
            self.graph.call_function(_set_grad, (new[0],))
            self.grad = new[0]

    def enter_from_first(self, new: Any) -> None:
        first = self.states[0]
        if new[1] != first[1]:
            self.enter(_enter_inference, _exit_inference, new[1])
            self.grad = not new[1]
        wanted, ambient = dict(new[2]), dict(first[2])
        for device, dtype in ambient.items():
            if device not in wanted:
                self.enter(_enter_autocast, _exit_autocast, device, dtype, False, first[3])
        for device, dtype in wanted.items():
            if ambient.get(device) != dtype or new[3:] != first[3:]:
                self.enter(_enter_autocast, _exit_autocast, device, dtype, True, new[3])

    def enter(self, enter: Any, leave: Any, *args: Any) -> None:
        self.open.append((leave, self.graph.call_function(enter, args), self.grad))

    def close(self, depth: int) -> None:
        while len(self.open) > depth:
            leave, node, grad = self.open.pop()
            self.graph.call_function(leave, (node,))
            if leave is _exit_inference:
                self.grad = grad


# ---- pickling: nodes as plain data


def _pack(graph: torch.fx.Graph) -> list[tuple[Any, ...]]:
    packed = []
    for node in graph.nodes:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: _NodeRef(n.name))
        meta = {key: node.meta[key] for key in ("stack_trace", "tensor_meta") if key in node.meta}
        packed.append((node.op, node.name, _pack_target(node.target), _plain(args), _plain(kwargs), meta))
    return packed


class _NodeRef:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return _NodeRef, (self.name,)


def _plain(value: Any) -> Any:
    """fx keeps arguments in its own list and dict types."""
    if isinstance(value, tuple):
        items = [_plain(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(_plain(value.start), _plain(value.stop), _plain(value.step))
    return value


def _pack_target(target: Any) -> Any:
    if isinstance(target, torch._ops.OpOverload):
        return ("op", target._schema.name, target._schema.overload_name)
    if isinstance(target, str):
        return ("name", target)
    return ("function", torch.fx.node._get_qualified_name(target))


def _unpack_target(packed: Any) -> Any:
    kind, *rest = packed
    if kind == "op":
        return _resolve(*rest)
    if kind == "name":
        return rest[0]
    name = rest[0] if "." in rest[0] else f"builtins.{rest[0]}"
    return pkgutil.resolve_name(name)


def _rebuild(packed: list[tuple[Any, ...]], state: dict[str, Any], class_name: str) -> ExportedGraphModule:
    graph = torch.fx.Graph()
    nodes: dict[str, torch.fx.Node] = {}

    def restore(value: Any) -> Any:
        if isinstance(value, _NodeRef):
            return nodes[value.name]
        if isinstance(value, tuple):
            items = [restore(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        if isinstance(value, list):
            return [restore(item) for item in value]
        if isinstance(value, dict):
            return {key: restore(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(restore(value.start), restore(value.stop), restore(value.step))
        return value

    for op, name, target, args, kwargs, meta in packed:
        node = graph.create_node(op, _unpack_target(target), restore(args), restore(kwargs), name=name)
        node.meta.update(meta)
        nodes[name] = node
    root = torch.nn.Module()
    root.__dict__.update(state)
    module = ExportedGraphModule(root, graph, class_name)
    module.__dict__.update(state)
    return module
