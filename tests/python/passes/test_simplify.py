"""Dead code, common subexpressions, constant folding, equality: each against eager."""

import pytest
import torch

from stator import _C, passes
from tests.python.passes.programs import PROGRAMS
from tests.python.passes.test_functionalize import NEEDS_CAPTURE
from tests.python.passes.tracing import check_run, ops, trace

PASSES = [passes.eliminate_dead_code, passes.merge_common_subexpressions, passes.fold_constants, passes.retrace]


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - NEEDS_CAPTURE))
def test_programs_that_write_stay_what_they_are(name):
    fn, inputs = PROGRAMS[name]
    graph = trace(fn, inputs())
    for run in PASSES:
        check_run(run(graph), fn, inputs)
        check_run(run(graph.aten), fn, inputs)


def test_dead_code():
    def fn(x):
        x.cos()
        y = x + 1
        y.add_(1)  # nothing reads it
        z = x * 2
        z[0].mul_(3)  # read through its base
        x.sin().add_(1)
        return z

    graph = trace(fn, [torch.randn(2, 3)])
    assert ops(passes.eliminate_dead_code(graph)) == ["mul", "select", "mul_"]
    assert ops(passes.eliminate_dead_code(graph.aten)) == ["mul", "select", "mul_"]


def test_effects_are_no_dead_code():
    def fn(x):
        torch.rand_like(x)
        torch.linalg.inv(x)  # raises for a singular matrix
        torch._assert_async(x.sum() > 0)
        x.add_(1)
        return x.sin()

    kept = ops(passes.eliminate_dead_code(trace(fn, [torch.ones(2, 2)])))
    assert kept == ["rand_like", "linalg_inv", "sum", "gt", "_assert_async", "add_", "sin"]


def test_common_subexpressions():
    def fn(x, y):
        return (x.sin() + y) * (x.sin() + y), x.cos()

    graph = passes.merge_common_subexpressions(trace(fn, [torch.randn(3), torch.randn(3)]))
    assert ops(graph) == ["sin", "add", "mul", "cos"]
    check_run(graph, fn, lambda: [torch.ones(3), torch.ones(3)])


def test_a_write_between_keeps_them_apart():
    def fn(x):
        a = x.sin()
        x.add_(1)
        b = x.sin()
        c = x.sin()
        return a + b + c

    merged = passes.merge_common_subexpressions(trace(fn, [torch.randn(3)]))
    assert ops(merged) == ["sin", "add_", "sin", "add", "add"]
    check_run(merged, fn, lambda: [torch.ones(3)])


def test_results_that_are_written_or_leave_stay_apart():
    def fn(x):
        a, b = x.sin(), x.sin()
        b.add_(1)
        return a, b, x.cos(), x.cos(), x.bernoulli() - x.bernoulli()

    graph = trace(fn, [torch.randn(3)])
    merged = passes.merge_common_subexpressions(graph)
    assert ops(merged) == ops(graph)


def test_constants_are_folded_up_to_a_limit():
    text = """graph "g" (%x: float32[3]) {
  state 0 no_grad
  %small: float32[3] = aten::full([3], 2.0)
  %more: float32[3] = aten::add.Tensor(%small, %small)
  %large: float32[2000] = aten::full([2000], 1.0)
  %sum: float32[] = aten::sum(%large)
  %y: float32[3] = aten::mul.Tensor(%x, %more)
  %z: float32[3] = aten::add.Tensor(%y, %sum)
  return (%z)
}"""
    graph = _C.Graph.parse(text)
    folded = passes.fold_constants(graph)
    assert ops(folded) == ["full", "sum", "mul", "add"]
    assert ops(passes.fold_constants(graph, 4000)) == ["mul", "add"]
    x = torch.randn(3)
    assert torch.equal(graph(x)[0], folded(x)[0])
    assert _C.Graph.parse(*folded.parts()).text() == folded.text()


def test_constants_that_are_written_or_leave_are_made_in_each_run():
    text = """graph "g" (%x: float32[3]) {
  state 0 no_grad
  %a: float32[3] = aten::full([3], 2.0)
  %a = aten::add_.Tensor(%a, %x)
  %b: float32[3] = aten::zeros([3])
  %r: float32[3] = aten::rand([3])
  return (%a, %b, %r)
}"""
    graph = _C.Graph.parse(text)
    assert ops(passes.fold_constants(graph)) == ["full", "add_", "zeros", "rand"]


def test_equality_is_up_to_names():
    first = trace(lambda x: x.sin() + 1, [torch.randn(3)])
    second = trace(lambda x: torch.sin(x) + 1, [torch.randn(3)])
    assert passes.equal(first, second)
    assert passes.difference(first, trace(lambda x: x.sin() + 2, [torch.randn(3)])) == (
        "node 1: aten::add.Tensor: argument other differs"
    )
    assert passes.difference(first, trace(lambda x: x.cos() + 1, [torch.randn(3)])) == "node 0: aten::sin and aten::cos"
    assert "input 0" in passes.difference(first, trace(lambda x: x.sin() + 1, [torch.randn(4)]))
    renamed = _C.Graph.parse(first.text().replace("%x0", "%other").replace('"traced"', '"name"'))
    assert passes.difference(first.aten, passes.retrace(first).aten) == ""
    assert passes.difference(_C.Graph.parse(first.text()), renamed) == ""


def test_retrace_makes_the_same_graph():
    for name in sorted(PROGRAMS.keys() - NEEDS_CAPTURE):
        fn, inputs = PROGRAMS[name]
        graph = trace(fn, inputs())
        assert passes.difference(passes.retrace(graph), graph) == "", name
