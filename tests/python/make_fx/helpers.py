"""Helpers of the tests of `stator.make_fx`."""

import torch


def calls(module):
    """The operators and functions of a graph, in order: `add.Tensor`, `getitem`."""
    return [name_of(node.target) for node in module.graph.nodes if node.op == "call_function"]


def name_of(target):
    if isinstance(target, torch._ops.OpOverload):
        return f"{target._schema.name.split('::')[1]}.{target._overloadname}"
    return target.__name__


def names(module, *ops):
    """The names of the nodes of these kinds."""
    return [node.name for node in module.graph.nodes if node.op in ops]


def placeholders(module):
    return names(module, "placeholder")


def node(module, name):
    return next(node for node in module.graph.nodes if node.name == name)
