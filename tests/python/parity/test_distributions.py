"""`torch.distributions` in one graph: samples, densities and divergences are the plain program's, bit by bit."""

import pytest
import torch
import torch.distributions as D
from torch.distributions import transforms

import stator
from tests.python.helpers import assert_same, captures

LINES = """
D.Normal(x, 1.0).log_prob(x * 2), D.Normal(x, 1.0).sample(), D.Normal(x, x).rsample((2,)), D.Normal(0, 1).log_prob(x)
D.kl_divergence(D.Normal(x, 1.0), D.Normal(x * 2, 2.0)), D.Normal(x, x).entropy(), D.Normal(x, x).cdf(x)
D.Normal(x, 1.0).expand((2, 4)).log_prob(x), D.Normal(x, 1.0, validate_args=False).log_prob(x)
D.Categorical(logits=x).sample((3,)), D.Categorical(logits=x).log_prob(torch.tensor(2))
D.Categorical(probs=x).entropy(), D.Categorical(probs=x).mode
D.kl_divergence(D.Categorical(logits=x), D.Categorical(probs=x)), D.OneHotCategorical(logits=x).sample()
D.Bernoulli(logits=x).sample(), D.Bernoulli(logits=x).log_prob(torch.ones(4)), D.Bernoulli(logits=x).entropy()
D.Independent(D.Normal(x, 1.0), 1).log_prob(x), D.Beta(x, x + 1).log_prob(torch.sigmoid(x))
D.Gamma(x, x + 1).rsample(), D.Uniform(x, x + 1).sample(), D.Uniform(x, x + 1).log_prob(x + 0.5), D.Poisson(x).sample()
D.Exponential(x).rsample(), D.Exponential(x).log_prob(x), D.kl_divergence(D.Exponential(x), D.Exponential(x + 1))
D.Laplace(x, 1.0).rsample((3,)), D.Laplace(x, 1.0).log_prob(x + 1), D.Laplace(x, x).entropy()
D.Dirichlet(x).log_prob(torch.softmax(x, 0)), D.LogNormal(x, 1.0).log_prob(x), D.StudentT(x).log_prob(x)
D.TransformedDistribution(D.Normal(x, 1.0), [transforms.TanhTransform()]).rsample()
D.MixtureSameFamily(D.Categorical(logits=x), D.Normal(x, 1.0)).log_prob(torch.tensor(1.0))
D.RelaxedOneHotCategorical(torch.tensor(1.0), logits=x).rsample()
""".strip().splitlines()
# The constructor from sizes that some of them call.
OLD = """
x.new(2, 3).zero_(), x.new(5).fill_(2), x.new(x.size()).zero_(), x.new(torch.Size([2, 1])).zero_()
x.double().new(2).zero_()
""".strip().splitlines()


@pytest.mark.parametrize("line", LINES + OLD)
def test_in_one_graph(line):
    space = {"torch": torch, "D": D, "transforms": transforms}
    exec(f"def fn(x):\n    return {line}", space)
    fn = space["fn"]
    compiled = stator.compile(fn, fullgraph=True)
    for seed in range(3):
        results = []
        for f in (fn, compiled):
            torch.manual_seed(seed)
            x = (torch.arange(1.0, 5.0) + seed).requires_grad_(seed == 2)
            made = f(x)
            results.append((made, torch.rand(1)))
        assert_same(results[1], results[0])
    assert captures() <= 2


@pytest.mark.parametrize("argument", ["[1.0, 2.0]", "(3,)", "", "x", "x.untyped_storage()"])
def test_other_uses_of_the_old_constructor(argument):
    space = {"torch": torch}
    exec(f"def fn(x):\n    y = x * 2\n    return y, x.new({argument})", space)
    compiled = stator.compile(space["fn"])
    for _ in range(2):
        x = torch.ones(3)
        assert_same(compiled(x), space["fn"](x))
    assert captures() > 0
