"""Torch's operators that take functions or operators: what test_higher_order.py does not have."""

import pytest
import torch
from torch._higher_order_ops import print as print_op
from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2
from torch._higher_order_ops.effects import with_effects
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.strict_mode import strict_mode
from torch._higher_order_ops.while_loop import while_loop
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.fx.experimental.proxy_tensor import make_fx as torch_make_fx

import stator
from tests.python.make_fx.helpers import calls, node
from tests.python.make_fx.test_higher_order import PROGRAMS

MODES = ["real", "fake", "symbolic"]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.rand(3, 4) + 0.5


@pytest.fixture
def operators():
    with torch.library._scoped_library("traced_operators", "FRAGMENT") as library:
        library.define("write(Tensor x, Tensor(a!) y, Tensor(b!) z) -> ()")

        def write(x, y, z):
            y.copy_(x)
            z.add_(x)

        library.impl("write", write, "CompositeExplicitAutograd")
        yield torch.ops.traced_operators


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def check(program, samples, mode, name, beside=True):
    """The graphs that Stator and torch make give on each sample what the program gives."""
    module = stator.make_fx(program, tracing_mode=mode)(*samples[0])
    assert name in calls(module)
    modules = [module, torch_make_fx(program, tracing_mode=mode)(*samples[0])] if beside else [module]
    for sample in samples:
        torch.manual_seed(1)
        wanted = program(*sample)
        for made in modules:
            torch.manual_seed(1)
            same(made(*sample), wanted)
    return module


# ---- operators that take operators, values, or one function


def bernoulli(a):
    return run_and_save_rng_state(torch.ops.aten.bernoulli.default, a.sigmoid())


PLAIN = {
    "strict_mode": lambda a: strict_mode(lambda t, u: (t.sin() + u, t), (a, a * 2)),
    "hints_wrapper": lambda a: hints_wrapper(lambda t: (t.sin() * 2,), (a,), {}, hints={"name": 1}),
    "out_dtype": lambda a: out_dtype(torch.ops.aten.mul.Tensor, torch.float64, a, a),
    "with_effects": lambda a: with_effects(torch.empty(0), torch.ops.aten.sin.default, a)[1],
    "run_and_save_rng_state": bernoulli,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PLAIN)
def test_operators_that_take_operators_are_nodes(x, name, mode):
    module = check(PLAIN[name], [(x,), (x - 1,)], mode, name)
    assert node(module, name).target is getattr(torch.ops.higher_order, name, None) or name.startswith("run_")


@pytest.mark.parametrize("mode", MODES)
def test_functionalized_operators_are_nodes(x, operators, mode):
    write = operators.write.default

    def by_name(a):
        return auto_functionalized(write, x=a * 1, y=a.sin(), z=a.cos())[1:]

    def by_base(a):
        bases = [a.sin(), a.cos()]
        return auto_functionalized_v2(write, x=a * 1, _y_base_index=0, _z_base_index=1, _all_bases=bases)[1:]

    check(by_name, [(x,), (x - 1,)], mode, "auto_functionalized")
    check(by_base, [(x,), (x - 1,)], mode, "auto_functionalized_v2")


def write_to(x, y):
    y.copy_(x)


@pytest.mark.parametrize("mode", MODES)
def test_operators_around_one_that_needs_exact_strides(x, mode):
    with torch.library._scoped_library("traced_strides", "FRAGMENT") as library:
        tags = (torch.Tag.needs_exact_strides,)
        library.define("write(Tensor x, Tensor(a!) y) -> ()", tags=tags)
        library.define("draw(Tensor x) -> Tensor", tags=tags)
        library.impl("write", write_to, "CompositeExplicitAutograd")
        library.impl("draw", lambda x: x.sin(), "CompositeExplicitAutograd")
        library.impl("draw", lambda x: torch.empty_like(x), "Meta", allow_override=True)
        write, draw = torch.ops.traced_strides.write.default, torch.ops.traced_strides.draw.default

        def program(a):
            return auto_functionalized(write, x=a.t(), y=a.t().sin())[1]

        modules = [made(program, tracing_mode=mode)(x) for made in (stator.make_fx, torch_make_fx)]
        for module in modules:
            same(module(x - 1), program(x - 1))
            kept = node(module, "auto_functionalized").meta["eager_input_vals"][1]
            assert [tuple(kept[name].stride()) for name in "xy"] == [(1, 4), (1, 4)]
        for made in (stator.make_fx, torch_make_fx):
            with pytest.raises(RuntimeError, match="strides"):
                made(lambda a: run_and_save_rng_state(draw, a), tracing_mode=mode)(x)


@pytest.mark.parametrize("mode", MODES)
def test_numbers_drawn_again_from_a_saved_state(x, mode):
    def program(a):
        state, first = bernoulli(a)
        return first - run_with_rng_state(state, torch.ops.aten.bernoulli.default, a.sigmoid()), first

    module = check(program, [(x,), (x - 1,)], mode, "run_with_rng_state", beside=mode == "real")
    assert not module(x)[0].any()


@pytest.mark.parametrize("mode", MODES)
def test_print(x, mode, capsys):
    def program(a):
        print_op("sum {} {name}", a.sum() > 0, name=3)
        return a.sin()

    module = stator.make_fx(program, tracing_mode=mode)(x)
    assert capsys.readouterr().out == ("sum True 3\n" if mode == "real" else "")
    assert torch.equal(module(-x), (-x).sin())
    assert capsys.readouterr().out == "sum False 3\n"


def test_a_gradient_that_torch_has_not(x):
    def gradient(a):
        a = a.detach().requires_grad_()
        return torch.autograd.grad(PLAIN["strict_mode"](a)[0].sum(), a)

    with pytest.raises(RuntimeError, match="no gradient for the operator strict_mode"):
        stator.make_fx(gradient)(x)


# ---- loops


def counted(a):
    return while_loop(lambda i, t: i < t.shape[0], lambda i, t: (i + 1, t * 2 + i), (0, a))


def counted_plain(a):
    for i in range(a.shape[0]):
        a = a * 2 + i
    return a.shape[0], a


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_integers_that_a_loop_carries(x, mode):
    module = stator.make_fx(counted, tracing_mode=mode)(x)
    peer = torch_make_fx(counted, tracing_mode=mode)(x)
    given = [x, -x] + ([torch.rand(5, 2)] if mode == "symbolic" else [])
    for sample in given:
        count, found = module(sample)
        assert (type(count), count) == (int, sample.shape[0])
        same(found, counted_plain(sample)[1])
        if sample.shape == x.shape:  # torch has the number of rows of the trace in the graph
            same(found, peer(sample)[1])
    assert node(module.while_loop_body_graph_0, "_local_scalar_dense").meta["val"].node.expr is not None


def test_an_integer_that_a_loop_returns_is_data(x):
    with pytest.raises(RuntimeError, match="returns a number that depends on data.*carry a tensor"):
        stator.make_fx(counted)(x)


def test_a_loop_carries_a_tensor_twice(x):
    def program(a):
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, t, u: i < 3, lambda i, t, u: (i + 1, u + 1, t * 2), (start, a, a))[1:]

    for mode in MODES:
        module = stator.make_fx(program, tracing_mode=mode)(x)
        for given in (x, -x):
            same(module(given), (given * 2 + 3, given * 4 + 2))


def repeated(a, w):
    start = torch.zeros((), dtype=torch.int64)
    return while_loop(lambda i, t: (i < 3) & (t.sum() < 60), lambda i, t: (i + 1, (t * w).sin() * 2 + t), (start, a))[1]


def repeated_plain(a, w):
    i, a = 0, a + 0 * w
    while i < 3 and a.sum() < 60:
        i, a = i + 1, (a * w).sin() * 2 + a
    return a


def gradients_of(program):
    def gradients(*args):
        args = [a.detach().requires_grad_() for a in args]
        return torch.autograd.grad((program(*args) ** 2).sum(), args)

    return gradients


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_loops(x, mode):
    w = torch.rand(4)
    module = stator.make_fx(gradients_of(repeated), tracing_mode=mode)(x, w)
    assert calls(module).count("while_loop") == 2 and "while_loop_stack_output" in calls(module)
    samples = [(x, w), (x * 3, w + 1), (x * 100, w)]  # three iterations, fewer, none
    for given in samples + ([(torch.rand(5, 2), torch.rand(2))] if mode == "symbolic" else []):
        same(module(*given), gradients_of(repeated_plain)(*given))


# ---- gradients


def pairs(a):
    rows = [a, a.sin()]
    return torch.ops.higher_order.associative_scan(lambda p, q, r, s: (p * r, r * q + s), rows, ())[1]


def pairs_plain(a):
    p, q = a[0], a[0].sin()
    made = [q]
    for row in a[1:]:
        p, q = p * row, row * q + row.sin()
        made.append(q)
    return torch.stack(made)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_an_associative_scan(x, mode):
    module = stator.make_fx(gradients_of(pairs), tracing_mode=mode)(x)
    assert calls(module).count("associative_scan") == 2
    for given in [x, x - 1] + ([torch.rand(5, 2)] if mode == "symbolic" else []):
        same(module(given), gradients_of(pairs_plain)(given))


def test_gradients_of_an_associative_scan_of_one_row(x):
    for mode in ("real", "fake"):
        module = stator.make_fx(gradients_of(pairs), tracing_mode=mode)(x[:1])
        same(module(x[1:2]), gradients_of(pairs_plain)(x[1:2]))


TWICE = {name: PROGRAMS[name] for name in ("cond", "map_impl", "scan", "invoke_subgraph")} | {
    "associative_scan": (pairs, pairs_plain)
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TWICE)
def test_gradients_of_gradients(x, name, mode):
    def twice(f):
        def gradient(a):
            a = a.detach().requires_grad_()
            first = torch.autograd.grad((f(a) ** 2).sum(), a, create_graph=True)[0]
            return torch.autograd.grad(first.sin().sum(), a)[0]

        return gradient

    program, plain = TWICE[name]
    module = stator.make_fx(twice(program), tracing_mode=mode)(x)
    for given in (x, x * 0.5):
        torch.testing.assert_close(module(given), twice(plain)(given), rtol=1e-3, atol=1e-3)


# ---- operators of the program


@torch.library.custom_op("traced_operators_test::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


@positive.register_fake
def _(x):
    return x.new_empty([torch.library.get_ctx().new_dynamic_size(min=1, max=100)])


@pytest.mark.parametrize("mode", MODES)
def test_a_fake_kernel_asks_for_a_size(x, mode):
    def program(a):
        found = positive(a)
        return found * 2, a.new_zeros(found.shape[0] if mode != "real" else 1)

    check(program, [(x,), (x - 1,)], mode, "positive.default")
    if mode != "real":
        value = node(stator.make_fx(program, tracing_mode=mode)(x), "positive").meta["val"]
        assert isinstance(value.shape[0], torch.SymInt)
