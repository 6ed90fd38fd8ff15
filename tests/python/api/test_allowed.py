"""Functions that are allowed in graphs."""

import os
import weakref

import pytest
import torch

import stator
from tests.python.helpers import collect


@pytest.fixture
def x():
    return torch.ones(3)


def broken(a):
    stator.graph_break()
    return a * 2


def marks():
    import torch._dynamo

    return [
        stator.allow_in_graph,
        stator.nonstrict_trace,
        torch._dynamo.allow_in_graph,
        torch.compiler.allow_in_graph,
        torch._dynamo.nonstrict_trace,
    ]


@pytest.mark.parametrize("which", range(5), ids=["own", "own trace", "dynamo", "compiler", "trace"])
def test_functions_that_are_allowed(which, x, K):
    def helper(a, options):
        stator.graph_break()
        return {"sum": a.sum() * options["scale"], "twice": [broken(a)]}

    allowed = marks()[which](helper)

    def fn(a):
        made = allowed(a.sin(), {"scale": 3})
        return made["sum"], made["twice"][0] + 1

    assert [t.tolist() for t in stator.compile(fn, backend=K, fullgraph=True)(x)] == [t.tolist() for t in fn(x)]
    assert K.count == 1

    def other(a):
        stator.graph_break()
        return a + 1

    with pytest.raises(stator.Unsupported):
        stator.compile(lambda a: other(a) * 2, backend=K, fullgraph=True)(x)


def equal(one, other):
    assert [t.tolist() for t in one] == [t.tolist() for t in other]


@pytest.mark.parametrize("which", range(5), ids=["own", "own trace", "dynamo", "compiler", "trace"])
def test_one_that_is_not_understood_is_a_node(which, x, K):
    calls = []

    def helper(a, options, *, scale):
        calls.append(os.getpid())
        return {"both": [a * options["k"] * scale, a + options["t"]], "kind": (a.ndim, "one")}

    allowed = marks()[which](helper)

    def fn(a):
        made = a.sin()
        for i in range(3):
            parts = allowed(made, {"k": i, "t": a * 2}, scale=0.5)
            made = made + parts["both"][0] + parts["both"][1] * parts["kind"][0]
        return made

    compiled = stator.compile(fn, backend=K, fullgraph=True)
    for size in (3, 3, 4):
        one, other = (torch.linspace(0, 1, size, requires_grad=True) for _ in range(2))
        compiled(one).sum().backward()
        fn(other).sum().backward()
        assert torch.equal(compiled(one), fn(other)) and torch.equal(one.grad, other.grad)
    assert K.count == 2
    calls.clear()
    compiled(one)
    assert len(calls) == 3  # in each run


def test_random_numbers_of_a_node(x):
    @stator.allow_in_graph
    def noisy(a):
        os.getpid()
        return a + torch.randn(3)

    def fn(a):
        return noisy(a) * torch.rand(3)

    compiled = stator.compile(fn, fullgraph=True)
    torch.manual_seed(0)
    expected = [fn(x) for _ in range(3)]
    torch.manual_seed(0)
    equal([compiled(x) for _ in range(3)], expected)


def writes(a, state):
    os.getpid()
    a.add_(1)
    return a * 2


def views(a, state):
    os.getpid()
    return a.view(-1)


def gives_back(a, state):
    os.getpid()
    return a


def grows(a, state):
    os.getpid()
    state.append(a)
    return a * len(state)


def outer(a, state):
    os.getpid()
    return a * SCALE


def gives_outer(a, state):
    os.getpid()
    return SCALE


SCALE = torch.full((3,), 2.0)


@pytest.mark.parametrize("helper", [writes, views, gives_back, grows, outer, gives_outer], ids=lambda f: f.__name__)
def test_what_cannot_be_a_node_is_right(helper, x):
    allowed = stator.nonstrict_trace(helper)

    def fn(a, function):
        state = [a]
        made = a + 1
        result = function(made, state)
        result.mul_(3)
        return made, result, a * len(state)

    try:
        compiled = stator.compile(fn)
        for _ in range(3):
            equal(compiled(x.clone(), allowed), fn(x.clone(), helper))
    finally:
        SCALE.fill_(2)


def test_it_sees_what_the_program_has_changed(x):
    state = [1.0]

    @stator.allow_in_graph
    def scaled(a):
        os.getpid()
        return a * state[0]

    def fn(a):
        state[0] += 1
        return scaled(a)

    compiled = stator.compile(fn)
    equal([compiled(x) for _ in range(3)], [x * k for k in (2.0, 3.0, 4.0)])


def test_another_kind_of_result(x):
    size = [3]

    @stator.allow_in_graph
    def part(a):
        os.getpid()
        return a[: size[0]] * 2

    compiled = stator.compile(lambda a: part(a) + 1)
    equal([compiled(x)], [x * 2 + 1])
    size[0] = 2
    equal([compiled(x)], [x[:2] * 2 + 1])


def test_an_exception_of_a_node_meets_the_handlers(x):
    limit = torch.tensor(3)

    @stator.allow_in_graph
    def at(a, index):
        os.getpid()
        return a.index_select(0, index)

    def fn(a, index):
        try:
            return at(a + 1, index)
        except IndexError:
            return a - limit

    compiled = stator.compile(fn)
    for index in (0, 2, 9, 1):
        equal([compiled(x, torch.tensor([index]))], [fn(x, torch.tensor([index]))])


def test_no_graph_keeps_it_alive(x):
    class Owner:
        pass

    def program():
        owner = Owner()

        def helper(a):
            os.getpid()
            return a * (owner is not None)

        stator.allow_in_graph(helper)

        def fn(a):
            return helper(a) + 1

        compiled = stator.compile(fn)
        equal([compiled(x), compiled(x)], [x + 1, x + 1])
        return weakref.ref(owner)

    gone = program()
    collect()
    assert gone() is None


def test_a_node_of_a_graph_that_outlives_it(x):
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    def program():
        def helper(a):
            os.getpid()
            return a * 2

        stator.allow_in_graph(helper)
        return stator.compile(lambda a: helper(a) + 1, backend=backend, fullgraph=True)(x)

    equal([program()], [x * 2 + 1])
    collect()
    with pytest.raises(ReferenceError, match="helper"):
        graphs[0](x)


def test_what_comes_behind_a_node_raises_once(x):
    calls = []

    @stator.allow_in_graph
    def noted(a):
        calls.append(os.getpid())
        return a * 2

    def fn(a, index):
        return noted(a).index_select(0, index)

    compiled = stator.compile(fn)
    compiled(x, torch.tensor([0]))
    calls.clear()
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([9]))
    assert len(calls) == 1


def test_operators_that_may_return_their_argument_are_undone(x):
    def fn(a, index):
        return torch.nn.functional.dropout(a, training=False).index_select(0, index)

    compiled = stator.compile(fn)
    equal([compiled(x, torch.tensor([0]))], [x[:1]])
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([9]))
    assert not stator.counters()["breaks"]


def late_marks():
    import torch._dynamo

    return [
        (stator.allow_in_graph, stator.disallow_in_graph),
        (torch.compiler.allow_in_graph, torch._dynamo.disallow_in_graph),
    ]


class Doubled:
    def __call__(self, a):
        stator.graph_break()
        return a * 2


@pytest.mark.parametrize("which", [0, 1], ids=["own", "torch"])
@pytest.mark.parametrize("kind", ["function", "instance"])
def test_marks_that_are_set_after_a_capture(kind, which, x, K):
    allow, disallow = late_marks()[which]

    def function(a):
        stator.graph_break()
        return a * 2

    marked = function if kind == "function" else Doubled()
    compiled = stator.compile(lambda a: marked(a + 1) + 1, backend=K)
    other = stator.compile(lambda a: a * 3, backend=K)
    for _ in range(2):
        assert compiled(x)[0] == 5 and other(x)[0] == 3
    assert K.count == 4
    allow(marked)
    for _ in range(2):
        assert compiled(x)[0] == 5 and other(x)[0] == 3
    assert K.count == 5  # in one graph now, and the other function is not captured again
    if kind == "function" and which == 0:
        disallow(marked)
        assert compiled(x)[0] == 5 and K.count > 5
