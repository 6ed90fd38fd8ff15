"""Conversion of graphs to and from `torch.fx.GraphModule`.

`torch.fx` objects cost tens of microseconds per node, so a backend gets a lazy module. Calling it runs the native
executor; reading `graph`, `code` or another attribute builds the fx graph. Modules always return tuples.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from . import _C
from .fx_export import export_graph
from .fx_import import ImportedGraph, import_graph_module
from .fx_leaves import NewLeaves
from .fx_module import ExportedGraphModule
from .fx_targets import with_torch_targets

__all__ = [
    "GraphModule",
    "ImportedGraph",
    "aten_graph",
    "from_graph_module",
    "lazy_graph_module",
    "to_graph_module",
    "with_torch_targets",
]

GraphModule = ExportedGraphModule


def to_graph_module(graph: _C.Graph) -> ExportedGraphModule:
    """An ordinary GraphModule with the graph's operators: it runs, prints, pickles and copies."""
    return export_graph(graph)


def aten_graph(gm: torch.nn.Module) -> _C.Graph:
    """The operators below autograd of a module that a backend got. It has the same inputs and outputs, and is run
    without autograd.

    It exists if `stator.config.aten_graphs` was set during the capture.
    """
    graph = gm.__dict__["_native"].aten if "_native" in gm.__dict__ else gm.__dict__.get("_aten")
    if graph is None:
        raise ValueError("no list below autograd was recorded: set stator.config.aten_graphs before the capture")
    return graph


def from_graph_module(gm: torch.nn.Module, example_inputs: Any) -> ImportedGraph:
    """The graph of a GraphModule, recorded by running its nodes on fakes of the example inputs."""
    return import_graph_module(gm, example_inputs)


def lazy_graph_module(graph: _C.Graph) -> torch.fx.GraphModule:
    """A GraphModule whose fx graph is built on first access; until then, calls run the native executor."""
    lazy = object.__new__(LazyGraphModule)
    lazy.__dict__["_native"] = graph
    return lazy


def leaf_graph_module(graph: _C.Graph) -> torch.fx.GraphModule:
    """The module of a graph in which tensors begin to require gradients: it has further inputs, which `_leaves` in its
    attributes describes."""
    return _filled(lazy_graph_module(graph), NewLeaves(graph))


class LazyGraphModule(ExportedGraphModule):
    """Holds only the native graph. The first access to anything else replaces the object's class and attributes, which
    makes it an ordinary ExportedGraphModule."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("use lazy_graph_module()")

    def __call__(self, *args: Any) -> Any:
        return self.__dict__["_native"](*args)

    @property
    def forward(self) -> Any:  # type: ignore[override]
        # Many backends return `gm.forward`: they get the native callable itself.
        return self.__dict__["_native"]

    @property
    def graph_name(self) -> str:
        return str(self.__dict__["_native"].name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return getattr(_materialize(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_materialize(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_materialize(self), name)

    def __dir__(self) -> Any:
        return dir(_materialize(self))

    def __repr__(self) -> str:
        return repr(_materialize(self))

    def __str__(self) -> str:
        return str(_materialize(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _materialize(self).__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _materialize(self).__deepcopy__(memo)


def _materialize(lazy: torch.fx.GraphModule) -> torch.fx.GraphModule:
    return _filled(lazy)


def _filled(lazy: torch.fx.GraphModule, leaves: NewLeaves | None = None) -> torch.fx.GraphModule:
    native = lazy.__dict__["_native"]
    # A backend may build it when the graph runs, under modes of its own. They must not see the constants.
    with no_dispatch(), torch._C.DisableTorchFunction():
        made = export_graph(native, asserts_sizes=True, leaves=leaves)
    lazy.__dict__.clear()
    lazy.__dict__.update(made.__dict__)
    if leaves is not None:
        lazy.__dict__["_leaves"] = leaves
    if native.aten is not None:
        lazy.__dict__["_aten"] = native.aten
    object.__setattr__(lazy, "__class__", type(made))
    # The fx graph has a reference to the module that owns it.
    made.graph.owning_module = lazy
    return lazy


def _through(name: str) -> property:
    def read(self: Any) -> Any:
        return getattr(_materialize(self), name)

    def write(self: Any, value: Any) -> None:
        setattr(_materialize(self), name, value)

    return property(read, write)


def _method_through(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(_materialize(self), name)(*args, **kwargs)

    method.__name__ = name
    return method


# Attributes of the base classes are found without __getattr__, so each gets a property that builds the module first.
_OWN = frozenset(vars(LazyGraphModule)) | frozenset(dir(object))
for _class in LazyGraphModule.__mro__[1:-1]:
    for _name, _value in vars(_class).items():
        if _name in _OWN or _name in ("__annotations__", "__slots__", "__weakref__", "__init_subclass__"):
            continue
        if isinstance(_value, property):
            setattr(LazyGraphModule, _name, _through(_name))
        elif isinstance(_value, (classmethod, staticmethod)) or (callable(_value) and not isinstance(_value, type)):
            setattr(LazyGraphModule, _name, _method_through(_name))
