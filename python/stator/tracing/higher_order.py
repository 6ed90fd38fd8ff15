"""Operators with sub-graphs (`torch.cond`, `while_loop`, `map`, `scan`, ...) in a trace.

Torch gives such operators to Dynamo when they are called outside of it. While a function is traced here, each
function that such an operator takes is traced as a part instead: a sub-graph over the operator's tensors, then over the
values of the trace around it that the function uses (`lifted`). Gradients are operators of the same kind over the
functions' gradients.
"""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._higher_order_ops import utils as torch_utils

from .. import _C
from ..fork_safe import ForkSafeLock
from ..fx_module import find_operator
from .current import Recording, current_tracer, disable_tracing, running, use_table

_Tensors = list[torch.Tensor]
_lock = ForkSafeLock()
_installed: set[Any] = set()
_patched: set[Any] = set()


def install() -> None:
    """Makes torch's operators with sub-graphs known to traces, those that were defined since the last call too."""
    collectives: Any = sys.modules.get("torch.distributed._functional_collectives")
    if collectives is not None and collectives not in _patched:
        _patched.add(collectives)
        collectives._are_we_tracing = _or_traced(collectives._are_we_tracing)
    if len(_installed) == len(torch._ops._higher_order_ops):
        return
    with _lock:
        key = torch._C._parse_dispatch_key("DeferredInit")
        if not _installed and hasattr(torch_utils, "_hop_compile_and_call"):
            torch_utils._hop_compile_and_call = _call_or_compile(torch_utils._hop_compile_and_call)
        for op in list(torch._ops._higher_order_ops.values()):
            if op not in _installed:
                _installed.add(op)
                op.py_impl(key)(_handler(op))


def _or_traced(is_tracing: Callable[[], bool]) -> Callable[[], bool]:
    """Torch's own function asks for its tracer: in a trace, collectives wait at once and make no subclass."""
    return lambda: current_tracer() is not None or is_tracing()


def _call_or_compile(compile_and_call: Callable[..., Any]) -> Callable[..., Any]:
    """Torch's own function compiles the operator by Dynamo; a trace calls it."""

    def call(fn: Any, args: Any, kwargs: Any = None) -> Any:
        if current_tracer() is None:
            return compile_and_call(fn, args, kwargs)
        if fn.__name__ == "_cond_op_wrapper":
            return _call_cond(fn, *args)
        return fn(*args, **(kwargs or {}))

    return call


def _call_cond(cond: Any, pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
    """The operator's rules for transforms take branches that return tuples."""
    specs: list[Any] = []

    def flat(function: Any) -> Any:
        def branch(*args: Any) -> tuple[Any, ...]:
            leaves, spec = pytree.tree_flatten(function(*args))
            specs.append(spec)
            return tuple(leaves)

        return branch

    leaves = cond(pred, flat(true_fn), flat(false_fn), operands)
    for spec in specs[1:]:
        if spec != specs[0]:
            raise RuntimeError(f"torch.cond: the branches return different structures: {specs[0]} and {spec}")
    return pytree.tree_unflatten(leaves, specs[0])


def _handler(op: Any) -> Callable[..., Any]:
    def handle(*args: Any, **kwargs: Any) -> Any:
        recording = current_tracer()
        if recording is None:  # a trace that is paused: run the program
            return op.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd](*args, **kwargs)
        row = ROWS.get(op.name())
        if row is None:
            raise NotImplementedError(f"make_fx has no rule for the operator {op.name()}")
        return _apply(row(op, recording), args, kwargs)

    return handle


# ---- parts


@dataclass(eq=False)
class Part:
    """A function that an operator takes, as a trace of its own."""

    name: str  # of the module's attribute, without its number
    recording: Recording
    operands: _Tensors
    leaves: list[Any]  # of the result
    spec: Any
    gives_one: bool = False  # its module returns the result itself
    module: Any = None
    lifted: list[Any] = field(default_factory=list)  # of the node: all parts have the same placeholders

    @property
    def tensors(self) -> _Tensors:
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

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


def trace_part(outer: Recording, name: str, function: Callable[..., Any], operands: _Tensors) -> Part:
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
    given = [tracer.input(operand, f"arg{i}_1") for i, operand in enumerate(operands)]
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


# ---- nodes


@dataclass(eq=False)
class Operand:
    """Stands for a tensor in the arguments of a node."""

    index: int


@dataclass(eq=False)
class NumberOperand:
    """Stands for a symbolic number in the arguments of a node."""

    index: int


@dataclass(eq=False)
class Lifted:
    """Stands for the values that the parts of a node use, in a tuple of its arguments."""


@dataclass(eq=False)
class CallNode:
    """A `stator::traced_call` for `module.py`. Its tensors are those of the operator, then the lifted ones; so are its
    numbers."""

    op: Any
    args: Any  # with Operand, NumberOperand, Part and Lifted
    kwargs: dict[str, Any]
    parts: list[Part]
    lifted: list[Any]
    numbers: list[Any]


class Row(abc.ABC):
    """What is known of one operator. Subclasses say which functions it takes, and what its results are."""

    def __init__(self, op: Any, recording: Recording) -> None:
        self.op = op
        self.recording = recording
        self.operands: _Tensors = []  # flat
        self.numbers: list[Any] = []  # symbolic numbers among the operator's arguments
        self.parts: list[Part] = []

    @abc.abstractmethod
    def take(self, *args: Any, **kwargs: Any) -> None:
        """Takes the operator's arguments: sets `operands`, and traces the parts."""

    @abc.abstractmethod
    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        """The arguments of the node."""

    @abc.abstractmethod
    def results(self) -> _Tensors:
        """Fakes of the results; in the real mode they are computed."""

    def gradients(self, inputs: _Tensors, grads: _Tensors) -> list[Any]:
        """Of the operands and the lifted tensors, which are `inputs`."""
        raise RuntimeError(f"cannot be traced: make_fx has no gradient for the operator {self.op.name()}")

    # ---- helpers

    @property
    def is_real(self) -> bool:
        return bool(self.recording.options.tracing_mode == "real")

    def part(self, name: str, function: Callable[..., Any], operands: _Tensors) -> Part:
        part = trace_part(self.recording, name, function, operands)
        self.parts.append(part)
        return part

    @property
    def lifted(self) -> list[Any]:
        found = {lifted_key(value): value for part in self.parts for value in part.used()}
        return list(found.values())

    @property
    def lifted_tensors(self) -> _Tensors:
        return [value for value in self.lifted if isinstance(value, torch.Tensor)]

    def record(self) -> _Tensors:
        lifted = self.lifted
        for part in self.parts:
            part.lifted = lifted
        with torch.no_grad():
            with disable_tracing():
                # Results share no memory with operands.
                taken = {t.untyped_storage()._cdata for t in (*self.operands, *self.lifted_tensors)}
                results = [r.clone() if r.untyped_storage()._cdata in taken else r for r in self.results()]
            node = CallNode(
                self.op,
                self.arguments([Operand(i) for i in range(len(self.operands))], Lifted()),
                {},
                self.parts,
                lifted,
                self.numbers,
            )
            calls = self.recording.calls
            calls.append(node)
            numbers = self.numbers + [value for value in lifted if not isinstance(value, torch.Tensor)]
            self.recording.tracer.record_call(len(calls) - 1, self.operands + self.lifted_tensors, numbers, results)
        return results

    def run(self, part: Part, operands: _Tensors) -> _Tensors:
        """Computes a part, in the real mode."""
        from .module import build_part

        results = build_part(part)(*operands, *part.lifted)
        return [results] if part.gives_one else list(results)

    def like(self, part: Part, rows: Any = None) -> _Tensors:
        """Fakes of the part's results, with a first dimension of `rows`."""
        return [_empty(result, rows) for result in part.tensors]


def _empty(model: torch.Tensor, rows: Any = None) -> torch.Tensor:
    if rows is None:
        return torch.empty_strided(model.size(), model.stride(), dtype=model.dtype, device=model.device)
    return torch.empty((rows, *model.size()), dtype=model.dtype, device=model.device)


def _apply(row: Row, args: Any, kwargs: Any) -> Any:
    with torch.no_grad():
        row.take(*args, **kwargs)
    lifted = row.lifted_tensors
    inputs = row.operands + lifted
    if torch.is_grad_enabled() and not row.recording.options.pre_dispatch and any(t.requires_grad for t in inputs):
        results = list(_Differentiable.apply(row, *inputs))
    else:
        results = row.record()
    return row.unflatten(results) if isinstance(row, Structured) else tuple(results)


class _Differentiable(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, row: Row, *inputs: torch.Tensor) -> Any:
        ctx.row = row
        ctx.save_for_backward(*inputs)
        results = row.record()
        ctx.mark_non_differentiable(*[r for r in results if not (r.is_floating_point() or r.is_complex())])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return None, *ctx.row.gradients(list(ctx.saved_tensors), list(grads))


def vector_jacobian(function: Callable[..., Any], count: int, captured: _Tensors) -> Callable[..., Any]:
    """A function of `count` inputs and of gradients of the results: the gradients of the inputs and of the captured
    tensors, zeros where there are none."""

    def gradients(*args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given, grads = args[:count], args[count:]
        with torch.enable_grad():
            inputs = [t.detach().requires_grad_(t.is_floating_point() or t.is_complex()) for t in given]
            results = [r for r in pytree.tree_leaves(function(*inputs)) if isinstance(r, torch.Tensor)]
            pairs = [(r, g) for r, g in zip(results, grads, strict=True) if r.requires_grad]
            wanted = [t for t in (*inputs, *captured) if t.requires_grad]
            found: Any = [None] * len(wanted)
            if pairs and wanted:
                found = torch.autograd.grad([r for r, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True)
        by = {id(t): g for t, g in zip(wanted, found, strict=True)}
        made = [by.get(id(t)) for t in (*inputs, *captured)]
        return tuple(
            torch.zeros_like(t) if g is None else g.clone() for t, g in zip((*given, *captured), made, strict=True)
        )

    return gradients


# ---- the operators


class Structured(Row):
    """An operator whose result has the structure of what its first part returns."""

    def unflatten(self, results: _Tensors) -> Any:
        part, tensors = self.parts[0], iter(results)
        leaves = [next(tensors) if isinstance(leaf, torch.Tensor) else leaf for leaf in part.leaves]
        return pytree.tree_unflatten(leaves, part.spec)


class Cond(Structured):
    def take(self, pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> None:
        self.pred, self.functions = pred, (true_fn, false_fn)
        flat, spec = pytree.tree_flatten(tuple(operands))
        self.operands = ([pred] if isinstance(pred, torch.Tensor) else []) + flat
        self.numbers = [pred] if isinstance(pred, torch.SymBool) else []

        def flattened(function: Any) -> Any:
            return lambda *args: function(*pytree.tree_unflatten(args, spec))

        self.flat = [flattened(function) for function in self.functions]
        yes = self.part("true_graph", self.flat[0], flat)
        no = self.part("false_graph", self.flat[1], flat)
        _check_same(yes, no, "torch.cond: the branches")

    @property
    def inputs(self) -> _Tensors:
        return self.operands[1 if isinstance(self.pred, torch.Tensor) else 0 :]

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        pred, inputs = self.pred, operands
        if isinstance(self.pred, torch.Tensor):
            pred, *inputs = operands
        elif self.numbers:
            pred = NumberOperand(0)
        return pred, *self.parts, (*inputs, lifted)

    def results(self) -> _Tensors:
        if not self.is_real:
            return self.like(self.parts[0])
        return self.run(self.parts[0 if bool(self.pred) else 1], self.inputs)

    def gradients(self, inputs: _Tensors, grads: _Tensors) -> list[Any]:
        flat, captured = self.inputs, self.lifted_tensors
        functions = [vector_jacobian(function, len(flat), captured) for function in self.flat]
        found = list(self.op(self.pred, *functions, (*flat, *grads)))
        return [None] * (len(inputs) - len(flat) - len(captured)) + found


class WhileLoop(Row):
    def take(self, cond_fn: Any, body_fn: Any, carried: Any, additional: Any, *_: Any, **__: Any) -> None:
        if any(not isinstance(value, torch.Tensor) for value in carried):
            raise RuntimeError("cannot be traced: torch.while_loop carries an integer; carry a tensor")
        self.carried = list(carried)
        self.operands = [*carried, *additional]
        test = self.part("while_loop_cond_graph", cond_fn, self.operands)
        body = self.part("while_loop_body_graph", body_fn, self.operands)
        test.gives_one = True
        if len(test.tensors) != 1:
            raise RuntimeError("cannot be traced: torch.while_loop: the test must return one tensor")
        _check_like(self.carried, body.tensors, "torch.while_loop: the carried tensors and the results of the body")

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        count = len(self.carried)
        return *self.parts, tuple(operands[:count]), (*operands[count:], lifted)

    def results(self) -> _Tensors:
        if not self.is_real:
            return self.like(self.parts[1])
        count = len(self.carried)
        values, rest = [value.clone() for value in self.carried], self.operands[count:]
        while bool(self.run(self.parts[0], values + rest)[0]):
            values = self.run(self.parts[1], values + rest)
        return values


class Map(Structured):
    def take(self, function: Any, rows: Any, additional: Any) -> None:
        self.function, self.rows, self.additional = function, list(rows), list(additional)
        self.operands = self.rows + self.additional
        self.part("body_graph", function, _slices(self.rows) + self.additional)

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        count = len(self.rows)
        return *self.parts, list(operands[:count]), (*operands[count:], lifted)

    def results(self) -> _Tensors:
        count = self.rows[0].shape[0]
        if not self.is_real:
            return self.like(self.parts[0], count)
        made = [self.run(self.parts[0], [row[i] for row in self.rows] + self.additional) for i in range(count)]
        return [torch.stack(results) for results in zip(*made, strict=True)]

    def gradients(self, inputs: _Tensors, grads: _Tensors) -> list[Any]:
        rows, rest, captured = len(self.rows), len(self.additional), self.lifted_tensors
        inner = vector_jacobian(self.function, rows + rest, captured)

        def backward(*args: Any) -> Any:
            xs, gs, shared = args[:rows], args[rows : rows + len(grads)], args[rows + len(grads) :]
            return inner(*xs, *shared, *gs)

        found = list(self.op(backward, [*self.rows, *grads], tuple(self.additional)))
        return found[:rows] + [g.sum(0) for g in found[rows:]]


class Scan(Row):
    def take(self, function: Any, init: Any, rows: Any, additional: Any) -> None:
        self.function, self.init = function, list(init)
        self.rows, self.additional = list(rows), list(additional)
        self.operands = self.init + self.rows + self.additional
        body = self.part("scan_combine_graph", function, self.init + _slices(self.rows) + self.additional)
        _check_like(self.init, body.tensors[: len(self.init)], "torch.scan: the initial and the carried tensors")

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        first, last = len(self.init), len(self.init) + len(self.rows)
        return *self.parts, list(operands[:first]), list(operands[first:last]), (*operands[last:], lifted)

    def results(self) -> _Tensors:
        body, first, count = self.parts[0], len(self.init), self.rows[0].shape[0]
        if not self.is_real:
            return self.like(body)[:first] + self.like(body, count)[first:]
        carry, made = self.init, []
        for i in range(count):
            results = self.run(body, carry + [row[i] for row in self.rows] + self.additional)
            carry = results[:first]
            made.append(results[first:])
        return carry + [torch.stack(results) for results in zip(*made, strict=True)]

    def gradients(self, inputs: _Tensors, grads: _Tensors) -> list[Any]:
        first, rows, rest, captured = len(self.init), len(self.rows), len(self.additional), self.lifted_tensors
        additional, count = tuple(self.additional), len(self.init) + len(self.rows) + len(self.additional)

        def forward(*args: Any) -> Any:
            results = pytree.tree_leaves(self.function(*args))
            return *results[:first], *[carry.clone() for carry in args[:first]]

        carries = list(self.op(forward, self.init, self.rows, additional))[first:]
        inner = vector_jacobian(self.function, count, captured)

        def backward(*args: Any) -> Any:
            # What was added up so far of the carries, the additional inputs and the captured tensors; then a row.
            sums, shared = args[: first + rest + len(captured)], args[len(args) - rest :]
            row = args[len(sums) : len(args) - rest]
            found = inner(*row[: first + rows], *shared, *sums[:first], *row[first + rows :])
            later = [total + g for total, g in zip(sums[first:], found[first + rows :], strict=True)]
            return *found[:first], *later, *found[first : first + rows]

        zeros = [torch.zeros_like(t) for t in (*additional, *captured)]
        reversed_rows = [t.flip([0]) for t in (*carries, *self.rows, *grads[first:])]
        found = list(self.op(backward, [*grads[:first], *zeros], reversed_rows, additional))
        sums = first + len(zeros)
        return found[:first] + [g.flip([0]) for g in found[sums:]] + found[first:sums]


class AssociativeScan(Row):
    def take(self, function: Any, rows: Any, additional: Any) -> None:
        self.rows, self.additional = list(rows), list(additional)
        self.operands = self.rows + self.additional
        slices = _slices(self.rows) + _slices(self.rows)
        self.part("associative_scan_combine_graph", function, slices + self.additional)

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        count = len(self.rows)
        return *self.parts, list(operands[:count]), (*operands[count:], lifted)

    def results(self) -> _Tensors:
        body, count = self.parts[0], self.rows[0].shape[0]
        if not self.is_real:
            return self.like(body, count)
        made = [[row[0] for row in self.rows]]
        for i in range(1, count):
            made.append(self.run(body, made[-1] + [row[i] for row in self.rows] + self.additional))
        return [torch.stack(results) for results in zip(*made, strict=True)]


class InvokeSubgraph(Structured):
    def take(self, subgraph: Any, identifier: Any, *operands: Any) -> None:
        self.function, self.identifier = subgraph, identifier
        self.operands = list(operands)
        self.part("repeated_subgraph", subgraph, self.operands)

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        return self.parts[0], self.identifier, *operands, lifted

    def results(self) -> _Tensors:
        return self.run(self.parts[0], self.operands) if self.is_real else self.like(self.parts[0])

    def gradients(self, inputs: _Tensors, grads: _Tensors) -> list[Any]:
        backward = vector_jacobian(self.function, len(self.operands), self.lifted_tensors)
        return list(self.op(backward, f"{self.identifier}_backward", *self.operands, *grads))


ROWS: dict[str, Any] = {
    "cond": Cond,
    "while_loop": WhileLoop,
    "map_impl": Map,
    "scan": Scan,
    "associative_scan": AssociativeScan,
    "invoke_subgraph": InvokeSubgraph,
}


def _slices(rows: _Tensors) -> _Tensors:
    """A row of each; not recorded."""
    with disable_tracing():
        return [_empty(row[0]) for row in rows]


def _check_same(a: Part, b: Part, what: str) -> None:
    if a.spec != b.spec:
        raise RuntimeError(f"cannot be traced: {what} return different structures: {a.spec} and {b.spec}")
    _check_like(a.tensors, b.tensors, what)


def _check_like(a: _Tensors, b: _Tensors, what: str) -> None:
    def described(tensors: _Tensors) -> list[Any]:
        return [(t.dtype, tuple(t.size()), t.device) for t in tensors]

    if described(a) != described(b):
        raise RuntimeError(f"cannot be traced: {what} differ: {described(a)} and {described(b)}")
