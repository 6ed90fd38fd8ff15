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


def _distinct(operands: _Tensors) -> _Tensors:
    """A tensor that is given twice is two inputs of the part: in another run they are others."""
    known: set[int] = set()
    distinct = []
    with disable_tracing():
        for operand in operands:
            distinct.append(_empty(operand) if id(operand) in known else operand)
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
    result: Any  # what the operator returns: the numbers of its results in tuples and lists
    keeps_operands: bool = False  # for compilers: the node has the values of its operands


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

    def keywords(self) -> dict[str, Any]:
        """The keyword arguments of the node."""
        return {}

    @abc.abstractmethod
    def results(self) -> _Tensors:
        """Fakes of the results; in the real mode they are computed."""

    def keeps_operands(self) -> bool:
        return False

    def result(self, count: int) -> Any:
        """What the operator returns, with the numbers of its `count` results in their places."""
        return tuple(range(count))

    def unflatten(self, results: _Tensors) -> Any:
        """What the program gets."""
        return tuple(results)

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
                self.keywords(),
                self.parts,
                lifted,
                self.numbers,
                self.result(len(results)),
                self.keeps_operands(),
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
    return row.unflatten(results)


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
        again = torch.is_grad_enabled()  # these gradients are differentiated themselves

        def input_of(tensor: torch.Tensor) -> torch.Tensor:
            if again and tensor.requires_grad:
                return tensor.view_as(tensor)
            return tensor.detach().requires_grad_(tensor.is_floating_point() or tensor.is_complex())

        with torch.enable_grad():
            inputs = [input_of(tensor) for tensor in given]
            results = [r for r in pytree.tree_leaves(function(*inputs)) if isinstance(r, torch.Tensor)]
            pairs = [(r, g) for r, g in zip(results, grads, strict=True) if r.requires_grad]
            wanted = [t for t in (*inputs, *captured) if t.requires_grad]
            found: Any = [None] * len(wanted)
            if pairs and wanted:
                found = torch.autograd.grad(
                    [r for r, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True, create_graph=again
                )
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
    """Integers are carried as tensors: the parts read them, and what they are afterwards depends on data."""

    def take(self, cond_fn: Any, body_fn: Any, carried: Any, additional: Any, *_: Any, **__: Any) -> None:
        self.is_number = [not isinstance(value, torch.Tensor) for value in carried]
        self.carried = [_as_tensor(value) for value in carried]
        self.additional = [value for value in additional if isinstance(value, torch.Tensor)]
        self.operands = [*self.carried, *self.additional]

        def given(args: Any) -> list[Any]:
            count, tensors = len(self.carried), iter(args[len(self.carried) :])
            rest = [next(tensors) if isinstance(value, torch.Tensor) else value for value in additional]
            return [
                a.item() if is_number else a for a, is_number in zip(args[:count], self.is_number, strict=True)
            ] + rest

        def test(*args: torch.Tensor) -> torch.Tensor:
            return _as_tensor(cond_fn(*given(args)))

        def body(*args: torch.Tensor) -> list[torch.Tensor]:
            leaves = pytree.tree_leaves(body_fn(*given(args)))
            if [isinstance(leaf, torch.Tensor) for leaf in leaves] == [not number for number in self.is_number]:
                return [_as_tensor(leaf) for leaf in leaves]
            raise RuntimeError(
                "cannot be traced: torch.while_loop: the body must return a tensor for each tensor that the loop "
                "carries, and a number for each number"
            )

        self.test, self.body = test, body
        self.part("while_loop_cond_graph", test, self.operands).gives_one = True
        made = self.part("while_loop_body_graph", body, self.operands)
        _check_like(self.carried, made.tensors, "torch.while_loop: the carried tensors and the results of the body")

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        count = len(self.carried)
        return *self.parts, tuple(operands[:count]), (*operands[count:], lifted)

    def results(self) -> _Tensors:
        if not self.is_real:
            return self.like(self.parts[1])
        return [value.clone() for value in self.carried] if not (made := self.iterations()) else made[-1]

    def iterations(self) -> list[_Tensors]:
        """What each run of the body returns, in the real mode."""
        made, values = [], self.carried
        while bool(self.run(self.parts[0], values + self.additional)[0]):
            values = self.run(self.parts[1], values + self.additional)
            made.append(values)
        return made

    def unflatten(self, results: _Tensors) -> Any:
        options = self.recording.options
        if any(self.is_number) and self.is_real and options.error_on_data_dependent_ops:
            raise RuntimeError(
                "cannot be traced: torch.while_loop returns a number that depends on data; carry a tensor, or trace "
                'with tracing_mode="fake" or "symbolic"'
            )
        return tuple(r.item() if is_number else r for r, is_number in zip(results, self.is_number, strict=True))

    def gradients(self, inputs: _Tensors, grads: _Tensors) -> list[Any]:
        count, rest, captured = len(self.carried), len(self.additional), self.lifted_tensors
        additional, sums = tuple(self.additional), count + len(self.additional) + len(captured)

        # Once more, with the number of the iteration and what the iteration was given as further carries.
        def forward(number: torch.Tensor, *args: torch.Tensor) -> Any:
            carried, shared = args[:count], args[2 * count :]
            return number + 1, *self.body(*carried, *shared), *[value.clone() for value in carried]

        def test(number: torch.Tensor, *args: torch.Tensor) -> Any:
            return self.test(*args[:count], *args[2 * count :])

        first = (torch.zeros((), dtype=torch.int64), *self.carried, *self.carried)
        stack = torch.ops.higher_order.while_loop_stack_output(test, forward, first, additional)
        number, given = stack[0].select(0, -1), stack[1 + count :]
        inner = vector_jacobian(self.body, count + rest, captured)

        def backward(number: torch.Tensor, *args: torch.Tensor) -> Any:
            given, shared = args[sums : sums + count], args[sums + count :]
            row = [value.index_select(0, number.reshape(1)).squeeze(0) for value in given]
            found = inner(*row, *shared, *args[:count])
            totals = [total + g for total, g in zip(args[count:sums], found[count:], strict=True)]
            return number - 1, *found[:count], *totals

        zeros = [torch.zeros_like(t) for t in (*additional, *captured)]
        carried = (number - 1, *grads, *zeros)
        return list(self.op(lambda number, *_: number >= 0, backward, carried, (*given, *additional)))[1:]


class WhileLoopStack(WhileLoop):
    """Returns the carried tensors of all iterations, stacked; the initial ones if there was none."""

    def results(self) -> _Tensors:
        if not self.is_real:
            return self.like(self.parts[1], _unknown_size())
        made = self.iterations() or [self.carried]
        return [torch.stack(values) for values in zip(*made, strict=True)]

    def gradients(self, inputs: _Tensors, grads: _Tensors) -> list[Any]:
        return Row.gradients(self, inputs, grads)


def _as_tensor(value: Any) -> torch.Tensor:
    """A tensor of a number that a loop carries, or of its test."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, (bool, torch.SymBool)):
        return torch.scalar_tensor(torch.sym_ite(value, 1, 0), dtype=torch.bool)
    if isinstance(value, (int, torch.SymInt)):
        return torch.scalar_tensor(value, dtype=torch.int64)
    raise RuntimeError(f"cannot be traced: torch.while_loop: a loop cannot carry a {type(value).__name__}")


def _unknown_size() -> Any:
    """A size that depends on data. Not recorded; for fakes."""
    return torch.empty(1).nonzero().shape[0]


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
        self.function, self.rows, self.additional = function, list(rows), list(additional)
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

    def gradients(self, inputs: _Tensors, grads: _Tensors) -> list[Any]:
        """From the last row to the first: a result combines the result before it with a row; the first is a row."""
        count, rest, captured = len(self.rows), len(self.additional), self.lifted_tensors
        additional = tuple(self.additional)
        made = self.op(self.function, self.rows, additional)
        before = [torch.cat([row[:1], result[:-1]]) for row, result in zip(self.rows, made, strict=True)]
        is_first = torch.cumsum(torch.ones_like(self.rows[0].flatten(1)[:, 0], dtype=torch.int64), 0) == 1
        inner = vector_jacobian(self.function, 2 * count + rest, captured)

        def backward(*args: torch.Tensor) -> Any:
            # The gradient that the later rows give, and what was added up so far; then a row.
            sums, shared = args[count : count + rest + len(captured)], args[len(args) - rest :]
            row = args[count + len(sums) : len(args) - rest]
            is_first, totals = row[0], [a + b for a, b in zip(args[:count], row[1 : 1 + count], strict=True)]
            found = inner(*row[1 + count :], *shared, *totals)
            shares = [torch.where(is_first, torch.zeros_like(g), g) for g in (*found[:count], *found[2 * count :])]
            own = [torch.where(is_first, t, g) for t, g in zip(totals, found[count : 2 * count], strict=True)]
            return *shares[:count], *[a + b for a, b in zip(sums, shares[count:], strict=True)], *own

        zeros = [torch.zeros_like(t) for t in (*[row[0] for row in self.rows], *additional, *captured)]
        rows = [t.flip([0]) for t in (is_first, *grads, *before, *self.rows)]
        found = list(torch.ops.higher_order.scan(backward, zeros, rows, additional))
        first = len(zeros)
        return [g.flip([0]) for g in found[first:]] + found[count:first]


class InvokeSubgraph(Structured):
    def take(self, subgraph: Any, identifier: Any, *operands: Any) -> None:
        self.function, self.identifier = subgraph, identifier
        self.operands = list(operands)
        self.part("repeated_subgraph", subgraph, self.operands)

    def arguments(self, operands: list[Any], lifted: Any) -> tuple[Any, ...]:
        return self.parts[0], self.identifier, *operands, lifted

    def keeps_operands(self) -> bool:
        return True

    def results(self) -> _Tensors:
        return self.run(self.parts[0], self.operands) if self.is_real else self.like(self.parts[0])

    def gradients(self, inputs: _Tensors, grads: _Tensors) -> list[Any]:
        backward = vector_jacobian(self.function, len(self.operands), self.lifted_tensors)
        return list(self.op(backward, f"{self.identifier}_backward", *self.operands, *grads))


ROWS: dict[str, Any] = {
    "cond": Cond,
    "while_loop": WhileLoop,
    "while_loop_stack_output": WhileLoopStack,
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
