"""Converts `torch.fx` modules to native graphs: runs the nodes on fake tensors and records the operators they call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch

from . import _C
from .fx_states import SWITCHES, enter_autocast, enter_inference, exit_autocast, exit_inference

_LITERALS = frozenset({torch.tensor, torch.as_tensor})
_FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+), in (?P<function>\S+)')


class ImportedGraph(NamedTuple):
    """A graph, and the module's tensors that it uses, by qualified name. They are the graph's last inputs."""

    graph: _C.Graph
    attributes: dict[str, torch.Tensor]

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.graph.run(*inputs, *self.attributes.values())


def import_graph_module(gm: torch.nn.Module, example_inputs: Iterable[Any]) -> ImportedGraph:
    grad = torch.is_grad_enabled()
    importer = _Importer(gm)
    try:
        return importer.run(iter(example_inputs))
    finally:
        importer.close()
        torch._C._set_grad_enabled(grad)


class _Importer:
    def __init__(self, gm: torch.nn.Module) -> None:
        self.gm = gm
        self.tracer = _C.Tracer(getattr(gm, "graph_name", None) or type(gm).__name__)
        self.env: dict[torch.fx.Node, Any] = {}
        self.attributes: dict[str, torch.Tensor] = {}
        self.lifted: dict[int, torch.Tensor] = {}
        self.entered: list[tuple[Any, Any]] = []

    def run(self, inputs: Iterator[Any]) -> ImportedGraph:
        for node in self.gm.graph.nodes:
            if node.op == "output":
                return ImportedGraph(self.tracer.finish(_flat(self.resolve(node.args[0]))), self.attributes)
            self.locate(node)
            self.env[node] = getattr(self, node.op)(node, inputs)
        raise ValueError("the graph has no output")

    def close(self) -> None:
        while self.entered:
            leave, mode = self.entered.pop()
            leave(mode)

    def resolve(self, arg: Any) -> Any:
        return torch.fx.node.map_arg(arg, self.env.__getitem__)

    def locate(self, node: torch.fx.Node) -> None:
        frames = _FRAME.findall(node.meta.get("stack_trace") or "")
        if frames:
            file, line, function = frames[-1]
            self.tracer.location(file, function, int(line))

    def placeholder(self, node: torch.fx.Node, inputs: Iterator[Any]) -> Any:
        try:
            value = next(inputs)
        except StopIteration:
            if not node.args:
                raise ValueError(f"no example input for {node.target}") from None
            value = node.args[0]
        return self.tracer.input(value, str(node.target)) if isinstance(value, torch.Tensor) else value

    def get_attr(self, node: torch.fx.Node, _inputs: Iterator[Any]) -> Any:
        target = str(node.target)
        owner: Any = self.gm
        for name in target.split("."):
            owner = getattr(owner, name)
        return self.lift(target, owner) if isinstance(owner, torch.Tensor) else owner

    def lift(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        fake = self.lifted.get(id(tensor))
        if fake is None:
            fake = self.lifted[id(tensor)] = self.tracer.input(tensor, name)
            self.attributes[name] = tensor
        return fake

    def call_function(self, node: torch.fx.Node, _inputs: Iterator[Any]) -> Any:
        args, kwargs = self.resolve(node.args), self.resolve(node.kwargs)
        if node.target in SWITCHES:
            return self.switch(node.target, args)
        if node.target in _LITERALS and not any(isinstance(arg, torch.Tensor) for arg in args):
            literal = node.target(*args, **kwargs)
            return self.tracer.constant(literal)
        return self.tracer.call(node.target, *args, **kwargs)

    def switch(self, target: Any, args: Any) -> Any:
        result = target(*args)
        if target is enter_autocast:
            self.entered.append((exit_autocast, result))
        elif target is enter_inference:
            self.entered.append((exit_inference, result))
        elif target in (exit_autocast, exit_inference):
            self.entered = [entry for entry in self.entered if entry[1] is not args[0]]
            self.tracer.autocast_ended()
        return result

    def call_method(self, node: torch.fx.Node, _inputs: Iterator[Any]) -> Any:
        receiver, *args = self.resolve(node.args)
        return self.tracer.call(getattr(receiver, str(node.target)), *args, **self.resolve(node.kwargs))

    def call_module(self, node: torch.fx.Node, _inputs: Iterator[Any]) -> Any:
        target = str(node.target)
        module = self.gm.get_submodule(target)
        tensors = dict(module.named_parameters(remove_duplicate=False))
        tensors.update(module.named_buffers(remove_duplicate=False))
        fakes = {name: self.lift(f"{target}.{name}", tensor) for name, tensor in tensors.items()}
        args, kwargs = self.resolve(node.args), self.resolve(node.kwargs)
        return self.tracer.call(torch.func.functional_call, module, fakes, args, kwargs)


def _flat(output: Any) -> list[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        return [output]
    if isinstance(output, dict):
        return [tensor for value in output.values() for tensor in _flat(value)]
    if isinstance(output, (tuple, list)):
        return [tensor for value in output for tensor in _flat(value)]
    raise TypeError(f"an output that is not a tensor: {type(output).__name__}")
