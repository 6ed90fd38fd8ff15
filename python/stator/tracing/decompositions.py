"""Decompositions of chosen nodes of a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.fx

from .current import decompose
from .entry import make_fx


def selective_decompose(
    module: torch.fx.GraphModule,
    *args: Any,
    decomposition: Mapping[Any, Callable[..., Any]] | None = None,
    should_decompose: Callable[[torch.fx.Node], bool],
    tracing_mode: str = "real",
    trace_joint_graph: bool = False,
) -> torch.fx.GraphModule:
    """Traces the module again; nodes for which `should_decompose` holds are decomposed by the table `decomposition`.
    Nodes of sub-graphs are asked, too; with a node that has sub-graphs, all of their nodes are chosen.

    With `trace_joint_graph` the module is one of forward and backward, and the arguments are two lists: placeholders
    are named `primals_1`, ... and `tangents_1`, ..."""
    table = dict(decomposition or {})
    inputs = [node.target for node in module.graph.nodes if node.op == "placeholder"]

    def program(*given: Any) -> Any:
        with decompose(None):
            return _Chooser(module, table, should_decompose).run(*given, enable_io_processing=False)

    if trace_joint_graph:

        def joint(primals: Any, tangents: Any) -> Any:
            return program(*primals, *tangents)

        return make_fx(joint, tracing_mode=tracing_mode)(*args)
    traced = make_fx(program, tracing_mode=tracing_mode)(*args)
    _rename_placeholders(traced, inputs)
    return traced


class _Chooser(torch.fx.Interpreter):  # type: ignore[misc]
    def __init__(self, module: Any, table: dict[Any, Any], should_decompose: Callable[[torch.fx.Node], bool]) -> None:
        super().__init__(module)
        self.table = table
        self.should_decompose = should_decompose

    def run_node(self, node: torch.fx.Node) -> Any:
        if node.op in ("placeholder", "get_attr", "output"):
            return super().run_node(node)
        with decompose(self.table if self.should_decompose(node) else None):
            return super().run_node(node)

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(target, torch._ops.HigherOrderOperator):
            args = tuple([self.function_of(arg) if isinstance(arg, torch.fx.GraphModule) else arg for arg in args])
        return super().call_function(target, args, kwargs)

    def function_of(self, part: torch.fx.GraphModule) -> Callable[..., Any]:
        from .current import current_tracer

        recording = current_tracer()
        is_chosen = recording is not None and bool(recording.table)

        def should_decompose(node: torch.fx.Node) -> bool:
            return is_chosen or self.should_decompose(node)

        return lambda *args: _Chooser(part, self.table, should_decompose).run(*args)


def _rename_placeholders(module: torch.fx.GraphModule, names: list[str]) -> None:
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    if len(placeholders) != len(names):
        return
    for node, name in zip(placeholders, names, strict=True):
        if node.name != name:
            node.target = name
            node._rename(name)
    module.recompile()
