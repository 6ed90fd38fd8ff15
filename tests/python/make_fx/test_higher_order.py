"""Operators with sub-graphs."""

import copy
import pickle

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import stator
from tests.python.make_fx.helpers import calls, node, placeholders

MODES = ["real", "fake", "symbolic"]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.rand(3, 4) + 0.5


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


# Each program, and the same in plain Python.


def cond_program(a):
    return torch.cond(a.sum() > 0, lambda t: t.sin(), lambda t: t.cos() * 2, (a,)) + 1


def cond_plain(a):
    return (a.sin() if a.sum() > 0 else a.cos() * 2) + 1


def loop_program(a):
    return while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (torch.zeros((), dtype=torch.int64), a))[1]


def loop_plain(a):
    return a * 8


def map_program(a):
    return torch_map(lambda row, b: row * b.sum(), a, a)


def map_plain(a):
    return a * a.sum()


def scan_program(a):
    last, all_ = scan(lambda c, row: (c + row, (c * row).clone()), a[0], a)
    return last + all_.sum(0)


def scan_plain(a):
    carry, rows = a[0], []
    for row in a:
        rows.append(carry * row)
        carry = carry + row
    return carry + torch.stack(rows).sum(0)


def associative_program(a):
    return associative_scan(lambda p, q: p + q, a, 0, combine_mode="pointwise") if a.is_cuda else flat_associative(a)


def flat_associative(a):
    return torch.ops.higher_order.associative_scan(lambda p, q: (p + q,), [a], ())[0]


def associative_plain(a):
    return a.cumsum(0)


def subgraph_program(a):
    return invoke_subgraph(lambda t: (t.sin() * 2,), "twice", a)[0]


def subgraph_plain(a):
    return a.sin() * 2


PROGRAMS = {
    "cond": (cond_program, cond_plain),
    "while_loop": (loop_program, loop_plain),
    "map_impl": (map_program, map_plain),
    "scan": (scan_program, scan_plain),
    "associative_scan": (associative_program, associative_plain),
    "invoke_subgraph": (subgraph_program, subgraph_plain),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_operators_with_sub_graphs_are_nodes(x, name, mode):
    program, plain = PROGRAMS[name]
    module = stator.make_fx(program, tracing_mode=mode)(x)
    assert name in calls(module)
    same(module(x), plain(x))
    same(module(-x), plain(-x))
    if mode == "symbolic":
        other = torch.rand(5, 2)
        same(module(other), plain(other))


def test_names_and_shape_of_a_cond(x):
    module = stator.make_fx(cond_program, tracing_mode="fake")(x)
    assert calls(module) == ["sum.default", "gt.Scalar", "cond", "getitem", "add.Tensor"]
    assert calls(module.true_graph_0) == ["sin.default"]
    assert calls(module.false_graph_0) == ["cos.default", "mul.Tensor"]
    assert placeholders(module.true_graph_0) == ["arg0_1"]
    value = node(module.true_graph_0, "sin").meta["val"]
    assert value.shape == (3, 4)
    assert value.fake_mode is next(iter(module.graph.nodes)).meta["val"].fake_mode


def test_pausing_the_trace_of_the_thread(x):
    from stator.tracing import current_tracer, disable_tracing

    seen = []

    def program(a):
        outer = current_tracer()
        with disable_tracing() as paused:
            seen.extend([outer is not None, paused is outer, current_tracer() is None])
            b = a.sin()
        return a + b

    module = stator.make_fx(program)(x)
    assert seen == [True, True, True] and current_tracer() is None
    assert calls(module) == ["add.Tensor"]
    assert torch.equal(module(x), program(x))


def test_real_mode_computes_the_chosen_branch(x):
    def program(a, out):
        out.copy_(cond_program(a))

    for given in (x, -x):
        out = torch.zeros(3, 4)
        stator.make_fx(program)(given, out)
        same(out, cond_plain(given))


@pytest.mark.parametrize("mode", MODES)
def test_values_from_around_are_operands(x, mode):
    weight = torch.rand(3, 4)

    def program(a, b):
        c = b * 2
        n = a.shape[0]
        return torch.cond(a.sum() > 0, lambda t: t + c + n, lambda t: t - c * weight, (a,))

    def plain(a, b):
        return a + b * 2 + a.shape[0] if a.sum() > 0 else a - b * 2 * weight

    module = stator.make_fx(program, tracing_mode=mode, _allow_non_fake_inputs=True)(x, x.clone())
    for sign in (1, -1):
        same(module(sign * x, x), plain(sign * x, x))
    assert len(placeholders(module.true_graph_0)) == len(placeholders(module.false_graph_0)) >= 3


@pytest.mark.parametrize("mode", MODES)
def test_parts_in_parts(x, mode):
    def program(a, b):
        def positive(t):
            return torch.cond(b.sum() > 0, lambda u: u.sin() + b, lambda u: u.cos() - b, (t,))

        return torch.cond(a.sum() > 0, positive, lambda t: t * b, (a,))

    def plain(a, b):
        return (a.sin() + b if b.sum() > 0 else a.cos() - b) if a.sum() > 0 else a * b

    module = stator.make_fx(program, tracing_mode=mode)(x, x.clone())
    for p in (1, -1):
        for q in (1, -1):
            same(module(p * x, q * x), plain(p * x, q * x))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["cond", "map_impl", "scan", "invoke_subgraph"])
def test_gradients(x, name, mode):
    program, plain = PROGRAMS[name]

    def gradient_of(f):
        def gradient(a):
            a = a.detach().requires_grad_()
            return torch.autograd.grad((f(a) * f(a)).sum(), a)[0]

        return gradient

    module = stator.make_fx(gradient_of(program), tracing_mode=mode)(x)
    assert calls(module).count(name) >= 2
    for given in (x, -x):
        same(module(given), gradient_of(plain)(given))


def test_gradients_of_values_from_around(x):
    weight = torch.rand(3, 4, requires_grad=True)

    def program(a):
        result = torch.cond(a.sum() > 0, lambda t: t * weight, lambda t: t + weight, (a,))
        return torch.autograd.grad(result.sum(), weight)[0]

    def plain(a):
        return torch.autograd.grad((a * weight if a.sum() > 0 else a + weight).sum(), weight)[0]

    module = stator.make_fx(program)(x)
    for given in (x, -x):
        with torch.no_grad():
            found = module(given)
        same(found, plain(given))


def test_a_decomposition_table_serves_the_parts(x):
    def silu(t):
        return t * t.sigmoid()

    def program(a):
        return torch.cond(a.sum() > 0, torch.nn.functional.silu, torch.relu, (a,))

    module = stator.make_fx(program, {torch.ops.aten.silu.default: silu})(x)
    assert calls(module.true_graph_0) == ["sigmoid.default", "mul.Tensor"]


def test_transforms_over_cond(x):
    def program(a):
        return torch.func.vmap(lambda row: torch.cond(a.sum() > 0, torch.sin, torch.cos, (row,)))(a)

    module = stator.make_fx(program)(x)
    for given in (x, -x):
        same(module(given), given.sin() if given.sum() > 0 else given.cos())


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda a: torch.cond(a.sum() > 0, lambda t: t, lambda t: t[0], (a,)), "branches"),
        (lambda a: torch.cond(a.sum() > 0, lambda t: t, lambda t: (t, t), (a,)), "structures"),
        (lambda a: while_loop(lambda t: t.sum() > 0, lambda t: (t[0],), (a,)), "carried"),
        (lambda a: torch.cond(a.sum() > 0, lambda t: t.add_(1), lambda t: t * 2, (a,)), "writes to an operand"),
        (lambda a: torch.cond(a.sum() > 0, lambda t: t[0].add_(1), lambda t: t[0] * 2, (a,)), "writes to an operand"),
    ],
)
def test_what_torch_refuses_is_refused(x, program, message):
    with pytest.raises(RuntimeError, match=message):
        stator.make_fx(program)(x)
    assert calls(stator.make_fx(torch.sin)(x)) == ["sin.default"]


def test_a_branch_that_writes_to_a_value_from_around(x):
    def program(a, b):
        return torch.cond(a.sum() > 0, lambda t: b[0].add_(1) + t, lambda t: t * 2, (a,))

    for mode in MODES:
        with pytest.raises(RuntimeError, match="writes to an operand"):
            stator.make_fx(program, tracing_mode=mode)(x, x.clone())

    def local(a):
        return torch.cond(a.sum() > 0, lambda t: t.clone().add_(1), lambda t: t * 2, (a,))

    same(stator.make_fx(local)(x)(x), local_plain(x))


def local_plain(a):
    return a + 1 if a.sum() > 0 else a * 2


@pytest.mark.parametrize("mode", MODES)
def test_copies_and_pickles(x, mode):
    module = stator.make_fx(cond_program, tracing_mode=mode)(x)
    for made in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        for given in (x, -x):
            same(made(given), cond_plain(given))
    assert node(module, "gt").meta["val"].dtype == torch.bool


def test_an_error_in_a_branch_goes_on(x):
    def fails(t):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stator.make_fx(lambda a: torch.cond(a.sum() > 0, torch.sin, fails, (a,)))(x)
    assert stator.tracing.current_tracer() is None
    assert calls(stator.make_fx(torch.sin)(x)) == ["sin.default"]


def test_without_gradient_rule(x):
    def program(a):
        a = a.detach().requires_grad_()
        first = torch.autograd.grad((loop_program(a) ** 2).sum(), a, create_graph=True)[0]
        return torch.autograd.grad(first.sum(), a)[0]

    with pytest.raises(RuntimeError, match="no gradient for the operator while_loop_stack_output"):
        stator.make_fx(program)(x)


def test_checkpoint_is_traced_through(x):
    from torch.utils.checkpoint import checkpoint

    def gradient(a):
        a = a.detach().requires_grad_()
        return torch.autograd.grad(checkpoint(lambda t: t.sin().exp(), a, use_reentrant=False).sum(), a)[0]

    for mode in MODES:
        module = stator.make_fx(gradient, tracing_mode=mode)(x)
        assert calls(module).count("sin.default") == 2  # once more in the backward pass
        same(module(x), gradient(x))


def test_a_condition_on_a_size(x):
    def program(a):
        return torch.cond(a.shape[0] > 2, torch.sin, torch.cos, (a,))

    module = stator.make_fx(program, tracing_mode="symbolic")(x)
    for given in (x, x[:2]):
        assert torch.equal(module(given), given.sin() if given.shape[0] > 2 else given.cos())


def test_the_gradient_of_a_condition_on_a_size(x):
    def program(a):
        a = a.detach().requires_grad_()
        return torch.autograd.grad(torch.cond(a.shape[0] > 2, torch.sin, torch.cos, (a,)).sum(), a)[0]

    module = stator.make_fx(program, tracing_mode="symbolic")(x)
    same(module(x), x.cos())
    same(module(x[:2]), -x[:2].sin())
