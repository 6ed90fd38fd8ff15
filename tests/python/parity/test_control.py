"""Control flow operators: torch.cond, while_loop, map, scan. All branches are in the graph; each run selects."""

import copy
import signal

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils.checkpoint import checkpoint

import stator
from tests.python.helpers import Counting, assert_same, captures, check_parity

yes, no = torch.tensor(True), torch.tensor(False)


@pytest.fixture(autouse=True)
def fresh_torch_compile():
    # Torch compiles plain `torch.cond` for each function, and gives up after a limit.
    yield
    torch._dynamo.reset()


def breaks():
    return sum(stator.counters()["breaks"].values())


def vector(scale=1.0, grad=False):
    return torch.tensor([0.5, -1.0, 2.0]).mul(scale).requires_grad_(grad)


def check_one_graph(fn, *calls, graphs=1):
    check_parity(fn, *calls, graphs=graphs)
    assert breaks() == 0, stator.counters()["breaks"]


def test_one_graph_for_both_ways():
    check_one_graph(
        lambda p, a: torch.cond(p, torch.sin, lambda t: t.cos() + 1, (a,)) * 2, (yes, vector()), (no, vector())
    )


def test_predicate_of_data():
    check_one_graph(
        lambda a: torch.cond(a.sum() > 0, lambda t: t * 2, lambda t: t - 1, (a,)), (vector(),), (vector(-1),)
    )


@pytest.mark.parametrize("flag", [True, False, 1, 0.0])
def test_constant_predicate(flag):
    check_one_graph(lambda a: torch.cond(flag, lambda t: t * 2, lambda t: t * 3, (a,)), (vector(),))


def test_structures():
    def fn(p, a, b):
        out = torch.cond(
            p,
            lambda d: {"s": (d["x"] + d["y"][0], d["x"] * 2), "t": [d["x"] - 1]},
            lambda d: {"s": (d["x"] - d["y"][0], d["x"] * 3), "t": [d["x"] - 2]},
            ({"x": a, "y": [b]},),
        )
        return out["s"][0] + 1, out

    check_one_graph(fn, (yes, vector(), vector(2)), (no, vector(), vector(3)))


def test_closures_modules_and_constants():
    layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
    scale = torch.tensor(3.0)

    def fn(p, a):
        bias = a * 2
        with torch.no_grad():
            return torch.cond(p, lambda t: layers[0](t) * scale, lambda t: layers[1](t) + bias + torch.ones(3), (a,))

    check_one_graph(fn, (yes, vector()), (no, vector()))


def test_no_operands():
    check_one_graph(lambda p, a: torch.cond(p, lambda: a + 1, lambda: a - 1), (yes, vector()), (no, vector()))


def test_nested():
    def fn(p, q, a):
        def outer(t):
            return torch.cond(q, lambda s: s * 2, lambda s: s + a, (t + 1,)) - 1

        return torch.cond(p, outer, lambda t: t.exp(), (a,))

    also = torch.tensor(True)
    check_one_graph(fn, (yes, also, vector()), (yes, no, vector()), (no, yes, vector()))


def test_random_numbers_of_the_branch_that_runs():
    def fn(p, a):
        b = torch.cond(p, lambda t: t + torch.rand(3), lambda t: t * torch.randn(3) * torch.rand(3), (a,))
        return b, torch.rand(2)

    check_one_graph(fn, (yes, vector()), (no, vector()))


def test_writes_inside_of_a_branch():
    check_one_graph(
        lambda p, a: torch.cond(p, lambda t: t.clone().add_(1), lambda t: torch.zeros(3).copy_(t), (a,)),
        (yes, vector()),
        (no, vector()),
    )


# ---- gradients


def gradients(fn, p, inputs):
    inputs = copy.deepcopy(inputs)
    made = fn(p, *inputs)
    made = made if isinstance(made, tuple) else (made,)
    sum((k + 1) * (t * t).sum() for k, t in enumerate(made)).backward()
    return made, [t.grad for t in inputs]


weight = vector(3.0, grad=True)
CHOICES = {
    "both": lambda p, a, b: torch.cond(p, lambda s, t: s.sin() * t, lambda s, t: s - t.exp(), (a, b)),
    "one each": lambda p, a, b: torch.cond(p, lambda s, t: s.sin(), lambda s, t: t.cos(), (a, b)),
    "neither": lambda p, a, b: torch.cond(p, lambda s, t: s.sin(), lambda s, t: s.cos(), (a, b)),
    "closure": lambda p, a, b: torch.cond(p, lambda s: s.sin(), lambda s: s * b, (a,)),
    "nothing to follow": lambda p, a, b: torch.cond(p, lambda s: torch.ones(3), lambda s: s * b, (a,)),
    "two results": lambda p, a, b: torch.cond(p, lambda s, t: (s * 2, t * 3), lambda s, t: (t * 4, s * 5), (a, b)),
    "written after": lambda p, a, b: torch.cond(p, lambda s: s.exp(), lambda s: s.tanh(), (a,)).mul_(2) + b,
    "around": lambda p, a, b: (torch.cond(p, torch.exp, torch.sin, (a * b,)) * a).relu(),
}


@pytest.mark.parametrize("name", CHOICES)
def test_gradients(name):
    fn = CHOICES[name]
    compiled = stator.compile(fn)
    for p in (yes, no, yes):
        inputs = (vector(grad=True), vector(2.0, grad=True))
        assert_same(gradients(compiled, p, inputs), gradients(fn, p, inputs))
    assert breaks() == 0 and captures() == 1


def test_second_derivatives():
    def fn(p, a):
        return torch.cond(p, lambda t: t**3, lambda t: t.sin(), (a,))

    compiled = stator.compile(fn)
    for p, expected in ((yes, 6 * vector()), (no, -vector().sin())):
        a = vector(grad=True)
        (first,) = torch.autograd.grad(compiled(p, a).sum(), a, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), a)
        assert torch.allclose(second, expected)


# ---- programs that run in torch itself

LEFT = {
    "a result that is an argument": lambda p, a: torch.cond(p, lambda t: t, lambda t: t + 1, (a,)),
    "a view": lambda p, a: torch.cond(p, lambda t: t[1:], lambda t: t[:2] * 1, (a,)),
    "one tensor twice": lambda p, a: torch.cond(p, lambda t: (lambda s: (s, s))(t * 1), lambda t: (t * 1, t * 2), (a,)),
    "a write to an argument": lambda p, a: torch.cond(p, lambda t: t.add_(1) * 1, lambda t: t * 2, (a,)),
    "dtypes": lambda p, a: torch.cond(p, lambda t: t.int(), lambda t: t * 2, (a,)),
    "shapes": lambda p, a: torch.cond(p, lambda t: t[:2] * 1, lambda t: t * 2, (a,)),
    "numbers of results": lambda p, a: torch.cond(p, lambda t: (t * 1, t * 2), lambda t: (t * 2,), (a,)),
    "no tensors": lambda p, a: torch.cond(p, lambda t, k: t * k, lambda t, k: t + k, (a, "3")),
    "a predicate of many": lambda p, a: torch.cond(a > 0, lambda t: t * 1, lambda t: t + 1, (a,)),
}


@pytest.mark.parametrize("name", LEFT)
def test_left_to_torch(name):
    def outcome(fn):
        a = vector()
        try:
            return fn(yes, a), a
        except Exception as error:
            return type(error).__name__, a

    expected = outcome(LEFT[name])
    torch._dynamo.reset()
    assert_same(outcome(stator.compile(lambda p, a: LEFT[name](p, a + 0))), expected)
    assert breaks() > 0


def test_effects_in_a_branch_break():
    seen = []

    def fn(p, a):
        def noted(t):
            seen.append(1)
            return t * 2

        return torch.cond(p, noted, lambda t: t + 1, (a,))

    compiled = stator.compile(fn)
    try:
        compiled(no, vector())
    except Exception as error:
        assert "higher order" in str(error).lower()
    assert stator.counters()["breaks"].get("mutation", 0) > 0


@pytest.mark.parametrize("kind", ["cell", "attribute", "iterator", "list", "dict"])
def test_change_of_what_the_program_made_breaks(kind):
    class Box:
        pass

    def fn(p, a):
        box, items, table, count = Box(), [], {}, 0
        walk = iter([1, 2])

        def change(t):
            nonlocal count
            if kind == "cell":
                count += 1
            elif kind == "attribute":
                box.x = 1
            elif kind == "iterator":
                next(walk)
            elif kind == "list":
                items.append(1)
            else:
                table["x"] = 1
            return t * 2

        return torch.cond(p, change, lambda t: t + 1, (a + 1,)), count

    with pytest.raises(stator.errors.Unsupported):
        stator.compile(fn, fullgraph=True)(no, vector())


def test_exceptions_in_a_branch_break():
    def fails(t):
        raise ValueError("inside")

    def fn(p, a):
        try:
            return torch.cond(p, fails, lambda t: t + 1, (a + 1,))
        except ValueError:
            return a

    with pytest.raises(stator.errors.Unsupported):
        stator.compile(fn, fullgraph=True)(no, vector())


# ---- the graph as torch.fx


def test_fx_form():
    counting = Counting()

    def fn(p, a, b):
        return torch.cond(p, lambda t: t * b, lambda t: t + 1, (a,)) * 2

    compiled = stator.compile(fn, backend=counting)
    for p in (yes, no):
        assert_same(compiled(p, vector(), vector(2.0)), fn(p, vector(), vector(2.0)))
    assert counting.count == 1
    nodes = [node for node in counting.graphs[0].graph.nodes if node.target is torch.ops.higher_order.cond]
    assert len(nodes) == 1
    branches = [getattr(counting.graphs[0], branch.target) for branch in nodes[0].args[1:3]]
    assert all(isinstance(branch, torch.fx.GraphModule) for branch in branches)
    for p in (yes, no):
        inputs = (vector(grad=True), vector(2.0, grad=True))
        assert_same(gradients(compiled, p, inputs), gradients(fn, p, inputs))


def test_node_of_autograd():
    def fn(p, a):
        made = torch.cond(p, torch.sin, torch.cos, (a,))
        return type(made.grad_fn).__name__

    def outside(call):
        return [type(made.grad_fn).__name__ for made in (call(yes), call(no))]

    def choose(p):
        return torch.cond(p, torch.sin, lambda t: t * 2, (vector(grad=True),))

    assert outside(stator.compile(choose)) == outside(choose)
    assert stator.compile(fn)(yes, vector(grad=True)) == fn(yes, vector(grad=True))


# ---- loops


def test_while_loop():
    def fn(n, a, b):
        return while_loop(lambda k, t: k < 5, lambda k, t: (k + 1, t * 2 + b), (n, a * 1))

    check_one_graph(fn, *[(torch.tensor(n), vector(), vector(2.0)) for n in (0, 3, 5, 7)])


def test_body_that_knows_what_it_is_given():
    # The tensor in the closure does not change; the carried one does.
    def fn(n, a):
        return while_loop(lambda k, t, u: k < 3, lambda k, t, u: (k + 1, t + a * u, u + 1), (n, a, a))

    check_one_graph(fn, (torch.tensor(0), vector()), (torch.tensor(2), vector(2.0)))


def test_while_loop_with_data():
    def fn(a):
        return while_loop(lambda t: t.abs().max() > 0.1, lambda t: (t / 2,), (a,))

    check_one_graph(fn, (vector(),), (vector(10.0),), (vector(0.01),))


def test_results_of_no_turn_are_new():
    def fn(n, a):
        return while_loop(lambda k, t: k < 5, lambda k, t: (k + 1, t * 2), (n, a))

    a = vector()
    made = stator.compile(fn)(torch.tensor(9), a)
    made[1].add_(1)
    assert_same(a, vector())


def test_while_loop_with_gradients_is_left_to_torch():
    def fn(n, a):
        return while_loop(lambda k, t: k < 3, lambda k, t: (k + 1, t * 2), (n, a + 0))[1]

    def run(call):
        a = vector(grad=True)
        made = call(torch.tensor(0), a)
        made.sum().backward()
        return made, a.grad

    assert_same(run(stator.compile(fn)), run(fn))


def test_map():
    def fn(a, b, c):
        return map_rows(lambda row, d: (row * 2 + d, row.sum() + c.sum()), a, b)

    rows = torch.arange(12.0).reshape(4, 3)
    check_one_graph(fn, (rows, vector(), vector()), (rows[:2], vector(2.0), vector()), graphs=2)


def test_map_over_several():
    def fn(a, b):
        return map_rows(lambda rows: rows[0] * rows[1], [a, b])

    check_one_graph(fn, (torch.arange(6.0).reshape(3, 2), torch.ones(3, 2)))


def test_map_over_what_its_body_knows_is_left_to_torch():
    def fn(a):
        try:
            return map_rows(lambda rows: rows[0] * rows[1] + a.sum(0), [a, a])
        except Exception as error:
            return type(error).__name__

    rows = torch.arange(6.0).reshape(3, 2)
    assert_same(stator.compile(fn)(rows), fn(rows))


def row_gradients(call, *tensors):
    given = [tensor.clone().requires_grad_() for tensor in tensors]
    made = torch.utils._pytree.tree_leaves(call(*given))
    sum((tensor * tensor).sum() for tensor in made).backward()
    return [tensor.detach() for tensor in made], [tensor.grad for tensor in given]


# ---- scans


def running(carry, row):
    return carry + row, (carry * row).sin()


@pytest.mark.parametrize("how", [{}, {"reverse": True}, {"dim": 1}, {"dim": -1, "reverse": True}])
def test_scan(how):
    def fn(init, xs):
        carry, out = scan(running, init, xs, **how)
        return carry, out * 2

    xs = torch.arange(9.0).reshape(3, 3) / 5
    check_one_graph(fn, (vector(), xs), (vector(2.0), xs.T), graphs=2)


def test_scan_over_structures():
    def step(carry, rows):
        total = carry["total"] + rows[0] * rows[1]["b"]
        return {"total": total, "count": carry["count"] + 1}, [total * 2, (carry["count"] * 1.0, rows[0].cos())]

    def fn(a, b):
        return scan(step, {"total": torch.zeros(3), "count": torch.tensor(0)}, (a, {"b": b}))

    rows = torch.arange(6.0).reshape(2, 3)
    check_one_graph(fn, (rows, rows + 1), (rows.mul(3), rows))


def test_scan_that_knows_what_it_is_given():
    def fn(init, xs, weight):
        return scan(lambda c, x: (c * 0.5 + x + init, (x @ weight) + xs.sum() + c), init, xs)

    xs = torch.arange(9.0).reshape(3, 3) / 5
    check_one_graph(fn, (vector(), xs, xs + 1), (vector(3.0), xs, xs))


def test_gradients_of_scan():
    def fn(init, xs, weight):
        return scan(lambda c, x: ((c * weight + x).tanh(), (c.clone(), (c * x).sum())), init, xs)

    xs = torch.arange(12.0).reshape(4, 3) / 7
    compiled = stator.compile(fn, fullgraph=True)
    assert_same(row_gradients(compiled, vector(), xs, vector(0.5)), row_gradients(fn, vector(), xs, vector(0.5)))


@pytest.mark.parametrize(
    "step",
    [
        lambda c, x: (c, c + x),
        lambda c, x: (c + x, x),
        lambda c, x: ((c + x).double(), x * 2),
        lambda c, x: ([c + x], x * 2),
        lambda c, x: c + x,
        lambda c, x: (c.add_(x), x * 2),
    ],
)
def test_scan_that_torch_refuses(step):
    def fn(init, xs):
        try:
            return scan(step, init, xs)
        except Exception as error:
            return type(error).__name__

    xs = torch.arange(6.0).reshape(2, 3)
    assert_same(stator.compile(fn)(vector(), xs), fn(vector(), xs))


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(reverse):
    def fn(a, b):
        pair = associative_scan(
            lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), (a, b), 0, reverse=reverse, combine_mode="generic"
        )
        return pair, associative_scan(lambda l, r: l + r, a, 1, reverse=reverse, combine_mode="generic")

    xs = torch.arange(15.0).reshape(5, 3) / 7
    check_one_graph(fn, (xs, xs + 1), (xs[:4], xs[1:]), graphs=2)


def test_an_endless_loop_can_be_interrupted():
    def fn(n):
        return while_loop(lambda k: k >= 0, lambda k: (k * 1,), (n,))

    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    compiled = stator.compile(fn)
    assert compiled(torch.tensor(-1))[0] == -1
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Stop):
            compiled(torch.tensor(1))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert captures() == 1


def test_no_python_runs_inside_of_the_graph():
    counting = Counting()

    def fn(p, x):
        y = torch.cond(p, torch.sin, torch.cos, (x,))
        _, y = while_loop(lambda k, t: k < 2, lambda k, t: (k + 1, t * 2), (torch.tensor(0), y))
        y = map_rows(lambda row: row + 1, y)
        return scan(lambda c, row: (c + row, c * row), torch.tensor(0.0), y)

    compiled = stator.compile(fn, backend=counting)
    for p in (yes, no):
        assert_same(compiled(p, vector()), fn(p, vector()))
    text = counting.graphs[0].__dict__["_native"].text()
    assert all(f"stator::{name}(" in text for name in ("cond", "while_loop", "map", "scan"))
    assert "stator::call" not in text and "python(" not in text


class Marked(torch.Tensor):
    def twice(self):
        return self * 2


class Overriding(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


@pytest.mark.parametrize("cls", [Marked, Overriding])
def test_operands_of_a_subclass(cls):
    def fn(x):
        marked = x.as_subclass(cls)
        pair = [marked * 2, {"k": x + 1}]
        a = torch.cond(x.sum() > 0, lambda t: t * 2 + 1, lambda t: t - 1, (marked,))
        b = torch.cond(x.sum() > 0, lambda p: (p[0] + 1, p[1]["k"] * 2), lambda p: (p[0] - 1, p[1]["k"] * 3), (pair,))
        return a, type(a) is torch.Tensor, b

    def seen(t):
        return getattr(t, "twice", lambda: t * 3)()

    def known(x):
        return torch.cond(x.sum() > 0, seen, lambda t: t - 1, (x.as_subclass(cls),))

    check_one_graph(fn, (vector(),), (vector(-1.0),))
    stator.reset()
    check_one_graph(known, (vector(),), (vector(-1.0),))


def test_branches_that_make_or_close_over_a_subclass():
    """The results are plain tensors, as torch gives them."""

    def fn(p, a, b):
        marked = b.as_subclass(Marked)
        return torch.cond(p, lambda t: (t + 1).as_subclass(Marked), lambda t: t - marked, (a,))

    check_one_graph(fn, (yes, vector(), vector(2)), (no, vector(), vector(3)))


def test_a_predicate_of_a_subclass_is_torchs_error():
    def fn(x):
        return torch.cond(x.as_subclass(Marked).sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))

    compiled = stator.compile(fn)
    for run in (fn, compiled, compiled):
        with pytest.raises(Exception, match="improper predicate"):
            run(vector())


@pytest.mark.parametrize("cls", [Marked, Overriding])
def test_while_loop_carries_a_subclass(cls):
    def f(x):
        return while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (torch.tensor(0), x.as_subclass(cls)))

    expected, compiled = f(vector()), stator.compile(f, fullgraph=True)
    for _ in range(2):
        found = compiled(vector())
        assert_same(found, expected)
        assert [type(t) for t in found] == [type(t) for t in expected]


@pytest.mark.parametrize("cls", [Marked, Overriding])
@pytest.mark.parametrize("grad", [False, True])
def test_checkpoint_of_a_subclass(cls, grad):
    def f(x):
        return checkpoint(lambda t: ((t * 2).sin(), [t.sum()]), x.as_subclass(cls), use_reentrant=False)

    compiled = stator.compile(f, fullgraph=True)
    for scale in (1.0, 2.0):
        x, y = vector(scale, grad), vector(scale, grad)
        (found, [total]), (expected, [expected_total]) = compiled(x), f(y)
        assert type(found) is type(expected) is cls and type(total) is type(expected_total)
        assert_same((found, total), (expected, expected_total))
        if grad:
            (found.sum() + total).backward()
            (expected.sum() + expected_total).backward()
            assert_same(x.grad, y.grad)
