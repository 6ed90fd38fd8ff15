"""Operators that a user registers: those with a meta kernel are recorded as one node, the others break."""

import pytest
import torch

import stator
from stator import _C

_fake = _C._fake


@torch.library.custom_op("stator_test::halves", mutates_args=())
def halves(x: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    half = x.shape[0] // 2
    return x[:half] * scale, x[half:].clone()


@halves.register_fake
def _(x, scale):
    half = x.shape[0] // 2
    return x.new_empty((half, *x.shape[1:])), x.new_empty((x.shape[0] - half, *x.shape[1:]))


def halves_backward(ctx, first, second):
    return torch.cat([first * ctx.scale, second]), None


def halves_setup(ctx, inputs, output):
    ctx.scale = inputs[1]


halves.register_autograd(halves_backward, setup_context=halves_setup)


@torch.library.custom_op("stator_test::add_one_", mutates_args=("x",))
def add_one_(x: torch.Tensor) -> None:
    x.add_(1)


@add_one_.register_fake
def _(x):
    return None


@torch.library.custom_op("stator_test::without_fake", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("stator_test::sized_by_values", mutates_args=())
def sized_by_values(x: torch.Tensor) -> torch.Tensor:
    return x.nonzero()


@sized_by_values.register_fake
def _(x):
    count = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty((count, x.dim()), dtype=torch.int64)


LIBRARY = torch.library.Library("stator_test", "FRAGMENT")
LIBRARY.define("twice(Tensor x) -> Tensor")
LIBRARY.define("head(Tensor(a) x) -> Tensor(a)")
LIBRARY.define("bare(Tensor x) -> Tensor")
LIBRARY.define("late(Tensor x) -> Tensor")
LIBRARY.impl("bare", lambda x: x * 2, "CPU")
LIBRARY.impl("late", lambda x: x * 2, "CPU")
LIBRARY.impl("twice", lambda x: x * 2, "CPU")
LIBRARY.impl("twice", lambda x: torch.empty_like(x), "Meta")
LIBRARY.impl("head", lambda x: x[:1], "CPU")
LIBRARY.impl("head", lambda x: x[:1], "Meta")


def trace(fn, *inputs):
    tracer = _C.Tracer("traced", aten=True)
    outputs = tracer.call(fn, *[tracer.input(tensor, f"x{i}") for i, tensor in enumerate(inputs)])
    return tracer.finish(outputs if isinstance(outputs, (list, tuple)) else [outputs])


def names(graph):
    return [node[0] for node in graph.nodes()]


def test_one_node_with_its_own_gradient():
    x = torch.randn(5, 3, requires_grad=True)
    _fake.reset_tier_counts()
    graph = trace(lambda x: halves(x, 3.0), x)
    assert _fake.tier_counts()["python"] == 1
    assert names(graph) == ["stator_test::halves"] and names(graph.aten) == ["stator_test::halves"]
    got, wanted = graph(x), halves(x, 3.0)
    for mine, theirs in zip(got, wanted, strict=True):
        assert torch.equal(mine, theirs) and mine.requires_grad
    (mine,) = torch.autograd.grad([t.sum() for t in got], x)
    (theirs,) = torch.autograd.grad([t.sum() for t in wanted], x)
    assert torch.equal(mine, theirs)


def test_a_written_argument_stays_itself():
    def program(x):
        y = x * 2
        torch.ops.stator_test.add_one_(y)
        return y + 1

    x = torch.randn(3)
    graph = trace(program, x)
    assert names(graph) == ["aten::mul", "stator_test::add_one_", "aten::add"]
    assert torch.equal(graph(x)[0], program(x))
    assert torch.equal(graph.aten(x)[0], program(x))


def test_a_meta_kernel_of_a_library():
    x = torch.randn(4, 4).t()
    graph = trace(torch.ops.stator_test.twice, x)
    assert names(graph) == ["stator_test::twice"]
    assert graph(x)[0].stride() == graph.meta(graph.outputs[0])[2]


@pytest.mark.parametrize(
    "op,why",
    [
        (without_fake, "meta kernel raised: .*no fake impl"),
        (sized_by_values, "meta kernel raised"),
        (torch.ops.stator_test.head, "view"),
        (torch.ops.stator_test.bare, "no shape function"),
    ],
    ids=["without_fake", "sized_by_values", "view", "bare"],
)
def test_the_others_break(op, why):
    with pytest.raises(RuntimeError, match=f"cannot be traced: .*{why}"):
        trace(op, torch.randn(3))


def test_a_meta_kernel_that_comes_later():
    x = torch.randn(3)
    with pytest.raises(RuntimeError, match="no shape function"):
        trace(torch.ops.stator_test.late, x)
    torch.library.register_fake("stator_test::late", torch.empty_like, lib=LIBRARY)
    assert names(trace(torch.ops.stator_test.late, x)) == ["stator_test::late"]


def test_the_kernel_itself_runs_with_the_graph_alone():
    runs = []

    @torch.library.custom_op("stator_test::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        runs.append(tuple(x.shape))
        return x + 1

    counted.register_fake(torch.empty_like)
    x = torch.randn(3)
    graph = trace(counted, x)
    assert not runs
    assert torch.equal(graph(x)[0], x + 1) and runs == [(3,)]


def test_compiled():
    def program(x):
        a, b = torch.ops.stator_test.halves(x.sin(), 2.0)
        return a.sum() + b.sum()

    stator.reset()
    compiled = stator.compile(program)
    for _ in range(2):
        x = torch.randn(4, 2, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        compiled(x).backward()
        program(y).backward()
        assert torch.equal(x.grad, y.grad)
