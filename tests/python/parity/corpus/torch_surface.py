"""Less common parts of the torch API: out=, parametrizations, generators, distributions, parameters made inside."""

import torch
from torch import distributions, nn
from torch.nn.utils import parametrizations, parametrize
from torch.overrides import TorchFunctionMode

from tests.python.parity.corpus.registry import call, f, factory, p, program


@program((f(3), f(3)), (f(3), f(3)), (f(3), f(5)))
def out_of_right_or_other_size(x, out):
    given = out
    torch.add(x, 1, out=out)
    torch.mul(out, 2, out=out)
    return out, out is given


@program((f(2, 3), f(3, 2)), (f(2, 3), f(3, 2)))
def out_into_a_view(x, out):
    torch.sin(x.t(), out=out[:, :])
    torch.max(x, 1, out=(out[:2, 0], torch.empty(2, dtype=torch.long)))
    return out


@program(f(3, grad=True), f(3))
def out_with_gradient_is_an_error(x):
    try:
        return torch.sin(x, out=torch.empty(3))
    except RuntimeError as error:
        return x, str(error)


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


@factory(f(2, 3, grad=True), f(2, 3, grad=True), f(1, 3))
def parametrized():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


@factory(f(2, 3), f(2, 3))
def parametrized_and_cached():
    layer = nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", Symmetric())

    def fn(x):
        with parametrize.cached():
            return layer(x) + layer(x * 2)

    return fn


@factory(f(2, 3), f(2, 3), call(f(2, 3), before=lambda m: m.eval()))
def weight_and_spectral_norm():
    return nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 3)), parametrizations.spectral_norm(nn.Linear(3, 3)))


@factory(f(2, 3), f(2, 3), f(4, 3))
def lazy_layers():
    return nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))


@factory(f(2), f(2))
def own_generator_state():
    generator = torch.Generator().manual_seed(3)

    def fn(x):
        return x + torch.rand(2, generator=generator), torch.randperm(4, generator=generator)

    return fn


@program(f(2), f(2))
def generator_made_inside(x):
    generator = torch.Generator()
    generator.manual_seed(7)
    return x + torch.randn(2, generator=generator), generator.initial_seed()


@program(f(2), f(2))
def state_is_forked(x):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        a = torch.rand(2)
    return x + a, torch.rand(2)


@program((f(3), p(3)), (f(3), p(3)))
def normal_sample_and_probability(mean, scale):
    d = distributions.Normal(mean, scale)
    sample = d.rsample()
    return sample, d.log_prob(sample), d.entropy(), d.cdf(mean)


@program(f(2, 4), f(2, 4))
def categorical_and_bernoulli(x):
    c = distributions.Categorical(logits=x)
    b = distributions.Bernoulli(probs=x.sigmoid())
    return c.sample(), c.entropy(), b.sample(), b.log_prob(torch.ones(2, 4))


@program((f(3), p(3)), (f(3), p(3)))
def unchecked_distribution(mean, scale):
    d = distributions.Normal(mean, scale, validate_args=False)
    return d.rsample((2,)), d.variance


@program((f(3), p(3)), (f(3), -p(3)))
def invalid_distribution(mean, scale):
    try:
        return distributions.Normal(mean, scale).mean
    except ValueError as error:
        return mean, str(error)[:30]


@program(f(3), f(3))
def parameter_made_inside(x):
    weight = nn.Parameter(torch.ones(3) * 2)
    y = (x * weight).sum()
    return y, isinstance(weight, nn.Parameter), weight.requires_grad


@program(f(2, 3), f(2, 3))
def layer_made_inside(x):
    layer = nn.Linear(3, 2)
    return layer(x)


class Negating(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return -result if func is torch.sin else result


@program(f(3), f(3))
def mode_inside(x):
    with Negating():
        y = torch.sin(x)
    return y, torch.sin(x)


class Meters(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


@program(f(3), f(3))
def subclass_with_its_own_function(x):
    y = x.as_subclass(Meters)
    return (y + 1).sin(), type(y * 2) is Meters


@program(f(3, grad=True), f(3))
def named_tuple_results(x):
    top = torch.topk(x, 2)
    low, where = torch.min(x, 0)
    return top.values, top.indices, type(top).__name__, low, where, torch.sort(x, descending=True).values


@program(f(3, grad=True), f(3, grad=True))
def data_and_gradient(x):
    if x.grad is None:
        x.grad = torch.ones_like(x)
    x.grad += 1
    x.data.mul_(2)
    return x.data.sum(), x.grad.clone()


@program(f(3, 2), f(2, 4))
def results_with_names_are_made(x):
    found = torch.return_types.max((x + 1, x.long()))
    wrong = None
    try:
        torch.return_types.max((x,))
    except TypeError as error:
        wrong = str(error)
    return found, found.values * 2, type(found).__name__, wrong, torch.return_types.qr([x, x - 1]).R
