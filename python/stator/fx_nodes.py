"""Makes nodes of `torch.fx` graphs, of arguments that need no checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_set_args = torch.fx.Node.args.fset
_set_kwargs = torch.fx.Node.kwargs.fset
# Assignments to a Node are for parts that the graph looks nodes up by, which `meta` is not.
set_meta = object.__setattr__


def call_maker(graph: torch.fx.Graph) -> Callable[[Any, tuple[Any, ...], dict[str, Any], str | None], torch.fx.Node]:
    """A function of a target, arguments and a base for the name, which adds a call to the graph. `Graph.create_node`
    looks for raw symbolic numbers in all arguments: the node gets them after it was made."""
    create = graph.create_node

    def make(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None) -> torch.fx.Node:
        node = create("call_function", target, (), {}, name)
        _set_args(node, args)
        if kwargs:
            _set_kwargs(node, kwargs)
        return node

    return make
