"""Functionalisation against eager: outputs, inputs afterwards, aliasing."""

import pytest
import torch

import stator
from stator import passes
from tests.python.captured import watched
from tests.python.passes.programs import PROGRAMS
from tests.python.passes.tracing import check_run, tensors, trace

# Operators that may stay although they write: to inputs at the end, or to a copy that nobody else sees.
AT_END = {"copy_", "resize_", "set_", "t_", "transpose_"}


def writes(graph):
    def is_mutable(name, overload):
        op = getattr(getattr(torch.ops.aten, name), overload or "default")
        return op._schema.is_mutable

    return [
        name.removeprefix("aten::")
        for name, overload, *_ in graph.nodes()
        if name.startswith("aten::") and is_mutable(name.removeprefix("aten::"), overload)
    ]


# Programs with tensors that Python makes from numbers: only a capture traces those.
NEEDS_CAPTURE = {
    "index_put",
    "lerp_and_friends",
    "loop_over_rows",
    "mask_assign",
    "mask_assign_input",
    "masked_writes",
    "out_of_other_dtype",
    "out_resized",
    "out_view",
    "promoted_write",
    "random_writes",
    "reshape_that_aliases",
    "scatter_writes",
    "sorts_into",
    "squeeze_in_place",
    "strided_input",
    "two_views_of_one_base",
    "view_as_real",
}
# Programs that a capture breaks at.
NOT_CAPTURED = {"data_and_set", "resize_input", "resize_smaller"}
# Programs that the reference executor runs for any backend: they write to elements that share memory.
NOT_FOR_BACKENDS = {"fill_expanded", "foreach_in_one_memory", "inputs_in_one_memory"}


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - NOT_CAPTURED))
def test_captured_program(name):
    """The capture as a functional ATen graph, by the backend "aten_eager"."""
    fn, inputs = PROGRAMS[name]
    seen = []
    stator.reset()
    compiled = stator.compile(fn, fullgraph=True, backend="aten_eager", options={"aten_graphs": seen.append})
    check_run(lambda *given: tensors(compiled(*given)), fn, inputs)
    if name in NOT_FOR_BACKENDS:
        assert seen == []
        return
    assert len(seen) == 1
    on_copies = {op.removeprefix("aten::").split(".")[0] for op in seen[0].on_copies}
    assert set(writes(seen[0].graph)) <= AT_END | on_copies, seen[0].graph.text()


@pytest.mark.parametrize("aten", [False, True], ids=["above", "below"])
@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - NEEDS_CAPTURE))
def test_program(name, aten):
    fn, inputs = PROGRAMS[name]
    graph = trace(fn, inputs())
    functional = passes.functionalize(graph, aten=aten)
    on_copies = {op.removeprefix("aten::").split(".")[0] for op in functional.on_copies}
    assert set(writes(functional.graph)) <= AT_END | on_copies, functional.graph.text()
    check_run(functional.graph, fn, inputs)
    check_run(passes.eliminate_dead_code(functional.graph), fn, inputs)
    check_run(passes.merge_common_subexpressions(functional.graph), fn, inputs)


def test_mutations_are_listed_and_the_new_contents_are_outputs():
    def fn(x, y, z):
        x.add_(1)
        z.t_()
        return x * y

    inputs = [torch.randn(2, 3), torch.randn(2, 3), torch.randn(2, 3)]
    graph = trace(fn, inputs)
    kept = passes.functionalize(graph)
    assert [(m.input, m.data, m.metadata) for m in kept.mutations] == [(0, True, False), (2, False, True)]
    pure = passes.functionalize(graph, write_back=False)
    assert not writes(pure.graph)
    before = [tensor.clone() for tensor in inputs]
    updated, transposed, result = pure.graph(*inputs)
    assert all(torch.equal(now, then) for now, then in zip(inputs, before, strict=True))
    assert torch.equal(updated, before[0] + 1) and torch.equal(result, (before[0] + 1) * before[1])
    assert torch.equal(transposed, before[2].t())


def test_facts_of_outputs():
    def fn(x):
        y = x + 1
        y.mul_(2)
        return x, x[0], y, y.view(-1), y, x.sin()

    facts = passes.functionalize(trace(fn, [torch.randn(2, 3)])).outputs
    assert facts == [
        ("input", 0),
        ("view_of_input", 0),
        ("own", 0),
        ("shares_with_output", 2),
        ("same_as_output", 2),
        ("own", 0),
    ]


def test_an_operator_without_functional_form_writes_to_a_copy():
    functional = passes.functionalize(trace(lambda x: x.clone().fill_diagonal_(3), [torch.randn(3, 3)]))
    assert functional.on_copies == ["aten::fill_diagonal_"]


def test_function_front_door():
    def fn(x, rest):
        x[0].add_(rest["y"])
        return {"sum": x.sum(0), "view": x[1:], "number": 3}

    eager, mine = torch.randn(3, 4), None
    mine = eager.clone()
    y = torch.randn(4)
    want, got = fn(eager, {"y": y}), stator.functionalize(fn)(mine, {"y": y})
    assert torch.equal(mine, eager) and torch.equal(got["sum"], want["sum"]) and got["number"] == 3
    assert got["view"].untyped_storage().data_ptr() == mine.untyped_storage().data_ptr()


def test_symbolic_sizes():
    """Views are made again with the sizes of the run."""

    def fn(x):
        y = x * 2
        y[1:].view(-1)[: x.shape[1]].add_(x.shape[0])
        y.t()[0].mul_(3)
        return y, y.view(x.shape[0] * x.shape[1]), y[:, 1:]

    stator.reset()
    with watched() as records:
        stator.compile(fn, fullgraph=True, dynamic=True)(torch.ones(3, 4))
    (graph,) = [record["graph"] for record in records]
    for made in [passes.functionalize(graph), passes.functionalize(passes.lower(graph))]:
        assert "stator::size" in made.graph.text() and not writes(made.graph)
        for shape in [(3, 4), (5, 2), (4, 7)]:
            check_run(made.graph, fn, lambda shape=shape: [torch.ones(shape) * 1.5])


@pytest.mark.parametrize("settings", [{}, {"dynamic": True}])
def test_sizes_that_change_are_captured_apart(settings):
    seen = []
    compiled = stator.compile(
        lambda x: x.view(x.size(0) * 3).add_(1), backend="aten_eager", options={"aten_graphs": seen.append}, **settings
    )
    for n in (2, 4, 5, 4):
        assert torch.equal(compiled(torch.zeros(n, 3)), torch.ones(n * 3))
    assert len(seen) == 3


def test_a_marked_dimension():
    compiled = stator.compile(lambda x: x.view(x.size(0) * 3) + 1, backend="aten_eager")
    for n in (2, 4):
        x = torch.zeros(n, 3)
        stator.mark_dynamic(x, 0)
        assert torch.equal(compiled(x), torch.ones(n * 3))


def changes(x):
    flat = x.view(-1)
    flat.add_(1)
    x[0].mul_(2)
    return x.sum(), flat


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_inside_make_fx(mode):
    module = stator.make_fx(stator.functionalize(changes), tracing_mode=mode)(torch.zeros(3, 4))
    written = [n.target for n in module.graph.nodes if n.op == "call_function" and "_." in str(n.target)]
    assert written == [torch.ops.aten.copy_.default]
    check_run(module, changes, lambda: [torch.ones(5, 2) if mode == "symbolic" else torch.ones(3, 4)])


def test_gradients_inside():
    def gradient(w):
        return torch.autograd.grad((w * w).sum(), w)[0].add_(1)

    w = torch.ones(3, requires_grad=True)
    for run in [stator.functionalize(gradient), stator.make_fx(stator.functionalize(gradient))(w)]:
        assert torch.equal(run(w), torch.full((3,), 3.0))


def test_one_tensor_twice_and_tensors_from_outside():
    outside, x = torch.zeros(2), torch.ones(2)

    def fn(a, b, *, flag):
        outside.add_(a)
        a.mul_(2)
        return a + b if flag else b

    got = stator.functionalize(fn)(x, x, flag=True)
    assert got.tolist() == [4.0, 4.0] and x.tolist() == [2.0, 2.0] and outside.tolist() == [1.0, 1.0]


def test_a_twin_that_returns_its_operand():
    """`conj_physical` of a real tensor is the tensor itself; with `out`, it is copied."""

    def fn(x):
        out = torch.zeros_like(x)
        torch.conj_physical(x, out=out)
        return out.add_(1)

    check_run(lambda *given: tensors(stator.functionalize(fn)(*given)), fn, lambda: [torch.ones(3)])
