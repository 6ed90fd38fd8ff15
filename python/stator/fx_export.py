"""Converts native graphs to `torch.fx`."""

from __future__ import annotations

import importlib
import operator
import re
from typing import Any

import torch
from torch.fx.node import has_side_effect
from torch.utils.checkpoint import checkpoint

from . import _C
from .functions import Setting
from .fx_leaves import BEGIN, NewLeaves, new_leaf
from .fx_meta import GraphMeta, NodeMeta
from .fx_module import NAME_KEY, ExportedGraphModule, find_operator
from .fx_numbers import CHOOSE, FUNCTIONS, ITEM, NUMBER, SIZE, UNARY, chosen, number_tensor
from .fx_regions import Regions, invoke_subgraph
from .fx_size_asserts import SizeAsserts
from .fx_states import StateNodes, left_on_error

_PYTHON_NODE = "stator::call"
_CHECKPOINT = "stator::checkpoint"
_REENTRANT = "stator::reentrant_checkpoint"
_CHECKPOINT_OPTIONS = ("preserve_rng_state", "early_stop", "determinism_check")


class _Called(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, called: Any) -> None:
        super().__init__()
        self.called = called

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result: tuple[torch.Tensor, ...] = self.called(*tensors)
        return result

    def extra_repr(self) -> str:
        return str(self.called)

    _is_impure = True  # passes that remove unused nodes keep it


class _Checkpointed(torch.nn.Module):  # type: ignore[misc]
    """A part that torch runs again for a backward pass. Its first `count` tensors are arguments of the program's
    function, which closed over the others. Torch saves the arguments and checks them for changes. `first`: what a
    reentrant checkpoint runs at first, without gradients."""

    def __init__(
        self, part: torch.nn.Module, count: int, options: dict[str, Any], first: torch.nn.Module | None = None
    ) -> None:
        super().__init__()
        self.part, self.count, self.options, self.first = part, count, options, first

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        def run(*given: torch.Tensor) -> Any:
            part = self.part if self.first is None or torch.is_grad_enabled() else self.first
            with left_on_error():
                return part(*given, *tensors[self.count :])

        use_reentrant = self.first is not None
        made: tuple[torch.Tensor, ...] = checkpoint(
            run, *tensors[: self.count], use_reentrant=use_reentrant, **self.options
        )
        return made


def set_data(tensor: torch.Tensor, data: torch.Tensor) -> None:
    """`tensor.data = data`. Tracers that are dispatch modes can follow only `set_`."""
    if torch._C._len_torch_dispatch_stack() == 0:
        tensor.data = data
        return
    with torch.no_grad():
        tensor.set_(data)


has_side_effect(set_data)

# Operators that are exported as another operator.
_FORMS = {torch.ops.aten.set_data.default: set_data}


_ASSERT = torch.ops.aten._assert_async.default

# Operators with sub-graphs: the module and name of torch's own, and which of our arguments it takes.
_CONTROL = {
    "stator::cond": ("cond", "cond", (0, 1, 2, 3)),
    "stator::while_loop": ("while_loop", "while_loop", (0, 1, 2, 3)),
    "stator::map": ("map", "map_impl", (0, 1, 2)),
    "stator::scan": ("scan", "scan", (0, 1, 2, 3)),
}


def export_graph(graph: _C.Graph, asserts_sizes: bool = False, leaves: NewLeaves | None = None) -> ExportedGraphModule:
    """`asserts_sizes`: the module raises where torch's compilers would assume what does not hold (`SizeAsserts`).
    `leaves` gets the module's further inputs; None: it has none."""
    return _Exporter(graph, asserts_sizes=asserts_sizes, leaves=leaves).run()


class _Exporter:
    def __init__(
        self,
        graph: _C.Graph,
        single_output: bool = False,
        outer: GraphMeta | None = None,
        plain_floats: bool = False,
        asserts_sizes: bool = False,
        leaves: NewLeaves | None = None,
    ) -> None:
        self.native = graph
        self.number_types = ("int", "float") if plain_floats else ("int",)  # of inputs that are Python numbers
        self.single_output = single_output
        self.graph = torch.fx.Graph()
        self.names = graph.names()
        self.types = graph.types()
        self.shared = GraphMeta(graph, outer)
        self.index: int | None = None  # of the native node that is exported
        self.location = 0
        self.env: dict[int, torch.fx.Node] = {}
        self.numbers: set[torch.fx.Node] = set()  # nodes that compute Python numbers
        self.plain: dict[torch.fx.Node, torch.fx.Node] = {}  # numbers, by the tensors that hold them
        self.boxed: dict[torch.fx.Node, torch.fx.Node] = {}  # tensors that hold numbers, by the numbers
        self.constants: dict[str, Any] = {}
        self.constant_names: dict[int, str] = {}
        self.asserts = SizeAsserts.of(graph, self.graph) if asserts_sizes else None
        self.leaves = leaves
        self.leaf_of: dict[int, tuple[int, torch.fx.Node]] = {}  # by value: the leaf's place and placeholder

    def run(self) -> ExportedGraphModule:
        native = self.native
        for value in native.inputs:
            name = re.sub(r"\W", "_", self.names[value])
            name = name if name.isidentifier() else f"_{name}"
            node = self.graph.placeholder(self.graph._graph_namespace.create_name(name, None))
            self.define(value, node)
            if self.types[value] in self.number_types:
                self.numbers.add(node)
        nodes = native.nodes()
        if self.leaves is not None:
            self.add_leaves(self.leaves, nodes)
        states = native.states()
        used = _used_values(nodes, native.outputs)
        switch = StateNodes(self.graph, states, [node[5] for node in nodes])
        regions = Regions(native) if self.shared.outer is None else None
        end_of_region = 0
        for index, (name, overload, args, kwargs, results, state, location) in enumerate(nodes):
            if index < end_of_region:
                continue
            switch.before(index, state)
            if self.asserts is not None:
                self.asserts.write()
            self.index, self.location = index, location
            if regions is not None and index in regions.calls:
                end_of_region = index + self.call_region(regions, index)
                continue
            if name == _PYTHON_NODE:
                self.define_results(self.call_python(args[0], args[1]), results, used)
                continue
            if name in (_CHECKPOINT, _REENTRANT):
                call = self.call_checkpoint if name == _CHECKPOINT else self.call_reentrant
                self.define_results(call(*args), results, used)
                continue
            if name in _CONTROL:
                self.define_results(self.call_control(name, args), results, used)
                continue
            if name in (ITEM, SIZE, NUMBER, CHOOSE):
                self.env[results[0]] = self.call_number(name, args, results[0])
                continue
            if name == BEGIN and args[0] in self.leaf_of:
                leaf = self.leaf_of[args[0]][1]
                self.define_results(self.graph.call_function(new_leaf, (self.tensor(args[0]), leaf)), results, used)
                continue
            target = find_operator(name, overload)
            if target is torch.ops.aten.to.dtype and self.is_number(args[0]):
                self.define_results(self.tensor_of_number(args[0], args[1]), results, used)
                continue
            if target is _ASSERT:
                target, args = self.assertion(args[0])
            declared = target._schema.arguments
            numbers = {argument.name for argument in declared if "Tensor" not in str(argument.type)}
            if name == "aten::slice" and len(args) > 2 and args[2] is None:
                args = (*args[:2], 0, *args[3:])  # inductor takes no start that is None beside a symbolic end
            given = [declared[i].name for i, arg in enumerate(args) if self.is_number(arg)]
            if given and _C.takes_numbers(name, overload):
                numbers.update(given)
            first = next((v for v in results if isinstance(v, _C.Value)), None) if len(results) == 1 else None
            node = self.graph.create_node(
                "call_function",
                _FORMS.get(target, target),
                tuple(self.operand(arg, declared[i].name in numbers) for i, arg in enumerate(args)),
                {key: self.operand(value, key in numbers) for key, value in kwargs.items()},
                name=None if first is None or first in self.env else re.sub(r"\W", "_", self.names[first]),
            )
            self.define_results(node, results, used)
        switch.finish()
        if self.asserts is not None:
            self.asserts.write()
        outputs = tuple(self.operand(value, self.is_number(value)) for value in native.outputs)
        self.graph.output(outputs[0] if self.single_output else outputs)
        module = ExportedGraphModule(self.constants, self.graph, "GraphModule")
        module.meta[NAME_KEY] = native.name
        return module

    def add_leaves(self, leaves: NewLeaves, nodes: Any) -> None:
        for index, (name, _overload, args, *_) in enumerate(nodes):
            if name != BEGIN:
                continue
            meta = self.native.meta(args[0], index)
            assert meta is not None
            node = self.graph.placeholder(self.graph._graph_namespace.create_name("leaf", None))
            node.meta = NodeMeta(self.shared, 0, (args[0], index))
            self.leaf_of[args[0]] = len(leaves.metas), node
            leaves.metas.append(meta)
        leaves.outputs += [
            (place, self.leaf_of[value][0]) for place, value in enumerate(self.native.outputs) if value in self.leaf_of
        ]

    def call_region(self, regions: Regions, index: int) -> int:
        """The number of nodes that the call of a sub-graph stands for."""
        count, body, operands, results = regions.calls[index]
        identifier = regions.identifier(body)
        if identifier not in self.constants:
            self.constants[identifier] = _Exporter(body, outer=self.shared).run()
        given = (self.graph.get_attr(identifier), identifier, *self.operands(operands))
        called = self.graph.call_function(invoke_subgraph, given)
        self.describe(None, called)
        for position, (value, self.index) in enumerate(results):
            self.define(value, self.getitem(called, position))
        return count

    def call_number(self, name: str, args: Any, result: int) -> torch.fx.Node:
        """A number that depends on data: a Python number in the module."""
        if name == ITEM:
            node = self.number(args[0])
        elif name == SIZE:
            node = self.graph.call_function(torch.ops.aten.sym_size.int, (self.tensor(args[0]), args[1]))
        elif name == CHOOSE:
            node = self.graph.call_function(chosen, tuple(self.operand(arg, True) for arg in args))
        else:
            # The node omits a last argument that equals the schema's default, 0.
            operands = args[1:2] if args[0] in UNARY else (args[1], args[2] if len(args) > 2 else 0)
            node = self.graph.call_function(FUNCTIONS[args[0]], tuple(self.operand(arg, True) for arg in operands))
        self.describe(result, node)
        self.numbers.add(node)
        if self.asserts is not None:
            self.asserts.know(self.native.number(result), node)
        return node

    def is_number(self, arg: Any) -> bool:
        return isinstance(arg, _C.Value) and self.env[arg] in self.numbers

    def is_number_of(self, arg: Any, types: tuple[str, ...]) -> bool:
        return self.is_number(arg) and self.types[arg] in types

    def assertion(self, condition: int) -> tuple[Any, tuple[Any, ...]]:
        """An operator that raises unless a condition on data holds, in a form that passes of torch.fx never remove."""
        message = f"a condition on data in {self.native.name} does not hold"
        if self.is_number(condition):
            return torch.ops.aten._assert_scalar.default, (condition, message)
        return torch.ops.aten._assert_async.msg, (condition, message)

    def call_python(self, tensors: Any, called: Any) -> torch.fx.Node:
        """A Python object that a node calls becomes a submodule; a change of a setting becomes a call of its setter."""
        if isinstance(called, Setting):
            has_side_effect(called.setter)
            return self.graph.call_function(called.setter, (called.value,))
        attribute = f"python_{len(self.constants)}"
        self.constants[attribute] = _Called(called)
        return self.graph.call_module(attribute, self.operands(tensors))

    def call_checkpoint(self, part: _C.Graph, arguments: Any, operands: Any, *options: Any) -> torch.fx.Node:
        given = {name: value for name, value in zip(_CHECKPOINT_OPTIONS, options, strict=True) if value is not None}
        module = _Checkpointed(self.checkpointed(part), len(arguments), given)
        return self.add_checkpoint(module, arguments, operands)

    def call_reentrant(
        self, first: _C.Graph, again: _C.Graph, arguments: Any, operands: Any, preserve_rng_state: bool
    ) -> torch.fx.Node:
        parts = [self.checkpointed(part) for part in (again, first)]
        options = {"preserve_rng_state": preserve_rng_state}
        return self.add_checkpoint(_Checkpointed(parts[0], len(arguments), options, parts[1]), arguments, operands)

    def add_checkpoint(self, module: _Checkpointed, arguments: Any, operands: Any) -> torch.fx.Node:
        attribute = f"checkpoint_{len(self.constants)}"
        self.constants[attribute] = module
        given = [self.operand(arg, self.is_number_of(arg, ("int", "float"))) for arg in (*arguments, *operands)]
        return self.graph.call_module(attribute, tuple(given))

    def checkpointed(self, part: _C.Graph) -> ExportedGraphModule:
        return _Exporter(part, outer=self.shared, plain_floats=True).run()

    def call_control(self, name: str, args: Any) -> torch.fx.Node:
        """A node with sub-graphs becomes torch's own operator over submodules."""
        module, operator_name, order = _CONTROL[name]
        importlib.import_module(f"torch._higher_order_ops.{module}")
        target = getattr(torch.ops.higher_order, operator_name)
        given = [self.control_argument(arg, name == "stator::while_loop" and i == 0) for i, arg in enumerate(args)]
        return self.graph.call_function(target, tuple(given[i] for i in order))

    def control_argument(self, arg: Any, is_test: bool) -> Any:
        if not isinstance(arg, _C.Graph):
            # Torch's operators with sub-graphs take ints as operands, but no floats: those stay tensors.
            each = arg if isinstance(arg, list) else [arg]
            given = tuple(self.operand(item, self.is_number_of(item, ("int",))) for item in each)
            return given if isinstance(arg, list) else given[0]
        attribute = f"sub_graph_{len(self.constants)}"
        # The condition of a loop returns one tensor, not a tuple.
        self.constants[attribute] = _Exporter(arg, is_test, self.shared).run()
        return self.graph.get_attr(attribute)

    def define_results(self, node: torch.fx.Node, results: Any, used: set[int]) -> None:
        single = len(results) == 1
        whole_result = results[0] if single and isinstance(results[0], _C.Value) else None
        if whole_result is None or whole_result not in used:
            self.describe(whole_result, node)
        for position, result in enumerate(results):
            values = result if isinstance(result, list) else [result]
            if not any(value is not None and value in used for value in values):
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
        self.describe(None, item)
        return item

    def define(self, value: int, node: torch.fx.Node) -> None:
        # Also for an existing value: the operator returned the same tensor, and later uses depend on the operator.
        self.env[value] = node
        self.describe(value, node)
        if self.asserts is None:
            return
        if self.types[value] == "int":
            self.asserts.know(self.native.number(value), node)
        elif self.types[value] == "tensor":
            definition = (value,) if self.index is None else (value, self.index)
            self.asserts.see(self.native.meta(*definition), node)

    def describe(self, value: int | None, node: torch.fx.Node) -> None:
        definition = None
        if value is not None:
            definition = (value,) if self.index is None else (value, self.index)
        number = None
        if value is not None and self.types[value] in ("int", "float", "bool"):
            number = self.native.number(value)
        node.meta = NodeMeta(self.shared, self.location, definition, number)

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
        if node in self.numbers:
            return node
        return self.converted(node, torch.ops.aten.item.default, self.plain)

    def tensor(self, value: int) -> torch.fx.Node:
        node = self.env[value]
        return self.converted(node, number_tensor, self.boxed) if node in self.numbers else node

    def tensor_of_number(self, value: int, dtype: torch.dtype) -> torch.fx.Node:
        """A tensor that holds a number. A conversion of the tensor that stands for the number may return that tensor,
        which torch makes a Python number again."""
        options = {"dtype": dtype, "device": torch.device("cpu")}
        return self.graph.call_function(torch.ops.aten.scalar_tensor.default, (self.number(value),), options)

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
