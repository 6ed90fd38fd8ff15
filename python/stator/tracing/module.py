"""Makes a `torch.fx.GraphModule` of a traced graph."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo

from .. import _C
from ..fx_meta import GraphMeta, NodeMeta
from ..fx_module import NAME_KEY, ExportedGraphModule, find_operator
from ..fx_numbers import CHOOSE, FUNCTIONS, ITEM, NUMBER, SIZE, UNARY, chosen
from ..fx_states import StateNodes
from .signature import Signature

_PLAIN = (tuple, list, dict, type(None), int, float, complex, bool, str, torch.dtype, torch.device, torch.Tensor)
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class TracedGraphModule(ExportedGraphModule):
    """The module that `make_fx` makes. `shape_env` holds the symbols of a symbolic trace; None in other modes."""

    shape_env: Any = None


class _Output:
    """A leaf of the result that is a value of the graph."""

    def __init__(self, value: int) -> None:
        self.value = value


def tensors_of(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def build_module(trace: Any) -> TracedGraphModule:
    """The module of a `Trace`."""
    tracer, signature, in_spec = trace.tracer, trace.signature, trace.in_spec

    def mark(leaf: Any) -> Any:
        return _Output(tracer.output(leaf)) if isinstance(leaf, (torch.Tensor, *_NUMBERS)) else leaf

    marked = pytree.tree_map(mark, trace.result)
    leaves, out_spec = pytree.tree_flatten(marked)
    native = tracer.finish([leaf.value for leaf in leaves if isinstance(leaf, _Output)])
    builder = _Builder(native, tracer.attributes())
    builder.add_placeholders(trace.names, trace.given, placeholder_defaults(signature, in_spec))
    builder.add_nodes()
    is_flat = all(child.is_leaf() for child in in_spec.children())
    if is_flat and _is_plain(marked):
        builder.add_output(marked, signature.returns)
    else:
        builder.add_output(leaves, None)
        builder.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(signature.names, in_spec, out_spec))
    module = TracedGraphModule(builder.attributes, builder.graph, native.name)
    module.meta[NAME_KEY] = native.name
    return module


def placeholder_defaults(signature: Signature, in_spec: Any) -> list[Any]:
    return [
        default
        for default, child in zip(signature.defaults, in_spec.children(), strict=True)
        for _ in range(child.num_leaves)
    ]


def _is_plain(result: Any) -> bool:
    """Whether the code of a graph can write it."""
    if isinstance(result, dict):
        return type(result) is dict and all(isinstance(k, str) and _is_plain(v) for k, v in result.items())
    if isinstance(result, (tuple, list)):
        return type(result) in (tuple, list) and all(_is_plain(item) for item in result)
    return isinstance(result, (_Output, *_PLAIN))


class _Builder:
    def __init__(self, native: _C.Graph, attributes: list[torch.Tensor]) -> None:
        self.native = native
        self.graph = torch.fx.Graph()
        self.shared = GraphMeta(native)
        self.env: dict[int, torch.fx.Node] = {}
        self.attributes: dict[str, Any] = {}
        inputs = native.inputs
        self.inputs = inputs[: len(inputs) - len(attributes)]
        self.attribute_names: dict[int, str] = {}
        self.objects: dict[int, str] = {}
        self.index: int | None = None
        self.location = 0
        for value, tensor in zip(inputs[len(self.inputs) :], attributes, strict=True):
            prefix = "_param_constant" if isinstance(tensor, torch.nn.Parameter) else "_tensor_constant"
            self.attribute_names[value] = self.add_attribute(prefix, tensor)

    def add_attribute(self, prefix: str, value: Any) -> str:
        count = sum(1 for name in self.attributes if name.startswith(prefix))
        name = f"{prefix}{count}"
        self.attributes[name] = value
        return name

    def add_placeholders(self, names: list[str], given: list[Any], defaults: list[Any]) -> None:
        values = iter(self.inputs)
        for name, leaf, default in zip(names, given, defaults, strict=True):
            node = self.graph.placeholder(name, default_value=default)
            if isinstance(leaf, (torch.Tensor, torch.SymInt)):
                self.define(next(values), node)

    def add_nodes(self) -> None:
        nodes = self.native.nodes()
        switch = StateNodes(self.graph, self.native.states(), [node[5] for node in nodes])
        create = self.graph.create_node
        for index, (name, overload, args, kwargs, results, state, location) in enumerate(nodes):
            switch.before(index, state)
            self.index, self.location = index, location
            if name in (ITEM, SIZE, NUMBER, CHOOSE):
                self.env[results[0]] = self.add_number(name, args)
                continue
            target = find_operator(name, overload)
            operands = tuple([self.operand(arg) for arg in args])
            keywords = {key: self.operand(value) for key, value in kwargs.items()}
            node = create("call_function", target, operands, keywords, name=name.partition("::")[2])
            self.add_results(node, results)
        switch.finish()

    def add_number(self, name: str, args: Any) -> torch.fx.Node:
        if name == ITEM:
            target, operands = torch.ops.aten._local_scalar_dense.default, args
        elif name == SIZE:
            target, operands = torch.ops.aten.sym_size.int, args
        elif name == CHOOSE:
            target, operands = chosen, args
        else:
            # The node omits a last argument that equals the schema's default, 0.
            target = FUNCTIONS[args[0]]
            operands = args[1:2] if args[0] in UNARY else (args[1], args[2] if len(args) > 2 else 0)
        base = "_local_scalar_dense" if name == ITEM else None
        node = self.graph.create_node(
            "call_function", target, tuple([self.operand(arg) for arg in operands]), {}, name=base
        )
        self.describe(None, node)
        return node

    def add_results(self, node: torch.fx.Node, results: Any) -> None:
        if len(results) == 1:
            self.add_result(node, results[0])
            return
        self.describe(None, node)
        for position, result in enumerate(results):
            self.add_result(self.item_of(node, position), result)

    def add_result(self, node: torch.fx.Node, result: Any) -> None:
        if isinstance(result, list):
            self.describe(None, node)
            for position, value in enumerate(result):
                self.add_result(self.item_of(node, position), value)
        elif result is None:
            self.describe(None, node)
        else:
            self.define(result, node)

    def item_of(self, node: torch.fx.Node, index: int) -> torch.fx.Node:
        return self.graph.create_node("call_function", operator.getitem, (node, index), {}, name="getitem")

    def define(self, value: int, node: torch.fx.Node) -> None:
        # Also for an existing value: the operator returned the same tensor, and later uses depend on the operator.
        self.env[value] = node
        self.describe(value, node)

    def describe(self, value: int | None, node: torch.fx.Node) -> None:
        definition = None
        if value is not None:
            definition = (value,) if self.index is None else (value, self.index)
        node.meta = NodeMeta(self.shared, self.location, definition)

    def operand(self, arg: Any) -> Any:
        if isinstance(arg, _C.Value):
            node = self.env.get(arg)
            return self.get_attribute(arg) if node is None else node
        if isinstance(arg, list):
            return [self.operand(item) for item in arg]
        return arg

    def get_attribute(self, value: int) -> torch.fx.Node:
        """Each use of a tensor from outside has a node."""
        node = self.graph.get_attr(self.attribute_names[value])
        node.meta = NodeMeta(self.shared, self.location, (value,))
        return node

    def add_output(self, result: Any, annotation: Any) -> None:
        def replaced(leaf: Any) -> Any:
            return self.operand(_C.Value(leaf.value)) if isinstance(leaf, _Output) else leaf

        self.graph.output(pytree.tree_map(replaced, result), type_expr=annotation)
