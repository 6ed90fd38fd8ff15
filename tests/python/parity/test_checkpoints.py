"""Activation checkpointing: what is computed again, when, and with which errors, against torch.utils.checkpoint."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import GraphExecGroup, set_checkpoint_early_stop

import stator
from tests.python.parity.checkpointing import compare, leaf, once, plain


def forward(x):
    return once(plain, x * 2) + 1


def test_a_backward_pass_computes_the_part_again_up_to_the_last_tensor_it_needs():
    def scenario(run):
        x = leaf(3)
        y = run(x)
        y.sum().backward()
        return y, x.grad

    *_, ops = compare(forward, scenario)
    assert ops.count("sin") == 2 and ops.count("exp") == 2 and ops.count("tanh") == 2


def test_early_stop_ends_with_the_last_tensor_that_is_saved():
    def scenario(run):
        x = leaf(3)
        run(x).sum().backward()
        return x.grad

    def part(t):
        return t.exp().cos().neg()

    *_, ops = compare(lambda x: once(part, x), scenario)
    assert ops.count("neg") == 3 and ops.count("exp") == 2
    *_, ops = compare(lambda x: once(part, x, early_stop=False), scenario)
    assert ops.count("neg") == 4
    with set_checkpoint_early_stop(False):
        *_, ops = compare(lambda x: once(part, x), scenario)
    assert ops.count("neg") == 4


def test_the_setting_of_early_stop_is_the_one_of_the_call():
    def part(t):
        return t.exp().cos().neg()

    fn = lambda x: once(part, x)  # noqa: E731
    compiled = stator.compile(fn)

    def scenario(run):
        found = []
        for early in (True, False, True):
            x = leaf(3)
            with set_checkpoint_early_stop(early):
                y = run(x)
            y.sum().backward()
            found.append(x.grad)
        return found

    scenario(compiled)
    *_, ops = compare(fn, scenario, captures=False)
    assert ops.count("neg") == 10


@pytest.mark.parametrize("preserve", [True, False])
def test_random_numbers_of_the_recomputation(preserve):
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Sigmoid(), nn.Dropout(0.2))

    def fn(x):
        return once(layer, x, preserve_rng_state=preserve) * torch.rand(4)

    def scenario(run):
        layer.zero_grad()
        x = leaf(6, 4)
        y = run(x)
        before = torch.rand(3)
        y.sum().backward()
        return y, before, torch.rand(3), x.grad, [p.grad.clone() for p in layer.parameters()]

    compare(fn, scenario)


def test_no_grad_computes_nothing_again():
    def scenario(run):
        with torch.no_grad():
            return run(leaf(3)), run(leaf(3).detach())

    *_, ops = compare(forward, scenario)
    assert ops.count("sin") == 2


def test_backward_twice_with_retain_graph():
    def scenario(run):
        x = leaf(3)
        y = run(x).sum()
        for _ in range(2):
            y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match="second time") as error:
            y.backward()
        return x.grad, str(error.value)

    *_, ops = compare(forward, scenario)
    assert ops.count("sin") == 4


def test_backward_of_a_part_of_the_outputs():
    def fn(x, y):
        def part(a, b):
            c = a.sin()
            return c.exp() * b, (b.cos() * c).tanh(), 7

        first, second, number = once(part, x, y)
        return first, second, number

    def scenario(run):
        x, y = leaf(3), leaf(3, seed=1)
        first, second, number = run(x, y)
        second.sum().backward(retain_graph=True)
        found = [x.grad.clone(), y.grad.clone(), number]
        first.sum().backward()
        return [*found, x.grad, y.grad]

    compare(fn, scenario)


def test_gradients_of_gradients():
    def scenario(run):
        x = leaf(3)
        y = run(x)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (h,) = torch.autograd.grad((g * y).sum(), x, create_graph=True)
        h.sum().backward()
        return y, g, h, x.grad

    compare(forward, scenario)


def test_inputs_of_backward_and_several_outputs_at_once():
    def scenario(run):
        x, z = leaf(3), leaf(3, seed=2)
        a, b = run(x), run(z)
        torch.autograd.backward([a.sum(), b.sum()], inputs=[x])
        return x.grad, z.grad

    compare(forward, scenario)


def nested(x):
    def inner(t):
        return (t.sin() * t).exp()

    def outer(t):
        return once(inner, t.cos()).tanh() + once(inner, t * 2, early_stop=False)

    return once(outer, x)


def test_nested_parts():
    def scenario(run):
        x = leaf(3)
        y = run(x)
        y.sum().backward(retain_graph=True)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        g.sum().backward()
        return y, g, x.grad

    compare(nested, scenario)


def test_three_levels_with_random_numbers():
    def leaf_part(t):
        return nn.functional.dropout(t.sin(), 0.5) * t

    def middle(t):
        return once(leaf_part, once(leaf_part, t).exp())

    def scenario(run):
        x = leaf(5)
        y = run(x)
        y.sum().backward()
        return y, x.grad

    compare(lambda x: once(lambda t: once(middle, t).tanh(), x * 2), scenario)


def test_hooks_on_tensors():
    def scenario(run):
        seen = []
        x = leaf(3)
        x.register_hook(lambda g: seen.append(g.clone()))
        y = run(x)
        y.register_hook(lambda g: g * 3)
        y.sum().backward()
        return seen, x.grad

    compare(forward, scenario)


def test_a_changed_argument_is_an_error():
    def fn(x, unused):
        y = x * 2
        return once(lambda t, u: t.sin().exp(), y, unused), y

    def scenario(run):
        messages = []
        for change in (lambda y, unused: y.detach().add_(1), lambda y, unused: unused.add_(1)):
            x, unused = leaf(3), torch.ones(2)
            out, y = run(x, unused)
            change(y, unused)
            with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
                out.sum().backward()
            messages.append(str(error.value))
        return messages

    compare(fn, scenario)


class Scaled(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.options = options

    def forward(self, x):
        return once(lambda t: (t * self.weight).exp().sin(), x, **self.options)

    def run_and_exchange(self, run, x, data):
        self.weight = nn.Parameter(torch.ones(3))
        out = run(self, x)
        self.weight.data = data
        return out.sum()


def call(model, x):
    return model(x)


def test_other_metadata_in_the_recomputation_is_torchs_error():
    model = Scaled()

    def scenario(run):
        loss = model.run_and_exchange(run, leaf(1).expand(3), torch.ones(2, 3))
        with pytest.raises(torch.utils.checkpoint.CheckpointError) as error:
            loss.backward()
        return str(error.value)

    message, *_ = compare(call, scenario)
    assert "tensor at position" in message and "torch.Size([2, 3])" in message and "Tip:" in message


def test_the_check_of_metadata_can_be_turned_off():
    model = Scaled(determinism_check="none")

    def scenario(run):
        x = leaf(3)
        loss = model.run_and_exchange(run, x, torch.ones(3, dtype=torch.float64))
        loss.backward()
        return x.grad

    compare(call, scenario)


def test_an_error_in_the_recomputation():
    model = Scaled()

    def scenario(run):
        loss = model.run_and_exchange(run, leaf(3), torch.ones(5))
        with pytest.raises(RuntimeError, match="must match the size") as error:
            loss.backward()
        return str(error.value), torch.is_grad_enabled()

    compare(call, scenario)


def test_a_tensor_that_is_read_twice_in_one_pass_is_an_error():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            made = t.exp()
            ctx.save_for_backward(made)
            return made

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0] * ctx.saved_tensors[0]

    def scenario(run):
        out = run(leaf(3))
        with pytest.raises(torch.utils.checkpoint.CheckpointError) as error:
            out.sum().backward()
        return str(error.value)

    compare(lambda x: once(lambda t: Twice.apply(t.sin()), x), scenario)


def test_saved_tensors_are_read_outside_of_a_backward_pass():
    def scenario(run):
        x = leaf(3)
        y = run(x)
        node = y.grad_fn
        first, again = node._saved_result, node._saved_result
        y.sum().backward()
        return first, again, x.grad

    *_, ops = compare(lambda x: once(lambda t: t.sin().exp(), x), scenario)
    assert ops.count("exp") == 4


def test_a_group_of_backward_passes_computes_once():
    def fn(x, y):
        return once(lambda a, b: (a.sin().exp(), b.cos().exp()), x, y)

    def scenario(run):
        x, y = leaf(3), leaf(3, seed=1)
        first, second = run(x, y)
        with GraphExecGroup():
            first.sum().backward(retain_graph=True)
            second.sum().backward(retain_graph=True)
            with pytest.raises(torch.utils.checkpoint.CheckpointError) as error:
                second.sum().backward()
        return x.grad, y.grad, str(error.value)

    compare(fn, scenario)


def test_autocast():
    weight = leaf(3, 3, seed=3)

    def fn(x):
        with torch.autocast("cpu", torch.bfloat16):
            y = once(lambda t: (t @ weight).sin() @ t, x)
        return y.float().exp()

    def scenario(run):
        weight.grad = None
        x = leaf(3, 3)
        y = run(x)
        with torch.autocast("cpu", torch.float16):
            y.sum().backward()
        return y, x.grad, weight.grad, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    compare(fn, scenario)


@pytest.mark.parametrize(
    "backend", ["reference", "aot_eager", lambda gm, _: gm.forward, lambda gm, _: torch.fx.Interpreter(gm).run]
)
def test_a_recomputation_that_stops_inside_of_autocast_leaves_it(backend):
    """Torch ends it by an exception, behind the last tensor that the backward pass needs."""

    def fn(x):
        def part(x):
            with torch.autocast("cpu", torch.bfloat16):
                return x @ x

        return once(part, x)

    def depth():
        torch.autocast_increment_nesting()
        return torch.autocast_decrement_nesting()

    compiled = stator.compile(fn, backend=backend)
    before = depth()
    for _ in range(3):
        compiled(leaf(3, 3)).sum().backward()
        assert depth() == before


def test_keywords_and_closures():
    scale = leaf(3, seed=4)

    def part(t, factor, *, offset):
        return (t * factor * scale).sin() + offset.exp()

    def scenario(run):
        scale.grad = None
        x, z = leaf(3), leaf(3, seed=1)
        run(x, z, 3.0).sum().backward()
        return x.grad, z.grad, scale.grad

    compare(lambda x, z, n: once(part, x, n, offset=z), scenario)


@pytest.mark.parametrize("early_stop", [True, False])
def test_batch_norm_counts_as_often_as_in_torch(early_stop):
    layer = nn.Sequential(nn.BatchNorm1d(3), nn.Sigmoid(), nn.BatchNorm1d(3))
    state = copy.deepcopy(layer.state_dict())

    def scenario(run):
        layer.load_state_dict(state)
        run(layer, leaf(4, 3)).sum().backward()
        return {name: tensor.clone() for name, tensor in layer.state_dict().items()}

    compare(lambda layer, x: once(layer, x, early_stop=early_stop), scenario)
