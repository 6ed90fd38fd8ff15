"""Makes a `torch.fx.GraphModule` of a traced graph."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._library import opaque_object
from torch._library.opaque_object import is_opaque_type, is_opaque_value_type
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo

from .. import _C
from ..fx_meta import NodeMeta
from ..fx_module import NAME_KEY, ExportedGraphModule, find_operator
from ..fx_nodes import call_maker, set_meta
from ..fx_numbers import CHOOSE, FUNCTIONS, ITEM, NUMBER, SIZE, UNARY, chosen
from ..fx_states import StateNodes
from .casts import inner_nodes, mark_cast
from .current import Recording
from .metadata import TraceMeta
from .operators.parts import Part, is_lifted, lifted_key
from .operators.row import Lifted, NumberOperand, Operand
from .signature import EMPTY, Signature
from .subclasses import Wrapper, holds_fakes, is_subclass, wrapped

CALL = "stator::traced_call"

_PLAIN = (tuple, list, dict, type(None), int, float, complex, bool, str, torch.dtype, torch.device, torch.Tensor)
_LITERALS = frozenset((int, float, complex, bool, str, type(None), torch.dtype, torch.device, torch.Tensor))
_GEOMETRY = {
    "stator::stride": torch.ops.aten.sym_stride.int,
    "stator::storage_offset": torch.ops.aten.sym_storage_offset.default,
}
_META = "_stator_trace_meta"
_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
# Releases of torch before these names have opaque types that are never hoisted and have no recipe.
_should_hoist = getattr(opaque_object, "should_hoist", lambda kind: False)
_reconstruct_fn = getattr(opaque_object, "get_reconstruct_fn", lambda kind: None)
TRACED = (torch.Tensor, *_NUMBERS)  # leaves of a result that may be values of the graph


class TracedGraphModule(ExportedGraphModule):
    """The module that `make_fx` makes."""

    @property
    def shape_env(self) -> Any:
        """The symbols of a symbolic trace, with what it relies on as guards; None in other modes."""
        shared = self.__dict__.get(_META)
        return self.__dict__.get("_shape_env") if shared is None else shared.shape_env

    @shape_env.setter
    def shape_env(self, env: Any) -> None:  # GraphModule sets it
        self.__dict__["_shape_env"] = env

    def __reduce__(self) -> Any:
        make, (packed, state, name) = super().__reduce__()
        return make, (packed, {key: value for key, value in state.items() if key != _META}, name)


class _Wrapped:
    """A leaf of the result that is a tensor subclass which the function made."""

    def __init__(self, wrapper: Wrapper, parts: Any) -> None:
        self.wrapper = wrapper
        self.parts = parts


def _values(marked: Any) -> list[int]:
    found = []
    for leaf in pytree.tree_leaves(marked):
        found += _values(leaf.parts) if isinstance(leaf, _Wrapped) else []
        found += [leaf.value] if isinstance(leaf, _Output) else []
    return found


class _Output:
    """A leaf of the result that is a value of the graph."""

    def __init__(self, value: int) -> None:
        self.value = value


def keep_operand_values(node: torch.fx.Node) -> None:
    """The values of the operands, for compilers that must give the operator these strides: `eager_input_vals`."""

    def value(arg: Any) -> Any:
        found = arg.meta.get("val") if isinstance(arg, torch.fx.Node) else None
        return found if isinstance(found, torch.Tensor) else None

    node.meta.add_lazy("eager_input_vals", lambda: pytree.tree_map(value, (tuple(node.args), dict(node.kwargs))))


def tensors_of(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def build_module(trace: Any, is_partial: bool = False) -> TracedGraphModule:
    """The module of a `Trace`; with no result if the trace failed."""
    with torch._C._DisableTorchDispatch():  # modes of the program do not see it
        return _build_module(trace, is_partial)


def _build_module(trace: Any, is_partial: bool) -> TracedGraphModule:
    tracer, signature, in_spec = trace.tracer, trace.signature, trace.in_spec

    def mark(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and is_subclass(leaf) and not tracer.find_copy(leaf) and holds_fakes(leaf):
            wrapper = Wrapper(leaf)
            return _Wrapped(wrapper, pytree.tree_map(mark, wrapper.parts(leaf)))
        return _Output(tracer.output(leaf)) if isinstance(leaf, TRACED) else leaf

    marked = None if is_partial else pytree.tree_map(mark, trace.result)
    leaves, out_spec = pytree.tree_flatten(marked)
    native = tracer.finish(_values(leaves))
    if trace.recording.states is not None and not is_partial:
        trace.recording.states.check(native)
    is_symbolic = trace.recording.options.tracing_mode == "symbolic"
    shared = TraceMeta(native, trace, tracer.guards() if is_symbolic else None)
    builder = _Builder(native, trace.recording, shared)
    builder.given = {
        object_key(leaf): name for leaf, name in zip(trace.given, trace.names, strict=True) if is_object(leaf)
    }
    paths = trace.modules.paths if trace.modules is not None else {}
    builder.add_placeholders(trace.names, trace.given, placeholder_defaults(signature, in_spec), paths)
    builder.add_nodes()
    is_flat = all(child.is_leaf() for child in in_spec.children())
    if is_flat and _is_plain(marked):
        builder.add_output(marked, signature.returns)
    else:
        builder.add_output(leaves, None)
        builder.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(signature.names, in_spec, out_spec))
    module = TracedGraphModule(builder.attributes, builder.graph, native.name)
    module.meta[NAME_KEY] = native.name
    module.__dict__[_META] = shared
    note_decompositions(module, trace.recording)
    return module


def note_decompositions(module: torch.fx.GraphModule, recording: Recording) -> None:
    """How often decompositions were used, by operator."""
    native, python = recording.tracer.decompositions()
    if native or python:
        module.meta["decompositions"] = {"native": native, "python": python}


def build_part(part: Part) -> TracedGraphModule:
    """The module of a sub-graph. Its parameters: the operands, then the outer values that its node passes in."""
    if part.module is not None:
        return part.module
    tracer = part.recording.tracer
    native = tracer.finish([tracer.output(tensor) for tensor in part.tensors])
    builder = _Builder(native, part.recording, TraceMeta(native))
    names = [f"arg{i}_1" for i in range(len(part.operands) + len(part.lifted))]
    builder.add_placeholders(names[: len(part.operands)], part.operands, [EMPTY] * len(part.operands))
    for name, value in zip(names[len(part.operands) :], part.lifted, strict=True):
        builder.add_lifted(name, value)
    builder.add_nodes()
    builder.add_output(part.returned([_Output(value) for value in native.outputs]), None)
    part.module = TracedGraphModule(builder.attributes, builder.graph, part.name)
    part.module.__dict__[_META] = builder.shared
    note_decompositions(part.module, part.recording)
    return part.module


def module_of(native: _C.Graph, trace: Any) -> TracedGraphModule:
    """A graph that a pass made from the graph of a trace, as a module that returns a list."""
    builder = _Builder(native, trace.recording, TraceMeta(native))
    builder.add_placeholders(trace.names, trace.given, [EMPTY] * len(trace.names))
    builder.add_nodes()
    builder.add_output([_Output(value) for value in native.outputs], None)
    return TracedGraphModule(builder.attributes, builder.graph, native.name)


def placeholder_defaults(signature: Signature, in_spec: Any) -> list[Any]:
    return [
        default
        for default, child in zip(signature.defaults, in_spec.children(), strict=True)
        for _ in range(child.num_leaves)
    ]


def object_key(value: Any) -> Any:
    """A key that is equal for all Python objects of one C++ object."""
    if isinstance(value, torch.Generator):
        return "generator", value._cdata
    return ("object", hash(value)) if isinstance(value, torch.ScriptObject) else ("opaque", id(value))


def is_object(value: Any) -> bool:
    """Whether operators take it as an object that nodes refer to."""
    if isinstance(value, (torch.Generator, torch.ScriptObject)):
        return True
    return is_opaque_type(type(value)) and (not is_opaque_value_type(type(value)) or _should_hoist(type(value)))


def _is_plain(result: Any) -> bool:
    """Whether the source text that torch.fx makes of a graph can contain it."""
    if isinstance(result, dict):
        return type(result) is dict and all(isinstance(k, str) and _is_plain(v) for k, v in result.items())
    if isinstance(result, (tuple, list)):
        return type(result) in (tuple, list) and all(_is_plain(item) for item in result)
    return isinstance(result, (_Output, _Wrapped, *_PLAIN))


class _Builder:
    def __init__(self, native: _C.Graph, recording: Recording, shared: TraceMeta) -> None:
        attributes = recording.tracer.attributes()
        self.native = native
        self.calls = recording.calls
        self.kept = recording.kept
        self.is_real = recording.options.tracing_mode == "real"
        self.marks_casts = recording.marks_casts
        self.unmarked = inner_nodes(recording.decomposed)
        self.graph = torch.fx.Graph()
        self.make_call = call_maker(self.graph)
        # By operator: the overload, the base of its nodes' names, whether it needs exact strides.
        self.targets: dict[tuple[str, str], tuple[Any, str, bool]] = {}
        self.shared = shared
        self.unbound = {name for name, _, hint, *_ in native.symbol_table() if hint is None}
        self.given: dict[Any, str] = {}  # by `object_key`: the placeholder of an argument that is an object
        self.lifted: dict[Any, int] = {}
        # For a tensor of a module argument, by value: the placeholder, and the path of the attribute.
        self.read_off: dict[int, tuple[torch.fx.Node, str]] = {}
        self.env: dict[int, torch.fx.Node] = {}
        self.attributes: dict[str, Any] = {}
        inputs = native.inputs
        self.inputs = inputs[: len(inputs) - len(attributes)]
        self.attribute_names: dict[int, str] = {}
        self.objects: dict[Any, str] = {}
        self.derived: dict[Any, torch.fx.Node] = {}  # objects that registered functions made of others
        self.index: int | None = None
        self.location = 0
        for value, tensor in zip(inputs[len(self.inputs) :], attributes, strict=True):
            if is_lifted(tensor):
                self.lifted[lifted_key(tensor)] = value
                continue
            prefix = "_param_constant" if isinstance(tensor, torch.nn.Parameter) else "_tensor_constant"
            self.attribute_names[value] = self.add_attribute(prefix, tensor)

    def add_attribute(self, prefix: str, value: Any) -> str:
        count = sum(1 for name in self.attributes if name.startswith(prefix))
        name = f"{prefix}{count}"
        self.attributes[name] = value
        return name

    def add_placeholders(
        self, names: list[str], given: list[Any], defaults: list[Any], paths: dict[str, list[str]] | None = None
    ) -> None:
        """`paths`: for each name of a placeholder, the attribute paths of the tensors that are read from it."""
        values = iter(self.inputs)
        for name, leaf, default in zip(names, given, defaults, strict=True):
            node = self.graph.placeholder(name, default_value=default)
            for path in (paths or {}).get(name, ()):
                self.read_off[next(values)] = (node, path)
            if isinstance(leaf, (torch.Tensor, torch.SymInt)):
                self.define(next(values), node)

    def add_lifted(self, name: str, value: Any) -> None:
        node = self.graph.placeholder(name)
        if (known := self.lifted.get(lifted_key(value))) is not None:
            self.define(known, node)

    def add_nodes(self) -> None:
        nodes = self.native.nodes()
        switch = StateNodes(self.graph, self.native.states(), [node[5] for node in nodes])
        operand = self.operand
        for index, (name, overload, args, kwargs, results, state, location) in enumerate(nodes):
            switch.before(index, state)
            self.index, self.location = index, location
            if name in (ITEM, SIZE, NUMBER, CHOOSE, *_GEOMETRY):
                self.env[results[0]] = self.add_number(name, args, results[0])
                continue
            if name == CALL:
                self.add_call(args, results)
                continue
            target, base, keeps_operands = self.targets.get((name, overload)) or self.find_target(name, overload)
            keywords = {key: operand(value) for key, value in kwargs.items()} if kwargs else kwargs
            node = self.make_call(target, tuple([operand(arg) for arg in args]), keywords, base)
            self.add_results(node, results)
            if self.marks_casts and index not in self.unmarked:
                mark_cast(node, self.native)
            if keeps_operands:
                keep_operand_values(node)
        switch.finish()

    def find_target(self, name: str, overload: str) -> tuple[Any, str, bool]:
        target = find_operator(name, overload)
        row = target, name.partition("::")[2], torch.Tag.needs_exact_strides in target.tags
        self.targets[name, overload] = row
        return row

    def add_call(self, args: Any, results: Any) -> None:
        """A node with sub-graphs."""
        function, tensors, numbers = args
        call = self.calls[function]
        operands = [self.operand(tensor) for tensor in tensors]
        count = len(operands) - sum(1 for value in call.lifted if isinstance(value, torch.Tensor))
        given_numbers = [self.operand(number) for number in numbers]
        lifted_tensors, lifted_numbers = iter(operands[count:]), iter(given_numbers[len(call.numbers) :])
        lifted = [next(lifted_tensors if isinstance(value, torch.Tensor) else lifted_numbers) for value in call.lifted]
        position = self.number_of_parts(call.parts[0].name) if call.parts else 0
        parts = {id(part): self.add_part(part, position) for part in call.parts}

        def replaced(arg: Any) -> Any:
            if isinstance(arg, (tuple, list)):
                items = [items for item in arg for items in (lifted if isinstance(item, Lifted) else [replaced(item)])]
                return type(arg)(items)
            if isinstance(arg, dict):
                return {key: replaced(item) for key, item in arg.items()}
            if isinstance(arg, Operand):
                return operands[arg.index]
            if isinstance(arg, NumberOperand):
                return given_numbers[arg.index]
            return parts.get(id(arg), arg)

        node = self.make_call(call.op, replaced(call.args), replaced(call.kwargs), call.op.name())
        self.describe(None, node)
        if call.keeps_operands:
            keep_operand_values(node)
        self.add_call_results(node, call.result, results[0])

    def add_call_results(self, node: torch.fx.Node, result: Any, values: Any) -> None:
        """`result`: the numbers of the values, in the places where the node returns them."""
        if isinstance(result, int):
            self.add_result(node, values[result])
        elif isinstance(result, (tuple, list)):
            for index, item in enumerate(result):
                if item is not None:
                    inner = self.item_of(node, index)
                    self.describe(None, inner)
                    self.add_call_results(inner, item, values)

    def number_of_parts(self, name: str) -> int:
        return sum(1 for known in self.attributes if known.rstrip("0123456789") == f"{name}_")

    def add_part(self, part: Part, position: int) -> torch.fx.Node:
        module = build_part(part)
        self.shared.take_part(module.__dict__[_META])
        name = f"{part.name}_{position}"
        self.attributes[name] = module
        return self.graph.get_attr(name)

    def add_number(self, name: str, args: Any, result: int) -> torch.fx.Node:
        if name == ITEM:
            target, operands = torch.ops.aten._local_scalar_dense.default, args
        elif name == SIZE:
            target, operands = torch.ops.aten.sym_size.int, args
        elif name in _GEOMETRY:
            target, operands = _GEOMETRY[name], args
        elif name == CHOOSE:
            target, operands = chosen, args
        else:
            # The node omits a last argument that equals the schema's default, 0.
            target = FUNCTIONS[args[0]]
            operands = args[1:2] if args[0] in UNARY else (args[1], args[2] if len(args) > 2 else 0)
        base = "_local_scalar_dense" if name == ITEM else None
        node = self.make_call(target, tuple([self.operand(arg) for arg in operands]), {}, base)
        self.describe_number(result, node)
        return node

    def describe_number(self, value: int, node: torch.fx.Node) -> None:
        text = None if self.is_real else self.native.number(value)
        node.meta = NodeMeta(self.shared, self.location, None, text)
        self.shared.annotate(node.meta, self.location)
        if text in self.unbound:
            self.unbound.discard(text)
            node.meta.add_lazy("unbacked_bindings", lambda: self.shared.bindings({text: (None, None)}))

    def add_results(self, node: torch.fx.Node, results: Any) -> None:
        if len(results) == 1:
            self.add_result(node, results[0])
            self.bind(node, results[0], None)
            return
        self.describe(None, node)
        items = []
        for position, result in enumerate(results):
            items.append(self.item_of(node, position))
            self.add_result(items[-1], result)
            self.bind(node, result, position)
        node.meta.add_lazy("val", lambda: tuple(item.meta.get("val") for item in items))

    def bind(self, node: torch.fx.Node, result: Any, position: int | None) -> None:
        """Notes which sizes of this result are unbacked symbols that the node introduces (`unbacked_bindings`)."""
        if not self.unbound or self.index is None or not isinstance(result, int):
            return
        meta = self.native.meta(result, self.index)
        found: dict[str, tuple[int | None, int | None]] = {
            size: (position, dim) for dim, size in enumerate(meta[1] if meta else ()) if size in self.unbound
        }
        if not found:
            return
        self.unbound -= found.keys()
        known = node.meta.lazy.get("unbacked_bindings")
        node.meta.add_lazy("unbacked_bindings", lambda: (known() if known else {}) | self.shared.bindings(found))

    def add_result(self, node: torch.fx.Node, result: Any) -> None:
        if isinstance(result, list):
            self.describe(None, node)
            items = []
            for position, value in enumerate(result):
                items.append(self.item_of(node, position))
                self.add_result(items[-1], value)
            node.meta.add_lazy("val", lambda: [item.meta.get("val") for item in items])
        elif result is None:
            self.describe(None, node)
        else:
            self.define(result, node)

    def item_of(self, node: torch.fx.Node, index: int) -> torch.fx.Node:
        return self.make_call(operator.getitem, (node, index), {}, "getitem")

    def define(self, value: int, node: torch.fx.Node) -> None:
        # Also for an existing value: the operator returned the same tensor, and later uses depend on the operator.
        if not self.kept or value not in self.env or self.index is None or not self.is_kept(self.index):
            self.env[value] = node
        if self.index is None and not self.native.has_meta(value):
            self.describe_number(value, node)
        else:
            self.describe(value, node)

    def is_kept(self, index: int) -> bool:
        return any(index in kept for kept in self.kept)

    def describe(self, value: int | None, node: torch.fx.Node) -> None:
        definition = None
        if value is not None:
            definition = (value,) if self.index is None else (value, self.index)
        meta = NodeMeta(self.shared, self.location, definition)
        set_meta(node, "meta", meta)
        self.shared.annotate(meta, self.location)

    def operand(self, arg: Any) -> Any:
        kind = type(arg)
        if kind is _C.Value:
            node = self.env.get(arg)
            if node is None and arg in self.read_off:
                return self.read(arg)
            return self.get_attribute(arg) if node is None else node
        if kind in _LITERALS:
            return arg
        if isinstance(arg, list):
            return [self.operand(item) for item in arg]
        return self.object(arg) if is_object(arg) else arg

    def read(self, value: int) -> torch.fx.Node:
        node, path = self.read_off[value]
        for name in path.split("."):
            node = self.graph.call_function(getattr, (node, name))
            self.describe(None, node)
        node.meta = NodeMeta(self.shared, self.location, (value,))
        self.env[value] = node
        return node

    def object(self, value: Any) -> torch.fx.Node:
        """An object that an operator takes: an argument of the function, or an attribute."""
        key = object_key(value)
        if (node := self.known_object(key) or self.derived_object(key, value)) is not None:
            return node
        if key not in self.objects:
            prefix = "_torchbind_obj" if isinstance(value, torch.ScriptObject) else "_opaque_obj"
            self.objects[key] = self.add_attribute(prefix, value)
        return self.graph.get_attr(self.objects[key])

    def known_object(self, key: Any) -> torch.fx.Node | None:
        if key in self.derived:
            return self.derived[key]
        placeholder = self.given.get(key)
        return next((node for node in self.graph.nodes if node.name == placeholder), None) if placeholder else None

    def derived_object(self, key: Any, value: Any) -> torch.fx.Node | None:
        """By the function that was registered with the object's type: nodes that make it of an argument."""
        make = None if isinstance(value, (torch.Generator, torch.ScriptObject)) else _reconstruct_fn(type(value))
        if make is None:
            return None
        tracer = torch.fx.proxy.GraphAppendingTracer(self.graph)

        def proxy_of(other: Any) -> Any:
            node = self.known_object(object_key(other))
            return None if node is None else torch.fx.Proxy(node, tracer)

        made = make(value, proxy_of, tracer)
        if not isinstance(made, torch.fx.Proxy):
            return None
        made.node.meta["val"] = value
        self.derived[key] = made.node
        return self.derived[key]

    def get_attribute(self, value: int) -> torch.fx.Node:
        """A new `get_attr` node: each use of a tensor from outside has one of its own."""
        node = self.graph.get_attr(self.attribute_names[value])
        node.meta = NodeMeta(self.shared, self.location, (value,))
        return node

    def add_output(self, result: Any, annotation: Any) -> None:
        def replaced(leaf: Any) -> Any:
            if isinstance(leaf, _Wrapped):
                attribute = self.graph.get_attr(self.add_attribute("_subclass", leaf.wrapper))
                parts = pytree.tree_map(replaced, leaf.parts)
                parts[-2:] = map(tuple, parts[-2:])
                return self.graph.call_function(wrapped, (attribute, *parts))
            return self.operand(_C.Value(leaf.value)) if isinstance(leaf, _Output) else leaf

        self.graph.output(pytree.tree_map(replaced, result), type_expr=annotation)
