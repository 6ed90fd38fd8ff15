"""The module that a graph becomes in `torch.fx`, and its pickled form: nodes as plain data."""

from __future__ import annotations

import pickle
import pkgutil
from typing import Any

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule

NAME_KEY = "stator_graph_name"
_KEPT_META = ("stack_trace", "nn_module_stack", "tensor_meta")


class ExportedGraphModule(_LazyGraphModule):  # type: ignore[misc]
    """A GraphModule whose code is generated when it is first called or shown, and whose pickles carry the graph
    itself: re-tracing the code, as plain ones do, would lose nodes that take no tensor, such as a switch of the
    grad mode."""

    @property
    def graph_name(self) -> str:
        return str(self.meta.get(NAME_KEY, type(self).__name__))

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


def _pack(graph: torch.fx.Graph) -> list[tuple[Any, ...]]:
    packed = []
    for node in graph.nodes:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: _NodeRef(n.name))
        meta = {key: node.meta[key] for key in _KEPT_META if key in node.meta}
        packed.append((node.op, node.name, _pack_target(node.target), _plain(args), _plain(kwargs), meta))
    return packed


class _NodeRef:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> Any:
        return _NodeRef, (self.name,)


def _plain(value: Any) -> Any:
    """The value with plain lists and dicts: fx keeps arguments in list and dict types of its own."""
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
        return find_operator(*rest)
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


def find_operator(name: str, overload: str) -> Any:
    namespace, _, base = name.partition("::")
    return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
