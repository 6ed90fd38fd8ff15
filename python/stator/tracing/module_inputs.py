"""Modules among the arguments of a trace whose tensors are read off the module that the graph gets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.utils.stateless import _reparametrize_module


class ModuleInputs:
    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.fakes: list[tuple[torch.nn.Module, dict[str, torch.Tensor]]] = []
        self.paths: dict[str, list[str]] = {}  # of the inputs that a module adds, by the name of its placeholder

    def add(self, module: torch.nn.Module, name: str) -> None:
        """Each tensor of the module is an input of the native graph, in the order of `paths`."""
        made: dict[str, torch.Tensor] = {}
        known: dict[int, torch.Tensor] = {}
        paths = self.paths[name] = []
        for path, tensor in [
            *module.named_parameters(remove_duplicate=False),
            *module.named_buffers(remove_duplicate=False),
        ]:
            if id(tensor) not in known:
                paths.append(path)
                known[id(tensor)] = self.tracer.input(tensor, f"{name}.{path}")
            made[path] = known[id(tensor)]
        self.fakes.append((module, made))

    @contextlib.contextmanager
    def replaced(self) -> Iterator[None]:
        """In this block the modules have the fakes."""
        with contextlib.ExitStack() as scopes:
            for module, made in self.fakes:
                scopes.enter_context(_reparametrize_module(module, made))
            yield
