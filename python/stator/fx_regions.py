"""Marked regions (`torch.compiler.nested_compile_region`) in `torch.fx` graphs: equal calls share one sub-graph."""

from __future__ import annotations

from typing import Any

import torch
from torch._guards import TracingContext
from torch.utils._python_dispatch import _disable_current_modes

from . import _C
from .fx_symbols import is_compiling


class Regions:
    """The calls of a graph that share sub-graphs, and the names of those."""

    def __init__(self, graph: _C.Graph) -> None:
        # (number of nodes, sub-graph, operands, [(result, the node that defines it)]) by first node
        self.calls = {first: (count, body, given, made) for first, count, body, given, made in graph.regions()}
        self.identifiers: dict[int, str] = {}  # by id of the sub-graph, which `calls` keeps alive

    def identifier(self, body: _C.Graph) -> str:
        """The name by which torch's compilers know a sub-graph that they have traced."""
        return self.identifiers.setdefault(id(body), f"subgraph_{len(self.identifiers)}")


def invoke_subgraph(region: torch.nn.Module, identifier: str, *operands: torch.Tensor) -> Any:
    """Calls a sub-graph. While a compiler of torch traces the graph for the backend, it gets torch's own operator, of
    which it traces each sub-graph once. Torch's operator has no backward pass outside of a compilation, so any other
    call runs the sub-graph."""
    operator = _operator()
    if operator is None or not is_compiling(TracingContext.try_get()) or not all(map(_is_traced, operands)):
        return region(*operands)
    _describe_results(region)
    return operator(region, identifier, *operands)


def _describe_results(region: torch.nn.Module) -> None:
    """Makes the metadata of the results, which torch's operator reads under modes in which it cannot be made."""
    if isinstance(region, torch.fx.GraphModule):
        with _disable_current_modes():
            for node in region.graph.find_nodes(op="output")[0].all_input_nodes:
                node.meta.get("val")


def _is_traced(operand: Any) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor
    from torch._subclasses.functional_tensor import FunctionalTensor

    return isinstance(operand, (FakeTensor, FunctionalTensor))


def _operator() -> Any:
    try:
        from torch._higher_order_ops.invoke_subgraph import invoke_subgraph as operator
    except ImportError:
        return None
    return operator
