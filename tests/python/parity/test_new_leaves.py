"""What backends that trace ahead of time do not keep: tensors that begin to require gradients inside a compiled
function, hooks on tensors inside, and errors of operators."""

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import Counting, assert_same, captures

BACKENDS = {"reference": lambda: "reference", "aot_eager": lambda: "aot_eager", "python": Counting}


def of_input(x):
    x.requires_grad_()
    return x * 2


def of_written_input(x):
    x.data.add_(1)
    x.requires_grad = True
    return x * 2


def of_detached(x):
    y = (x * 2).detach().requires_grad_()
    return (y * y).sum(), y


def retained(x):
    y = (x * 2).detach()
    y.requires_grad_(True)
    z = y * 2
    z.retain_grad()
    z.sum().backward()
    return z.grad, y.grad


def with_inner_gradient(x):
    y = (x + 1).detach().requires_grad_()
    with torch.enable_grad():
        loss = (y**2).sum()
    return torch.autograd.grad(loss, y)[0] * 2


def parameter(x):
    weight = nn.Parameter(x.detach() * 2)
    return weight * 3, weight


def module(x):
    torch.manual_seed(0)
    layer = nn.Linear(3, 3)
    layer(x).sum().backward()
    return layer.weight, layer.weight.grad, layer.bias.grad


def frozen(x):
    y = (x * 2).detach().requires_grad_()
    y.requires_grad_(False)
    return y * 2


def lazy(x):
    torch.manual_seed(0)
    return nn.LazyLinear(2)(x)


def seen(value):
    if isinstance(value, tuple):
        return [seen(item) for item in value]
    return type(value).__name__, value.detach().clone(), value.requires_grad, value.is_leaf


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(
    "fn",
    [of_input, of_written_input, of_detached, retained, with_inner_gradient, parameter, module, frozen, lazy],
    ids=lambda fn: fn.__name__,
)
def test_new_leaves(fn, requires_grad, backend):
    compiled = stator.compile(fn, backend=BACKENDS[backend]())
    for start in (1.0, 2.0):
        expected, actual = (torch.full((3,), start, requires_grad=requires_grad) for _ in range(2))
        assert_same(seen(compiled(actual)), seen(fn(expected)))
        assert_same(seen(actual), seen(expected))
    assert captures() > 0


def same_layout(p, x):
    p.data = x * 2
    return p + 1


def transposed(p, x):
    p.data = (x * 2).t()
    return p * x


def other_sizes(p, x):
    y = p * 3
    p.data = x[:1] * 2
    return y, p + x


def other_dtype(p, x):
    p.data = x.double()
    return p + 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [same_layout, transposed, other_sizes, other_dtype], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("make", [torch.clone, nn.Parameter])
def test_data_is_replaced(fn, backend, make):
    compiled = stator.compile(fn, backend=BACKENDS[backend]())
    for start in (1.0, 2.0):
        x = torch.arange(9.0).reshape(3, 3) * start
        given = [make(torch.ones(3, 3)) for _ in range(2)]
        results = [f(p, x) for f, p in zip([fn, compiled], given, strict=True)]
        assert_same(seen(results[1]), seen(results[0]))
        assert_same(given[1].detach(), given[0].detach())
    assert captures() > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_lazy_layer_of_a_function(backend):
    torch.manual_seed(0)
    expected, actual = nn.LazyLinear(2), nn.LazyLinear(2)
    compiled = stator.compile(lambda x: actual(x) * 2, backend=BACKENDS[backend]())
    for batch in (3, 3, 3):
        x = torch.randn(batch, 4)
        state = torch.random.get_rng_state()
        e = expected(x) * 2
        torch.random.set_rng_state(state)
        assert_same(seen(compiled(x)), seen(e))
    assert type(actual) is nn.Linear and captures() > 0


def hooked(x):
    y = x * 2
    y.register_hook(lambda grad: grad * 3)
    return (y * y).sum()


def hooked_input(x):
    x.register_hook(lambda grad: grad * 3)
    return (x * x).sum()


def observed(x):
    y, seen = x * 2, []
    y.register_hook(lambda grad: seen.append(grad.clone()))
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    return loss + seen[0].sum()


def kept(x):
    y = x * 2
    y.retain_grad()
    loss = (y * y).sum()
    loss.backward(retain_graph=True)
    return loss + y.grad.sum()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [hooked, hooked_input, observed, kept], ids=lambda fn: fn.__name__)
def test_gradients_of_tensors_inside(fn, backend):
    compiled = stator.compile(fn, backend=BACKENDS[backend]())
    for start in (1.0, 2.0):
        inputs = [torch.full((3,), start, requires_grad=True) for _ in range(2)]
        results = [f(x) for f, x in zip([fn, compiled], inputs, strict=True)]
        for result in results:
            result.backward()
        assert_same(seen(results[1]), seen(results[0]))
        assert_same(inputs[1].grad, inputs[0].grad)
    assert captures() > 0


def empty_maximum(x):
    return torch.empty(0, 3).amax(0)


def empty_range(x):
    return torch.randint(5, 2, (3,))


def expanded(x):
    return x[:1].expand(4, 3).add_(1)


def copied_to_expanded(x):
    return x[:1].expand(4, 3).copy_(x)


def zeroed(x):
    return x[:1].expand(4, 3).zero_()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize(
    "call", [empty_maximum, empty_range, expanded, copied_to_expanded, zeroed], ids=lambda fn: fn.__name__
)
def test_errors_that_compilers_do_not_raise(call, fullgraph, backend):
    def f(x, log):
        y = x * 2
        log.append("before")
        x.add_(1)
        try:
            z = call(x).sum() + y
            log.append("done")
        except Exception as error:
            log.append((type(error).__name__, str(error)))
            z = y
        return z + 1

    compiled = stator.compile(f, backend=BACKENDS[backend](), fullgraph=fullgraph)
    for start in (0.0, 1.0):
        made = [(torch.full((4, 3), start), []) for _ in range(2)]
        assert_same(compiled(*made[1]), f(*made[0]))
        assert_same(made[1], made[0])


def test_an_error_of_the_backend_itself_stays_one():
    def failing(gm, example_inputs):
        raise ValueError("not today")

    compiled = stator.compile(lambda x: x.sin() + 1, backend=failing)
    for _ in range(2):
        with pytest.raises(stator.BackendCompilerFailed, match="not today"):
            compiled(torch.ones(3))
