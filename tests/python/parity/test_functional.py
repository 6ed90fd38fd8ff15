"""Transforms of torch.func: in one graph or entirely in Python, and no level is open afterwards."""

import copy

import pytest
import torch
from torch import nn
from torch._functorch import eager_transforms
from torch.autograd import forward_ad
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)

import stator
from tests.python.helpers import assert_same, captures, check_parity, outcome


def levels():
    functorch = torch._C._functorch
    return (
        functorch.get_dynamic_layer_stack_depth(),
        functorch.get_inplace_requires_grad_allowed(),
        torch._C._autograd._saved_tensors_hooks_get_disabled_error_message(),
        torch._C._is_fwd_grad_enabled(),
        eager_transforms.JVP_NESTING,
        forward_ad._current_level,
        torch.is_grad_enabled(),
    )


@pytest.fixture(autouse=True)
def nothing_stays_open():
    before = levels()
    assert before[:2] == (0, False)
    yield
    assert levels() == before
    # A level of forward-mode AD is process-wide: a second one cannot be opened.
    with forward_ad.dual_level():
        pass


def breaks():
    return sum(stator.counters()["breaks"].values())


def vector(n=3, **options):
    return torch.arange(1.0, n + 1).div(3).requires_grad_(options.get("grad", False))


def matrix(n=4, m=3):
    return torch.arange(1.0, n * m + 1).reshape(n, m).sin()


def check_one_graph(fn, *calls):
    """Equal to eager in each call, and one graph for each shape of arguments."""
    compiled = check_parity(fn, *calls)
    assert breaks() == 0, stator.counters()["breaks"]
    return compiled


def cube(t):
    return (t**3).sum()


IN_ONE_GRAPH = {
    "grad": (lambda a: grad(cube)(a), [(vector(),), (vector(5),)]),
    "grad of grad of grad": (
        lambda a: grad(lambda s: grad(lambda r: grad(cube)(r).sum())(s).sum())(a),
        [(vector(),)],
    ),
    "grad with a value and aux": (
        lambda a: grad_and_value(lambda t: (t.exp().sum(), (t * 2, t + 1)), has_aux=True)(a),
        [(vector(),)],
    ),
    "grad by name and tree": (
        lambda a: grad(lambda d, k: (d["a"] * d["b"][0]).sum() * k)({"a": a, "b": [a + 1]}, 3),
        [(vector(),)],
    ),
    "grad of what does not depend": (lambda a: grad(lambda t: a.sum())(a), [(vector(),)]),
    "vjp": (lambda a, c: [f(c) for f in [vjp(torch.tanh, a)[1]] for _ in range(2)], [(vector(), vector())]),
    "jvp": (lambda a, t: jvp(lambda s: (s.sin() * s, s.exp()), (a,), (t,)), [(vector(), vector() + 1)]),
    "jvp of vjp": (lambda a, t: jvp(grad(cube), (a,), (t,)), [(vector(), vector() + 1)]),
    "jacobians": (
        lambda a: (
            jacrev(lambda t: t.outer(t))(a),
            jacfwd(lambda t: t.outer(t))(a),
            jacrev(torch.sin, chunk_size=2)(a),
        ),
        [(vector(),), (vector(4),)],
    ),
    "hessians": (
        lambda a: (hessian(lambda t: (t.sin() * t).sum())(a), hessian(lambda t: (t[1:] * t[:-1]).exp().sum())(a)),
        [(vector(),), (vector(4),)],
    ),
    "jacobians of jacobians": (
        lambda a: (jacfwd(jacfwd(cube))(a), jacrev(jacrev(cube))(a), jacrev(jacfwd(cube))(a)),
        [(vector(),)],
    ),
    "vmap": (lambda a, b: vmap(torch.dot)(a, b), [(matrix(), matrix() + 1), (matrix(2), matrix(2))]),
    "vmap of dims": (
        lambda a, b: vmap(vmap(lambda s, t: s * t, in_dims=(0, None)), in_dims=(1, None), out_dims=1)(a, b),
        [(matrix(), torch.tensor(2.0))],
    ),
    "vmap in chunks": (lambda a: vmap(lambda t: t.exp().sum(), chunk_size=3)(a), [(matrix(),)]),
    "vmap of grad of vmap": (
        lambda w, a: vmap(grad(lambda s, r: vmap(lambda u: (u * s).sum())(r.reshape(3, 1)).sum()), in_dims=(None, 0))(
            w, a
        ),
        [(vector(), matrix())],
    ),
    "a factory in vmap": (
        lambda a: vmap(lambda t: t + torch.ones(3) + torch.arange(3) + torch.tensor([1.0, 2.0, 3.0]))(a),
        [(matrix(),)],
    ),
    "writes in vmap": (
        lambda a: vmap(lambda t: t.clone().mul_(2).index_fill_(0, torch.tensor([0]), 1.0))(a),
        [(matrix(),)],
    ),
    "writes to an argument": (lambda a: (vmap(lambda t: t.mul_(2))(a), a), [(matrix(),)]),
    "writes in grad": (lambda a: grad(lambda t: t.clone().mul_(t).sum())(a), [(vector(),)]),
    "modes in grad": (
        lambda a: grad(lambda t: (t * torch.no_grad()(torch.exp)(t)).sum())(a),
        [(vector(),)],
    ),
    "linear algebra": (
        lambda a: (vmap(lambda t: torch.linalg.inv(t.outer(t) + torch.eye(3)))(a), jacrev(torch.linalg.norm)(a)),
        [(matrix(),)],
    ),
    "an error that is caught": (lambda a: (caught(a), grad(cube)(a)), [(vector(),)]),
}


def caught(a):
    def fails(t):
        if t.dim() == 1:
            raise ValueError(tuple(t.shape))
        return t.sum()

    try:
        return grad(fails)(a)
    except ValueError as error:
        return error.args


@pytest.mark.parametrize("name", IN_ONE_GRAPH)
def test_in_one_graph(name):
    check_one_graph(IN_ONE_GRAPH[name][0], *IN_ONE_GRAPH[name][1])


def test_one_graph_for_calls_with_other_values():
    check_parity(
        lambda a, b: vmap(grad(lambda s, t: (s * t).sum() ** 2))(a, b),
        *[(matrix() * k, matrix() + k) for k in range(4)],
        graphs=1,
    )


def test_no_level_is_open_when_the_graph_runs():
    graphs = []
    compiled = stator.compile(lambda a: vmap(grad(cube))(a), backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
    assert_same(compiled(matrix()), vmap(grad(cube))(matrix()))
    assert "functorch" not in graphs[0].code and "vmap" not in graphs[0].code
    with torch.no_grad():
        assert_same(graphs[0](matrix()), (vmap(grad(cube))(matrix()),))


def test_under_no_grad_and_inference_mode():
    def fn(a):
        return grad(cube)(a), vjp(torch.sin, a)[1](a), jvp(torch.sin, (a,), (a,)), vmap(torch.exp)(a)

    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            check_parity(fn, (vector(),))


def test_autocast():
    def fn(a):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return grad(lambda t: (t @ t.T).float().pow(2).sum())(a), vmap(lambda t: t @ a)(
                a.T.contiguous().T.reshape(4, 1, 4).repeat(1, 1, 1)[:, 0]
            )

    check_one_graph(fn, (matrix(4, 4),))


# ---- training


def gradients(fn, *inputs):
    inputs = copy.deepcopy(inputs)
    result = fn(*inputs)
    result.sum().backward()
    return [t.grad for t in inputs]


@pytest.mark.parametrize(
    "fn",
    [
        lambda a: (grad(cube)(a) * a).sum(),
        lambda a: grad(lambda t: (t * a).pow(2).sum())(a.detach()),
        lambda a: vmap(lambda t: t.sin() * a)(a),
        lambda a: jacrev(torch.sin)(a),
        lambda a: jacfwd(torch.sin)(a),
        lambda a: jvp(torch.exp, (a,), (a * 2,))[1],
        lambda a: hessian(lambda t: (t.sin() * t * a).sum())(a),
        lambda a: vjp(torch.tanh, a)[1](a * a)[0],
    ],
)
def test_gradients_through_transforms(fn):
    a = vector(grad=True)
    compiled = stator.compile(fn)
    for scale in (1.0, 2.0):
        b = (a.detach() * scale).requires_grad_()
        assert_same(gradients(compiled, b), gradients(fn, b))
    assert breaks() == 0 and captures() == 1


def test_double_backward_through_a_transform():
    def fn(a):
        return grad(lambda t: (t.sin() * a).sum())(a)

    a = vector(grad=True)
    results = []
    for call in (fn, stator.compile(fn)):
        (first,) = torch.autograd.grad(call(a).sum(), a, create_graph=True)
        results.append((first, torch.autograd.grad(first.sum(), a)[0]))
    assert_same(results[1], results[0])


def test_training_with_per_sample_gradients():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def loss(params, sample, target):
        return (functional_call(model, params, (sample,)) - target).pow(2).sum()

    def step(params, samples, targets):
        grads = vmap(grad(loss), in_dims=(None, 0, 0))(params, samples, targets)
        return {k: p - 0.1 * grads[k].mean(0) for k, p in params.items()}

    start = {k: p.detach().clone() for k, p in model.named_parameters()}
    compiled = stator.compile(step)
    mine, theirs = dict(start), dict(start)
    for k in range(4):
        batch = matrix(5) + k, matrix(5, 1)
        mine, theirs = compiled(mine, *batch), step(theirs, *batch)
        assert_same(mine, theirs)
    assert breaks() == 0 and captures() == 1


def test_ensemble_in_training():
    models = [nn.Linear(3, 2) for _ in range(3)]
    params, buffers = stack_module_state(models)

    def fn(a):
        return vmap(lambda p, b: functional_call(models[0], (p, b), (a,)))(params, buffers).tanh()

    results = []
    for call in (fn, stator.compile(fn)):
        for p in params.values():
            p.grad = None
        call(matrix()).sum().backward()
        results.append({k: p.grad.clone() for k, p in params.items()})
    assert_same(results[1], results[0])
    assert breaks() == 0


# ---- breaks


def check_with_break(fn, *calls, code):
    check_parity(fn, *calls)
    found = stator.counters()["breaks"]
    assert found.get(code, 0) > 0, found


def test_break_inside_of_a_transform_leaves_it_to_python():
    seen = []

    def loss(t):
        seen.append(tuple(t.shape))
        stator.graph_break()
        return (t * 2).sum()

    def fn(a):
        b = a * 3
        g = grad(loss)(b)
        return g + b, list(seen)

    compiled = stator.compile(fn)
    for n in (1, 2, 3):
        seen.clear()
        result, order = compiled(vector())
        assert_same(result, grad(lambda t: (t * 2).sum())(vector() * 3) + vector() * 3)
        assert order == [(3,)], n
    assert stator.counters()["breaks"]["user"] > 0
    assert captures() >= 2  # before and after


@pytest.mark.parametrize(
    "transform",
    [grad, vmap, jacrev, jacfwd, hessian, lambda f: vmap(grad(f)), lambda f: lambda a: jvp(f, (a,), (a,))],
)
def test_data_that_leaves_inside_of_a_transform(transform):
    def loss(t):
        return (t * t).sum() * (2 if bool((t.sum() > 0).item()) else 3)

    def fn(a):
        return transform(loss)(a + 1) * 2

    compiled = stator.compile(fn)
    argument = matrix() if "vmap" in repr(transform) or transform.__name__ == "<lambda>" else vector()
    for k in range(3):
        assert_same(outcome(compiled, (argument + k,), {}), outcome(fn, (argument + k,), {}))


def test_error_inside_of_a_transform():
    def fn(a, b):
        c = a + 1
        return grad(lambda t: (t @ b).sum())(c)

    check_parity(fn, (vector(), vector()), (vector(), vector(4)), (vector(), vector()))


def test_exception_that_leaves_a_transform():
    def fn(a, fail):
        def loss(t):
            if fail:
                raise KeyError("inside")
            return (t * 2).sum()

        return vmap(grad(loss))(a)

    check_parity(fn, (matrix(), False), (matrix(), True), (matrix(), False))


def test_non_scalar_output_and_wrong_dims():
    check_parity(lambda a: (a + 1, grad(lambda t: t * 2)(a)), (vector(),))
    check_parity(lambda a: (a + 1, vmap(torch.sin, in_dims=4)(a)), (vector(),))
    check_parity(lambda a: (a + 1, vmap(lambda t: 1)(a)), (vector(),))


def test_requires_grad_inside_of_a_transform_is_an_error():
    check_parity(lambda a: (a + 1, grad(lambda t: t.clone().requires_grad_().sum())(a)), (vector(),))


def test_pullback_that_leaves():
    def fn(a):
        out, pull = vjp(torch.tanh, a * 2)
        return out, pull

    compiled = stator.compile(fn)
    for _ in range(2):
        (out, pull), (expected, theirs) = compiled(vector()), fn(vector())
        assert_same(out, expected)
        assert_same(pull(vector()), theirs(vector()))


def test_pullback_over_a_break():
    def fn(a):
        b = a + 1
        out, pull = vjp(torch.tanh, b)
        stator.graph_break()
        return out, pull(b)[0]

    check_with_break(fn, (vector(),), (vector(4),), code="user")


def test_wrapped_tensor_that_leaves():
    def fn(a):
        seen = []

        def loss(t):
            seen.append(t)
            return (t * 2).sum()

        return grad(loss)(a + 1), len(seen), seen[0] + 1

    check_parity(fn, (vector(),), (vector(),))

    kept = []

    def keep(a):
        return grad(lambda t: kept.append(t) or (t * 2).sum())(a + 1)

    compiled = stator.compile(keep)
    for n in range(1, 3):
        assert_same(compiled(vector()), torch.full((3,), 2.0))
        assert len(kept) == n and torch._C._functorch.is_dead_tensor_wrapper(kept[-1])


def test_effects_inside_of_a_transform_are_in_order():
    log = []

    def loss(t, name):
        log.append(name)
        t = t * len(log)
        log.append(tuple(t.shape))
        return t.sum()

    def fn(a):
        log.append("start")
        g = grad(loss)(a, "grad")
        v = vmap(loss, in_dims=(0, None))(a.reshape(3, 1), "vmap")
        log.append("end")
        return g, v

    results = []
    for call in (fn, stator.compile(fn)):
        log.clear()
        results.append((call(vector()), list(log)))
    assert_same(results[1], results[0])
    assert breaks() == 0


def test_levels_of_forward_mode_outside_of_functions():
    def fn(a, t):
        b = a + 1
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(b, t)
            out = forward_ad.unpack_dual(dual.sin())
            return out.primal * 2, out.tangent * 2

    check_parity(fn, (vector(), vector()), (vector(), vector() + 1))


def test_level_that_stays_open():
    def opens(a):
        b = a * 2
        forward_ad.enter_dual_level()
        return b + 1

    compiled = stator.compile(opens)
    for _ in range(2):
        assert_same(compiled(vector()), vector() * 2 + 1)
        assert forward_ad._current_level == 0
        forward_ad.exit_dual_level()


def test_functions_that_are_transformed_outside():
    transformed = grad(cube)
    check_one_graph(lambda a: transformed(a) + vmap(transformed)(a.reshape(3, 1))[:, 0], (vector(),), (vector(),))


def test_transform_that_is_returned():
    def fn(a):
        return grad(cube), a + 1

    compiled = stator.compile(fn)
    made, plain = compiled(vector())[0], fn(vector())[0]
    assert_same(made(vector()), plain(vector()))
    assert made.__name__ == plain.__name__ == "cube" and made.__wrapped__ is cube


def test_compiled_function_inside_of_a_transform():
    compiled = stator.compile(lambda t: (t.sin() * t).sum())
    plain = lambda t: (t.sin() * t).sum()  # noqa: E731
    assert_same(compiled(vector()), plain(vector()))
    assert_same(grad(compiled)(vector()), grad(plain)(vector()))
    assert_same(vmap(compiled)(matrix()), vmap(plain)(matrix()))


def test_compiled_function_that_fails_under_vmap():
    compiled = stator.compile(lambda t, u: t @ u)
    with pytest.raises(RuntimeError):
        vmap(compiled)(matrix(), matrix(4, 2))
    assert levels()[0] == 0
    assert_same(vmap(compiled)(matrix(), matrix()), vmap(torch.dot)(matrix(), matrix()))


def test_functionalize_and_linearize():
    check_parity(lambda a: (functionalize(lambda t: t.clone().add_(1))(a), a * 2), (vector(),))

    def fn(a, t):
        out, push = linearize(torch.sin, a)
        return out * 2, push(t)

    compiled = stator.compile(fn)
    assert_same(compiled(vector(), vector()), fn(vector(), vector()))


def test_custom_function_inside_of_a_transform():
    class Twice(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(a):
            return a * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 3

    check_parity(
        lambda a: (grad(lambda t: Twice.apply(t).sum())(a + 1), vmap(Twice.apply)(a + 1)), (vector(),), (vector(),)
    )


def test_hook_inside_of_a_transform():
    def loss(t):
        u = t * 2
        u.register_hook(lambda g: g * 5)
        return u.sum()

    check_parity(lambda a: grad(loss)(a + 1), (vector(),), (vector(),))


# ---- randomness


@pytest.mark.parametrize("randomness", ["error", "same", "different"])
def test_randomness(randomness):
    def fn(a):
        b = a + 1
        return vmap(lambda t: t + torch.rand(3), randomness=randomness)(b), vmap(
            torch.nn.functional.dropout, randomness=randomness
        )(b)

    check_parity(fn, (matrix(),), (matrix() + 1,), (matrix(),))


def test_randomness_in_gradients():
    check_one_graph(lambda a: grad(lambda t: (t * torch.randn(3)).sum())(a), (vector(),), (vector(),))


# ---- the sources of values


def test_data_dependent_check_inside_of_a_transform():
    def loss(t):
        if (t < 0).any():
            raise ValueError("negative")
        return t.sum()

    check_parity(lambda a: grad(loss)(a) * 2, (vector(),), (-vector(),), (vector(),))


def test_global_and_closure_tensors_are_inputs():
    weight = vector(grad=True)

    def fn(a):
        return grad(lambda t: (t * weight).sum())(a), vmap(lambda t: t * weight)(a)

    def run(call):
        g, v = call(vector())
        (g.sum() + v.sum()).backward()
        made, weight.grad = weight.grad, None
        return g, v, made

    compiled = stator.compile(fn)
    for _ in range(2):
        assert_same(run(compiled), run(fn))
        with torch.no_grad():
            weight.mul_(2)
    assert breaks() == 0 and captures() == 1
