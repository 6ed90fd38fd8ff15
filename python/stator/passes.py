"""Passes on graphs: `from stator import passes`. Each takes a graph and gives a new one; see docs/passes.md."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from ._C import Graph, _passes
from .backends import register_backend
from .errors import InvalidOption
from .fx import from_graph_module
from .tracing.current import disable_tracing
from .tracing.entry import Options, record
from .tracing.module import TRACED, module_of

__all__ = [
    "Decomposed",
    "FunctionalGraph",
    "Mutation",
    "OutputFact",
    "decompose",
    "difference",
    "eliminate_dead_code",
    "equal",
    "fold_constants",
    "functionalize",
    "functionalize_function",
    "lower",
    "merge_common_subexpressions",
    "native_decompositions",
    "retrace",
]


class Mutation(NamedTuple):
    """An input that the original changes: its position, the value with its new contents, and what changes."""

    input: int
    updated: int
    data: bool
    metadata: bool


class OutputFact(NamedTuple):
    """What an output of the original is: "own", or "input", "view_of_input", "same_as_output", "shares_with_output" of
    the input or output at `of`.
    """

    kind: str
    of: int


class FunctionalGraph(NamedTuple):
    """A graph without writes to values of the program, and what the original did to its inputs and outputs."""

    graph: Graph
    mutations: list[Mutation]
    outputs: list[OutputFact]
    on_copies: list[str]


class Decomposed(NamedTuple):
    """A graph, how many nodes of each operator were decomposed, and how many have no native decomposition."""

    graph: Graph
    replaced: dict[str, int]
    left: dict[str, int]


def eliminate_dead_code(graph: Graph) -> Graph:
    """Without nodes that no output, write to an input, random number, assert or exception depends on."""
    return _passes.eliminate_dead_code(graph)[0]


def merge_common_subexpressions(graph: Graph) -> Graph:
    """Nodes that compute the same become one."""
    return _passes.merge_common_subexpressions(graph)[0]


def fold_constants(graph: Graph, max_elements: int = 1024) -> Graph:
    """Nodes whose operands are constants are computed now, if their results have at most `max_elements` elements."""
    return _passes.fold_constants(graph, max_elements)[0]


def difference(a: Graph, b: Graph) -> str:
    """The first difference between two graphs, empty if they are equal up to names."""
    return _passes.find_difference(a, b)


def equal(a: Graph, b: Graph) -> bool:
    """Whether two graphs are equal up to names."""
    return not difference(a, b)


def retrace(graph: Graph) -> Graph:
    """The same graph, with all metadata computed again."""
    return _passes.retrace(graph)


def lower(graph: Graph) -> Graph:
    """The operators below autograd that a run without gradients calls: composite operators are split, the casts of
    autocast are nodes.
    """
    return _passes.lower(graph)


def functionalize(graph: Graph, *, write_back: bool = True, aten: bool = False) -> FunctionalGraph:
    """Writes and views become operators that write nothing.

    With `write_back`, `copy_` nodes at the end write the new contents of inputs to the inputs, so that the graph does
    what the original does. Without, the new contents are outputs, before those of the original. `aten` takes the list
    below autograd.
    """
    made, mutations, outputs, on_copies = _passes.functionalize(graph, write_back, aten)
    return FunctionalGraph(
        made, [Mutation(*row) for row in mutations], [OutputFact(*row) for row in outputs], on_copies
    )


def decompose(graph: Graph, names: Iterable[str] | None = None, *, aten: bool = False) -> Decomposed:
    """Nodes of the named operators (`aten::gelu`, `aten::addcmul.out`; None: all) become what they are made of."""
    return Decomposed(*_passes.decompose(graph, None if names is None else list(names), aten))


def native_decompositions() -> list[str]:
    """The operators that have a native decomposition."""
    return _passes.native_decompositions()


def functionalize_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`stator.functionalize`: a function that does what `fn` does, through operators that write nothing.

    Each call traces `fn` on its arguments, below autograd, and runs the functional graph; `copy_` operators at the end
    write to arguments, and to tensors from outside, that `fn` writes to. Gradients that `fn` computes are part of the
    graph; the results have none. Tensors may stand in lists, dicts and other pytrees. In a trace of `make_fx`, the
    operators of the functional graph are recorded.
    """

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        inputs = list({id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}.values())
        place = {id(tensor): i for i, tensor in enumerate(inputs)}

        def call(*given: torch.Tensor) -> Any:
            made, keywords = pytree.tree_unflatten([given[place[id(x)]] if id(x) in place else x for x in leaves], spec)
            return fn(*made, **keywords)

        has_symbols = any(isinstance(size, torch.SymInt) for tensor in inputs for size in tensor.shape)
        options = Options("symbolic" if has_symbols else "fake", allow_non_fake_inputs=True)
        found = record(call, tuple(inputs), options)
        results, out_spec = pytree.tree_flatten(found.result)
        kept = [i for i, leaf in enumerate(results) if isinstance(leaf, TRACED)]
        traced = found.tracer.finish([found.tracer.output(results[i]) for i in kept])
        attributes = found.tracer.attributes()
        with disable_tracing() as outer:
            runs = functionalize(traced).graph
            if outer is not None:
                runs = module_of(runs, found)
        with torch.no_grad():
            outputs = runs(*inputs) if outer is not None else runs(*inputs, *attributes)
        for i, output in zip(kept, outputs, strict=True):
            results[i] = output
        return pytree.tree_unflatten(results, out_spec)

    return run


def aten_eager(gm: Any, example_inputs: Any, *, options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """The backend "aten_eager": runs captures without gradients as functional ATen graphs, one operator at a time.

    Its options: `aten_graphs`, a callable that gets the `FunctionalGraph` of each capture; `decompose`, the names of
    operators to decompose, or True for all that have a native decomposition. A call that needs gradients runs the
    captured graph, and so does a graph with sizes that are symbols because a dimension is marked.
    """
    given = dict(options or {})
    listener, names = given.pop("aten_graphs", None), given.pop("decompose", None)
    if given:
        raise InvalidOption(f"'aten_eager' has no option {', '.join(given)}", hint="it has aten_graphs and decompose")
    if not all(isinstance(example, torch.Tensor) for example in example_inputs):
        return gm.forward
    captured = gm.__dict__["_native"] if "_native" in gm.__dict__ else from_graph_module(gm, example_inputs).graph
    functional = functionalize(lower(captured))
    graph = functional.graph
    if names:
        graph = decompose(graph, None if names is True else names).graph
    functional = functional._replace(graph=eliminate_dead_code(graph))
    if listener is not None:
        listener(functional)
    return _Inference(captured, functional.graph)


class _Inference:
    """Runs the functional graph where no gradient is needed, and the captured one where it is."""

    def __init__(self, captured: Graph, functional: Graph) -> None:
        self.captured = captured
        self.functional = functional

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        needs_grad = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
        return (self.captured if needs_grad else self.functional)(*inputs)


aten_eager.has_static_sizes = True  # type: ignore[attr-defined]
register_backend(aten_eager, name="aten_eager")
