"""The functions that operators take, traced as parts: sub-graphs over the operator's tensors, then over the values of
the trace around them that the functions use (`lifted`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.utils._pytree as pytree

from ... import _C
from ...fx_module import find_operator
from ..current import Recording, disable_tracing, running, use_table

Tensors = list[torch.Tensor]


@dataclass(eq=False)
class Part:
    """A function that an operator takes, as a trace of its own."""

    name: str  # of the module's attribute, without its number
    recording: Recording
    operands: Tensors
    leaves: list[Any]  # of the result
    spec: Any
    gives_one: bool = False  # its module returns the result itself
    gives_none: bool = False  # its module returns a list, with None where the function does and for lifted values
    module: Any = None
    lifted: list[Any] = field(default_factory=list)  # of the node: all parts have the same placeholders

    @property
    def tensors(self) -> Tensors:
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def returned(self, tensors: list[Any]) -> Any:
        """What its module returns, of values for the tensors."""
        if self.gives_one:
            return tensors[0]
        if not self.gives_none:
            return tuple(tensors)
        given = iter(tensors)
        found = [next(given) if isinstance(leaf, torch.Tensor) else None for leaf in self.leaves]
        return [*found, *[None] * len(self.lifted)]

    def attributes(self) -> list[Any]:
        return self.recording.tracer.attributes()

    def used(self) -> list[Any]:
        """The values of the trace around it."""
        return [value for value in self.attributes() if is_lifted(value)]


def is_lifted(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or _C._fake.is_fake(value)


def lifted_key(value: Any) -> Any:
    """Equal for attributes of two parts that are the same value."""
    return value._cdata if isinstance(value, torch.Tensor) else str(value.node)


def trace_part(outer: Recording, name: str, function: Callable[..., Any], operands: Tensors) -> Part:
    options = outer.options
    mode = "symbolic" if options.tracing_mode == "symbolic" else "fake"
    outer.tracer.failure()  # notes what failed so far; the part clears the thread's flag
    tracer = _C.FunctionTracer(
        name,
        mode,
        options.pre_dispatch,
        options.allow_non_fake_inputs or options.tracing_mode == "real",
        options.error_on_data_dependent_ops,
        {},
        None,
        outer.tracer,
    )
    recording = Recording(tracer, replace(options, tracing_mode=mode))
    use_table(recording, outer.table)
    given = [tracer.input(operand, f"arg{i}_1") for i, operand in enumerate(_distinct(operands))]
    with running(recording):
        result = tracer.call(function, tuple(given))
    failure = tracer.failure()
    if failure is not None:
        raise RuntimeError(f"cannot be traced: {failure[1]}")
    if _writes_to_inputs(tracer.finish([])):
        raise RuntimeError(f"cannot be traced: the function of {name} writes to an operand")
    leaves, spec = pytree.tree_flatten(result)
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            tracer.output(leaf)  # one from outside becomes an attribute
    return Part(name, recording, list(operands), leaves, spec)


def _distinct(operands: Tensors) -> Tensors:
    """A tensor that is given twice is two inputs of the part: in another run they are others."""
    known: set[int] = set()
    distinct = []
    with disable_tracing():
        for operand in operands:
            distinct.append(empty_as(operand) if id(operand) in known else operand)
            known.add(id(operand))
    return distinct


def _writes_to_inputs(native: _C.Graph) -> bool:
    """Whether an operator writes to an input, or to a view of one."""
    views = {int(value) for value in native.inputs}
    for name, overload, args, kwargs, results, *_ in native.nodes():
        if name.startswith("stator::"):
            continue
        schema = find_operator(name, overload)._schema
        given = dict(zip([argument.name for argument in schema.arguments], args, strict=False)) | kwargs
        for argument in schema.arguments:
            taken = pytree.tree_leaves(given.get(argument.name))
            if argument.alias_info is None or views.isdisjoint(v for v in taken if isinstance(v, _C.Value)):
                continue
            if argument.alias_info.is_write:
                return True
            views.update(value for value in pytree.tree_leaves(results) if value is not None)
    return False


def empty_as(model: torch.Tensor, rows: Any = None) -> torch.Tensor:
    if rows is None:
        return torch.empty_strided(model.size(), model.stride(), dtype=model.dtype, device=model.device)
    return torch.empty((rows, *model.size()), dtype=model.dtype, device=model.device)


def first_rows(rows: Tensors) -> Tensors:
    """A row of each; not recorded."""
    with disable_tracing():
        return [empty_as(row[0]) for row in rows]


def check_same(a: Part, b: Part, what: str) -> None:
    if a.spec != b.spec:
        raise RuntimeError(f"cannot be traced: {what} return different structures: {a.spec} and {b.spec}")
    check_like(a.tensors, b.tensors, what)


def check_like(a: Tensors, b: Tensors, what: str) -> None:
    def described(tensors: Tensors) -> list[Any]:
        return [(t.dtype, tuple(t.size()), t.device) for t in tensors]

    if described(a) != described(b):
        raise RuntimeError(f"cannot be traced: {what} differ: {described(a)} and {described(b)}")
