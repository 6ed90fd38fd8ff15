"""Graphs with the targets that torch.compile's backends see: functions of `torch` and `torch.nn.functional`, Python
operators and methods, in place of ATen operators."""

from __future__ import annotations

import functools
import inspect
import itertools
import operator
import os
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from .allowed import AllowedCall
from .functions import Slot, fill

_FUNCTIONAL = os.path.join("torch", "nn", "functional.py")

# Operators of Python, by the ATen operator that they call.
_OPERATORS: dict[str, Any] = {
    "add.Tensor": operator.add,
    "sub.Tensor": operator.sub,
    "mul.Tensor": operator.mul,
    "div.Tensor": operator.truediv,
    "floor_divide.default": operator.floordiv,
    "remainder.Tensor": operator.mod,
    "matmul.default": operator.matmul,
    "neg.default": operator.neg,
    "pow.Tensor_Scalar": operator.pow,
    "pow.Tensor_Tensor": operator.pow,
}
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _OPERATORS[f"{_name}.Tensor"] = _OPERATORS[f"{_name}.Scalar"] = getattr(operator, _name)

# Parameters of functions in torch.nn.functional, by the name of the ATen operator's argument.
_RENAMED = {"self": "input", "indices": "input", "train": "training"}
# Arguments that only ATen operators have, and that do not change the result.
_EXTRA = {"cudnn_enable", "cudnn_enabled"}
_REDUCTIONS = ("none", "mean", "sum")


def with_torch_targets(backend: Callable[..., Any]) -> Callable[..., Any]:
    """A backend that gets graphs with torch.compile's targets: passes written for those find their nodes.

    A call inside a function of `torch.nn.functional` gets that function as target, an operator that Python writes as a
    sign the function of the module `operator`, and any other the function of `torch` or `torch._C._nn` of its name, or
    else the method. Operators that have none of them keep their ATen target. A function that is allowed in graphs is
    the target of its own node.
    """

    @functools.wraps(backend)
    def call(gm: Any, example_inputs: Any, **keywords: Any) -> Any:
        rename_targets(gm)
        return backend(gm, example_inputs, **keywords)

    return call


def rename_targets(gm: torch.fx.GraphModule) -> None:
    """Gives the nodes of a graph module, and of the modules inside it, torch.compile's targets."""
    for module in gm.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in list(module.graph.nodes):
                if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
                    _rename(node)
                elif node.op == "call_module":
                    _name_allowed(module, node)
            module.recompile()


def _name_allowed(module: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """Replaces a node that calls a function which is allowed in graphs by a call of that function."""
    call = getattr(module.get_submodule(node.target), "called", None)
    if not isinstance(call, AllowedCall):
        return
    function, users = call.function(), list(node.users)
    if function is None or any(user.target is not operator.getitem for user in users):
        return
    args, kwargs = fill(call.given, node.args)
    with module.graph.inserting_after(node):
        made = module.graph.call_function(function, args, kwargs)
    made.meta = node.meta
    for user in users:
        _take_result(module.graph, user, made, _path_of(call.made, user.args[1]))
    module.graph.erase_node(node)
    module.delete_submodule(node.target)


def _path_of(made: Any, index: int) -> list[Any]:
    """The keys that lead to a tensor in the result of an allowed function."""
    if type(made) is Slot:
        return [] if made.index == index else [None]
    items = made.items() if type(made) is dict else enumerate(made) if type(made) in (tuple, list) else ()
    for key, item in items:
        path = _path_of(item, index)
        if None not in path:
            return [key, *path]
    return [None]


def _take_result(graph: torch.fx.Graph, user: torch.fx.Node, made: torch.fx.Node, path: list[Any]) -> None:
    """Makes `user`, which took a result by its number, take it by its path."""
    taken = made
    with graph.inserting_before(user):
        for key in path[:-1]:
            taken = graph.call_function(operator.getitem, (taken, key))
    if path:
        user.args = (taken, path[-1])
        return
    made.meta = user.meta
    user.replace_all_uses_with(made)
    graph.erase_node(user)


def _rename(node: torch.fx.Node) -> None:
    target = node.target
    assert isinstance(target, torch._ops.OpOverload)
    if target.namespace != "aten":
        return
    given = _by_name(node)
    found = _functional_call(node, target, given)
    if found is not None:
        node.target, node.args, node.kwargs = found
        return
    sign = _OPERATORS.get(f"{target._opname}.{target._overloadname}")
    if sign is not None and not node.kwargs:
        node.target = sign
        return
    for owner in (torch, torch._C._nn):
        function = getattr(owner, target._opname, None)
        if function is not None and _takes(function, target):
            node.target = function
            return
    if hasattr(torch._C.TensorBase, target._opname) and given.get("self") is not None:
        node.op = "call_method"
        node.target = target._opname


def _by_name(node: torch.fx.Node) -> dict[str, Any]:
    declared = [argument.name for argument in node.target._schema.arguments]
    return dict(zip(declared, node.args, strict=False)) | dict(node.kwargs)


@functools.cache
def _takes(function: Any, target: torch._ops.OpOverload) -> bool:
    """Whether the binding has the operator's name and takes its arguments in the same order."""
    if not inspect.isbuiltin(function):
        return False
    # Out variants and in-place operators are other bindings.
    return not any(argument.alias_info is not None and argument.kwarg_only for argument in target._schema.arguments)


def _functional_call(node: torch.fx.Node, target: torch._ops.OpOverload, given: dict[str, Any]) -> Any:
    """The call of a function of torch.nn.functional that the node is all of: target, args, kwargs; else None."""
    name = _functional_caller(node)
    function = getattr(functional, name, None) if name else None
    if function is None or not inspect.isfunction(function):
        return None
    parameters = inspect.signature(function).parameters
    bound: dict[str, Any] = {}
    for argument in target._schema.arguments:
        if argument.name not in given or argument.name in _EXTRA:
            continue
        parameter = argument.name if argument.name in parameters else _RENAMED.get(argument.name, "")
        if parameter not in parameters or parameter in bound:
            return None
        value = given[argument.name]
        if parameter == "reduction" and isinstance(value, int):
            value = _REDUCTIONS[value]
        if isinstance(parameters[parameter].default, str) and not isinstance(value, str):
            return None
        bound[parameter] = value
    if target._schema.is_mutable:
        if target._opname != f"{name}_" or "inplace" not in parameters:
            return None
        bound["inplace"] = True
    if any(p.default is inspect.Parameter.empty and key not in bound for key, p in parameters.items()):
        return None
    leading = list(itertools.takewhile(bound.__contains__, parameters))
    return function, tuple(bound.pop(parameter) for parameter in leading), bound


def _functional_caller(node: torch.fx.Node) -> str | None:
    """The function of torch.nn.functional that the program called, if the node is the only one of that call."""
    shared, location = getattr(node.meta, "shared", None), getattr(node.meta, "location", 0)
    if shared is None or not location:
        return None
    file, function, _line, caller, _path, _class = shared.locations[location]
    if not file.endswith(_FUNCTIONAL) or function.startswith("_"):
        return None
    calls = [other for other in node.graph.nodes if _is_call_of(other, function, caller)]
    return function if calls == [node] else None


def _is_call_of(node: torch.fx.Node, function: str, caller: int) -> bool:
    location = getattr(node.meta, "location", 0)
    if node.op not in ("call_function", "call_method", "call_module") or not location:
        return False
    file, name, _line, outer, _path, _class = node.meta.shared.locations[location]
    return (file.endswith(_FUNCTIONAL) and name == function and outer == caller) or bool(
        outer and _is_inside(node.meta.shared, outer, function, caller)
    )


def _is_inside(shared: Any, location: int, function: str, caller: int) -> bool:
    while location:
        file, name, _line, outer, _path, _class = shared.locations[location]
        if file.endswith(_FUNCTIONAL) and name == function and outer == caller:
            return True
        location = outer
    return False
