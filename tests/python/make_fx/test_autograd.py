"""Gradients, transforms and writes inside traced functions."""

import pytest
import torch
import torch.utils.checkpoint

import stator
from tests.python.make_fx.helpers import calls

MODES = ("real", "fake", "symbolic")


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_in_the_graph(x, mode):
    w = torch.randn(4, 2)

    def program(a, w):
        w = w.detach().requires_grad_()
        return torch.autograd.grad((a @ w).sum(), w)[0]

    module = stator.make_fx(program, tracing_mode=mode)(x, w)
    assert "mm.default" in calls(module)
    torch.testing.assert_close(module(x + 1, w), program(x + 1, w))


@pytest.mark.parametrize("allowed", [True])
def test_gradients_of_captured_parameters(x, allowed):
    linear = torch.nn.Linear(4, 2)

    def program(a):
        return torch.autograd.grad(linear(a).prod(), [linear.weight])

    for mode in MODES:
        module = stator.make_fx(program, tracing_mode=mode, _allow_non_fake_inputs=True)(x)
        given = torch.randn(3, 4)
        given[0] = 0
        torch.testing.assert_close(module(given), program(given))


READERS = {
    "prod": torch.prod,
    "cumprod": lambda t: torch.cumprod(t, 0),
    "max": torch.max,
    "min": torch.min,
    "median": torch.median,
    "nanmedian": torch.nanmedian,
    "vander": torch.linalg.vander,
    "quantile": lambda t: torch.quantile(t, 0.5),
    "nanquantile": lambda t: torch.nanquantile(t, 0.5),
    "masked.prod": lambda t: torch.masked.prod(t, 0),
    "masked.cumprod": lambda t: torch.masked.cumprod(t, 0),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("mode", ["real", "fake"])
def test_formulas_that_look_at_data_in_eager(name, mode):
    """Traced on one input, run on one with zeros and ties."""

    def program(a):
        a = a.detach().requires_grad_()
        return torch.autograd.grad(READERS[name](a).sum(), a)[0]

    module = stator.make_fx(program, tracing_mode=mode)(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    for given in ([0.0, 2.0, 2.0, 0.0], [0.0, 1.0, 2.0, 3.0], [5.0, 5.0, 5.0, 5.0]):
        given = torch.tensor(given)
        torch.testing.assert_close(module(given), program(given))


def test_backward_gives_gradients_to_leaves(x):
    w = torch.nn.Parameter(torch.randn(4, 2))

    def program(a):
        (a @ w).sum().backward()
        return w.grad

    module = stator.make_fx(program)(x)
    expected = torch.autograd.grad((x @ w).sum(), w)[0]
    # The trace ran on the real tensors.
    torch.testing.assert_close(w.grad, expected)
    assert not stator._C._fake.is_fake(w.grad)
    torch.testing.assert_close(module(x), expected)


def test_backward_in_fake_mode_leaves_no_gradient(x):
    w = torch.nn.Parameter(torch.randn(4, 2))

    def program(a):
        (a @ w).sum().backward()
        return w.grad

    module = stator.make_fx(program, tracing_mode="fake", _allow_non_fake_inputs=True)(x)
    assert w.grad is None
    torch.testing.assert_close(module(x), torch.autograd.grad((x @ w).sum(), w)[0])


def test_backward_accumulates_into_gradients_of_inputs(x):
    given = x.clone().requires_grad_()
    given.grad = torch.ones(3, 4)

    def program(a):
        (a * a).sum().backward()
        return a.grad * 1

    stator.make_fx(program)(given)
    torch.testing.assert_close(given.grad, 2 * x + 1)


@pytest.mark.parametrize("mode", MODES)
def test_double_backward(x, mode):
    def program(a):
        a = a.detach().requires_grad_()
        first = torch.autograd.grad((a**3).sum(), a, create_graph=True)[0]
        return torch.autograd.grad((first * first).sum(), a)[0]

    module = stator.make_fx(program, tracing_mode=mode)(x)
    torch.testing.assert_close(module(x + 1), program(x + 1))


TRANSFORMS = {
    "grad": lambda a: torch.func.grad(lambda z: (z * z).sum())(a),
    "vmap": lambda a: torch.func.vmap(torch.sin)(a),
    "vmap_grad": lambda a: torch.func.vmap(torch.func.grad(lambda z: (z * z).sum()))(a),
    "jvp": lambda a: torch.func.jvp(torch.sin, (a,), (a,)),
    "vjp": lambda a: torch.func.vjp(torch.sin, a)[1](a),
    "hessian": lambda a: torch.func.hessian(lambda z: (z**3).sum())(a),
    "functionalize": lambda a: torch.func.functionalize(lambda z: z.clone().add_(1))(a),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("mode", MODES)
def test_transforms(x, name, mode):
    program = TRANSFORMS[name]
    module = stator.make_fx(program, tracing_mode=mode)(x)
    torch.testing.assert_close(module(x + 1), program(x + 1))


def test_functionalize_leaves_pure_operators(x):
    module = stator.make_fx(TRANSFORMS["functionalize"])(x)
    assert calls(module) == ["clone.default", "add.Tensor"]


@pytest.mark.parametrize("mode", MODES)
def test_autograd_function(x, mode):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a.sin()

        @staticmethod
        def backward(ctx, grad):
            (a,) = ctx.saved_tensors
            return grad * a * 7

    def program(a):
        a = a.detach().requires_grad_()
        return torch.autograd.grad(Scaled.apply(a).sum(), a)[0]

    module = stator.make_fx(program, tracing_mode=mode)(x)
    torch.testing.assert_close(module(x + 1), program(x + 1))


@pytest.mark.parametrize("mode", MODES)
def test_writes(x, mode):
    def program(a):
        b = a.clone()
        b[0] = 1.0
        b.view(-1)[3:5].mul_(2)
        e = torch.empty(3, 4)
        torch.sin(b, out=e)
        return a, b, e.add_(b)

    module = stator.make_fx(program, tracing_mode=mode)(x)
    for mine, plain in zip(module(x + 1), program(x + 1)):
        assert torch.equal(mine, plain)


def test_a_chain_of_writes(x):
    def program(a, b, c):
        a.copy_(b)
        a.copy_(c)
        return a

    module = stator.make_fx(program)(x.clone(), x + 1, x + 2)
    assert "copy__1 = torch.ops.aten.copy_.default(copy_, c_1)" in module.code
    given = x.clone()
    assert module(given, x + 1, x + 2) is given
    assert torch.equal(given, x + 2)


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_random_operators(x, mode):
    def program(a):
        return torch.nn.functional.dropout(a) + torch.rand(3, 4)

    module = stator.make_fx(program, tracing_mode=mode)(x)
    for _ in range(2):
        torch.manual_seed(3)
        mine = module(x)
        torch.manual_seed(3)
        assert torch.equal(mine, program(x))


def test_composites_are_split_in_inference_mode(x):
    w = torch.randn(2, 4)

    def program(a, w):
        with torch.inference_mode():
            return torch.nn.functional.linear(a, w)

    assert calls(stator.make_fx(program)(x, w)) == ["t.default", "mm.default"]


def test_pre_dispatch_records_composites_and_grad_mode(x):
    linear = torch.nn.Linear(4, 2)

    def program(a):
        b = torch.nn.functional.dropout(linear(a))
        with torch.no_grad():
            c = b.cos()
        return b + c

    module = stator.make_fx(program, pre_dispatch=True)(x)
    assert calls(module) == [
        "linear.default",
        "dropout.default",
        "_set_grad_enabled",
        "cos.default",
        "_set_grad_enabled",
        "add.Tensor",
    ]
    assert torch.is_grad_enabled()


def test_autocast_becomes_casts(x):
    def program(a, b):
        with torch.autocast("cpu", torch.bfloat16):
            return a @ b

    module = stator.make_fx(program)(x, x.t().contiguous())
    assert calls(module) == ["_to_copy.default", "_to_copy.default", "mm.default"]


def test_a_device_query_leaves_no_node(x):
    assert calls(stator.make_fx(lambda a: a.to(a.device) + 1)(x)) == ["add.Tensor"]


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_linearize(x, mode, above):
    def program(a, b):
        result, derivative = torch.func.linearize(lambda u: (u.sin() * u, u.sum()), a)
        return result, derivative(b)

    module = stator.make_fx(program, tracing_mode=mode, pre_dispatch=above)(x, x + 1)
    torch.testing.assert_close(module(x + 1, x), program(x + 1, x))


def test_levels_of_forward_mode_above_autograd_are_refused(x):
    def program(a, b):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(a, b)
            return torch.autograd.forward_ad.unpack_dual(dual.sin()).tangent

    module = stator.make_fx(program)(x, x + 1)
    torch.testing.assert_close(module(x + 1, x), program(x + 1, x))
    with pytest.raises(RuntimeError, match="use torch.func.jvp"):
        stator.make_fx(program, pre_dispatch=True)(x, x + 1)


def test_the_hessian_with_symbolic_sizes():
    """Torch asks for the plain sizes of tensors of zeros: they are guarded."""

    def program(a):
        return torch.func.hessian(lambda u: (u * u * u).sum())(a)

    module = stator.make_fx(program, tracing_mode="symbolic")(torch.randn(3))
    given = torch.randn(3)
    torch.testing.assert_close(module(given), program(given))
    assert [str(guard.expr) for guard in module.shape_env.guards]


# ---- the state of random numbers


@pytest.mark.parametrize("mode", MODES)
def test_an_earlier_state_put_back_before_a_draw_is_refused(x, mode):
    def program(a):
        state = torch.get_rng_state()
        b = torch.rand(3)
        torch.set_rng_state(state)
        return b - torch.rand(3)

    with pytest.raises(RuntimeError, match="state of the random numbers"):
        stator.make_fx(program, tracing_mode=mode)(x)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_checkpoint(x, mode, rate):
    def program(a, w):
        def part(u):
            u = (u @ w).relu()
            return torch.nn.functional.dropout(u, rate) if rate else u

        y = torch.utils.checkpoint.checkpoint(part, a, use_reentrant=False)
        return torch.autograd.grad(y.sum(), w)[0]

    w = torch.randn(4, 4, requires_grad=True)
    make = stator.make_fx(program, tracing_mode=mode)
    if rate:
        with pytest.raises(RuntimeError, match="checkpoint with dropout"):
            make(x.requires_grad_(), w)
    else:
        module = make(x.requires_grad_(), w)
        torch.testing.assert_close(module(x, w), program(x, w))


@pytest.mark.parametrize("mode", MODES)
def test_a_state_put_back_without_a_draw(x, mode):
    def program(a):
        b = torch.rand(3, 4)
        with torch.random.fork_rng(devices=[]):
            a = a.sin()
        return a + b - torch.rand(3, 4)

    module = stator.make_fx(program, tracing_mode=mode)(x)
    torch.manual_seed(3)
    found = module(x)
    torch.manual_seed(3)
    assert torch.equal(found, program(x))
