"""Graphs of a program as programs of their own: collected with their inputs, and made smaller."""

from __future__ import annotations

import copy
import operator
import re
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ..testing import clone_input

_FRAME = re.compile(r'File "(.+?)", line (\d+), in (\S+)')


@dataclass
class GraphCall:
    """A graph, and the inputs of one call of it."""

    module: Any  # a GraphModule, or a module with the same code
    inputs: list[Any]

    def copied_inputs(self) -> list[Any]:
        return [clone_input(item) if isinstance(item, torch.Tensor) else item for item in self.inputs]

    @property
    def operators(self) -> list[Node]:
        return [node for node in self.module.graph.nodes if _is_operator(node)]


class Collector:
    """A backend that runs graphs node by node, and keeps the inputs of the first call of each."""

    def __init__(self) -> None:
        self.calls: list[GraphCall] = []

    def __call__(self, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        kept: list[GraphCall] = []

        def run(*args: Any) -> Any:
            if not kept:
                call = GraphCall(gm, list(args))
                kept.append(GraphCall(gm, call.copied_inputs()))
                self.calls += kept
            return gm(*args)

        return run


def _is_operator(node: Node) -> bool:
    return node.op.startswith("call_") and node.target is not operator.getitem and not is_setting(node)


def is_setting(node: Node) -> bool:
    """Whether a node only changes a mode, such as grad mode, and makes no value."""
    return node.op == "call_function" and isinstance(node.target, types.BuiltinFunctionType) and not node.users


def place_of(node: Node) -> tuple[str, int, str] | None:
    """The program's own line that called a node's operator."""
    from .. import places

    frames = [(file, int(line), name) for file, line, name in _FRAME.findall(node.meta.get("stack_trace") or "")]
    return frames[places.user_index(frames)] if frames else None


def is_text(module: GraphModule) -> bool:
    """Whether a script can hold the graph: it calls operators and functions that are imported by name."""
    if list(module.children()):
        return False
    return all(
        isinstance(node.target, (torch._ops.OpOverload, types.BuiltinFunctionType))
        for node in module.graph.nodes
        if node.op == "call_function"
    ) and not any(node.op in ("call_method", "call_module") for node in module.graph.nodes)


def values_of(call: GraphCall) -> dict[str, Any]:
    """The value of each node in a plain run, as it was when it was made."""
    values: dict[str, Any] = {}

    class Run(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, n: Node) -> Any:
            made = super().run_node(n)
            values[n.name] = clone_input(made) if isinstance(made, torch.Tensor) else made
            return made

    Run(call.module, garbage_collect_values=False).run(*call.copied_inputs())
    return values


def prefix(call: GraphCall, count: int) -> GraphCall:
    """The first `count` operators. Its results are the tensors that it does not use itself."""
    operators = call.operators[:count]
    last = operators[-1] if operators else None
    graph = Graph()
    copies: dict[Node, Node] = {}
    is_open = True
    for node in call.module.graph.nodes:
        if node.op == "output":
            break
        if node.op == "placeholder" or is_open or (node.target is operator.getitem and node.args[0] in copies):
            copies[node] = graph.node_copy(node, copies.__getitem__)
        if node is last:
            is_open = False
    return _finished(call, graph, call.inputs)


def _finished(call: GraphCall, graph: Graph, inputs: list[Any]) -> GraphCall:
    """Gives a graph its results: all tensors that it does not use itself."""
    for node in list(graph.nodes):
        if node.op == "get_attr" and not node.users:
            graph.erase_node(node)
    ends = [node for node in graph.nodes if node.op == "call_function" and not node.users and not is_setting(node)]
    graph.output(tuple(ends))
    return GraphCall(GraphModule(call.module, graph), inputs)


def _without(call: GraphCall, removed: set[Node], values: dict[str, Any]) -> GraphCall | None:
    """The graph with some operators replaced by inputs that hold the results of these operators."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    inputs: list[Any] = []
    given = iter(call.inputs)
    for node in call.module.graph.nodes:
        if node.op == "placeholder":
            copies[node] = graph.node_copy(node)
            inputs.append(next(given))
    last = list(copies.values())[-1] if copies else None
    for node in call.module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        is_gone = node in removed or (node.target is operator.getitem and node.args[0] not in copies)
        if not is_gone:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            continue
        value = values.get(node.name)
        if not isinstance(value, torch.Tensor):
            continue  # its parts become inputs, or its users cannot be kept
        with graph.inserting_after(last) if last is not None else graph.inserting_before():
            last = copies[node] = graph.placeholder(re.sub(r"\W", "_", node.name))
            last.meta = dict(node.meta)
        inputs.append(value)
    return _finished(call, graph, inputs)


def _unused_inputs_dropped(call: GraphCall) -> GraphCall:
    graph = copy.deepcopy(call.module.graph)
    inputs = list(call.inputs)
    holders = [node for node in graph.nodes if node.op == "placeholder"]
    for index in reversed(range(len(holders))):
        if not holders[index].users:
            graph.erase_node(holders[index])
            del inputs[index]
    graph.eliminate_dead_code(lambda node: node.op not in ("get_attr",))
    return GraphCall(GraphModule(call.module, graph), inputs)


def _single_results(call: GraphCall) -> Iterator[GraphCall]:
    """The graph with one of its results alone, and without operators that only made others and write nothing."""
    (output,) = (node for node in call.module.graph.nodes if node.op == "output")
    results = output.args[0]
    if len(results) < 2:
        return
    for index in range(len(results)):
        graph = copy.deepcopy(call.module.graph)
        (end,) = (node for node in graph.nodes if node.op == "output")
        end.args = ((end.args[0][index],),)
        graph.eliminate_dead_code(_may_have_effects)
        yield GraphCall(GraphModule(call.module, graph), call.inputs)


def _may_have_effects(node: Node) -> bool:
    if node.op in ("placeholder", "output") or is_setting(node):
        return True
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def first_failing_prefix(call: GraphCall, fails: Callable[[GraphCall], bool]) -> int:
    """How many of the first operators are enough to fail, by bisection; all of them, if no shorter prefix fails."""
    low, high = 0, len(call.operators)
    while low + 1 < high:
        middle = (low + high) // 2
        if fails(prefix(call, middle)):
            high = middle
        else:
            low = middle
    return high


def minimised(call: GraphCall, fails: Callable[[GraphCall], bool], trials: int = 400) -> GraphCall:
    """A smaller graph that still fails: cut after the operator at which the failure starts, then with parts of the rest
    replaced by inputs, from large parts to single operators. Each step is kept only if the result was seen to fail."""
    count = first_failing_prefix(call, fails)
    if count < len(call.operators) and fails(cut := prefix(call, count)):
        call = cut
    left = [trials]

    def keeps(candidate: GraphCall | None) -> bool:
        if candidate is None or left[0] <= 0:
            return False
        left[0] -= 1
        return fails(candidate)

    size = max(1, len(call.operators) // 2)
    while size >= 1 and left[0] > 0:
        call, has_shrunk = _shrunk(call, size, keeps)
        smaller = (*_single_results(call), _unused_inputs_dropped(call))
        chosen = next((made for made in smaller if _parts(made) < _parts(call) and keeps(made)), None)
        if chosen is not None:
            call = chosen
        elif not has_shrunk:
            size //= 2
        size = min(size, len(call.operators))
    return call


def _parts(call: GraphCall) -> int:
    """The number of inputs, operators and results."""
    (output,) = (node for node in call.module.graph.nodes if node.op == "output")
    return len(call.inputs) + len(call.operators) + len(output.args[0])


def _shrunk(call: GraphCall, size: int, keeps: Callable[[GraphCall | None], bool]) -> tuple[GraphCall, bool]:
    """Replaces runs of `size` operators by inputs where that keeps the failure; earlier ones first."""
    has_shrunk, start = False, 0
    while start < len(call.operators) and len(call.operators) > 1:
        removed = set(call.operators[start : start + size])
        try:
            candidate = _without(call, removed, values_of(call))
        except Exception:  # what is left is not a graph
            candidate = None
        if candidate is not None and candidate.operators and keeps(candidate):
            call, has_shrunk = candidate, True
        else:
            start += size
    return call, has_shrunk
