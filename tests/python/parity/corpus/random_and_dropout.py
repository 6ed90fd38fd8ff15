"""Random numbers: torch's generators, dropout, distributions, forked state."""

import random

import torch
import torch.nn.functional as F
from torch import nn

from tests.python.parity.corpus.registry import call, f, factory, p, program


@program(f(3), f(2, 3))
def uniform_and_normal(x):
    return x + torch.rand(3), torch.randn(2, 3), torch.rand_like(x), torch.randn_like(x)


@program((f(3), 5), (f(3), 10))
def whole_numbers(x, n):
    return x * torch.randint(0, n, (3,)), torch.randperm(n), torch.randint(n, (2,), dtype=torch.int32)


@program((f(100), True), (f(100), False))
def functional_dropout(x, training):
    return F.dropout(x, 0.5, training=training), F.dropout(x, p=0.1)


@factory(f(4, 8), f(4, 8), call(f(4, 8), before=lambda m: m.eval()))
def dropout_module():
    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.3), nn.ReLU())


@program((f(2), 0), (f(2), 1))
def seeded_inside(x, seed):
    torch.manual_seed(seed)
    return x + torch.rand(2), torch.rand(1)


@factory(f(2), f(2))
def own_generator():
    g = torch.Generator()
    g.manual_seed(3)

    def fn(x):
        return x + torch.rand(2, generator=g)

    return fn


@program((f(2), torch.Generator().manual_seed(1)), (f(2), torch.Generator().manual_seed(2)))
def generator_argument(x, g):
    return x * torch.randn(2, generator=g), torch.randint(0, 9, (3,), generator=g)


@program(f(2), f(2))
def forked_state(x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        a = torch.rand(2)
    return x + a, torch.rand(2)


@program(f(2), f(2))
def state_saved_and_restored(x):
    state = torch.get_rng_state()
    a = torch.rand(2)
    torch.set_rng_state(state)
    return x + a, torch.rand(2)


@program(p(4), p(4))
def bernoulli_and_multinomial(x):
    probabilities = x / x.sum()
    return torch.bernoulli(probabilities), torch.multinomial(probabilities, 2), torch.poisson(x)


@program(f(3), f(4))
def in_place_random(x):
    y = x.clone()
    y.uniform_(-1, 1)
    x.normal_(0, 2)
    return y, torch.empty(2).exponential_(), torch.empty(3).bernoulli_(0.5)


@program((p(3), p(3)), (p(2), p(2)))
def normal_distribution(mean, std):
    d = torch.distributions.Normal(mean, std)
    s = d.sample()
    return s, d.log_prob(s), d.entropy(), d.rsample()


@program(f(4), f(3))
def categorical_distribution(logits):
    d = torch.distributions.Categorical(logits=logits)
    s = d.sample((2,))
    return s, d.log_prob(s), d.probs


@program((f(3), f(3)), (f(2), f(2)))
def kl_divergence(a, c):
    p_, q = torch.distributions.Normal(a, 1.0), torch.distributions.Normal(c, 2.0)
    return torch.distributions.kl_divergence(p_, q)


@program((f(2), [1, 2, 3]), (f(2), [4, 5]))
def python_random(x, ns):
    random.shuffle(ns)
    return x * random.choice(ns), random.uniform(0, 1), ns


@program((f(2), 1), (f(2), 2))
def python_random_object(x, seed):
    r = random.Random(seed)
    return x * r.random(), r.randint(0, 10), r.sample(range(10), 2)


@program(f(2, grad=True), f(3, grad=True))
def reparameterised(x):
    noise = torch.randn_like(x)
    return x + noise * 0.1, x * torch.rand(())


@program((f(2, 4, 8), 0.2), (f(1, 4, 8), 0.0))
def attention_dropout(x, rate):
    return F.scaled_dot_product_attention(x, x, x, dropout_p=rate)


@program((f(3), True), (f(3), False))
def noise_in_branch(x, noisy):
    if noisy:
        x = x + torch.randn(3) * 0.1
    return x * torch.rand(1)


@program((f(3), 3), (f(3), 2))
def noise_in_loop(x, n):
    for _ in range(n):
        x = x + torch.randn_like(x)
    return x


@program(f(3), f(3))
def noise_around_a_break(x):
    y = x + torch.rand(3)
    print("break")
    return y + torch.rand(3)


@factory(f(4, 3), f(4, 3))
def gumbel_and_init():
    layer = nn.Linear(3, 2)

    def fn(x):
        return F.gumbel_softmax(layer(x), tau=0.5), F.gumbel_softmax(layer(x), hard=True)

    return fn


@program(f(2, 3), f(3, 2))
def alpha_and_feature_dropout(x):
    return F.alpha_dropout(x, 0.5, True), F.dropout1d(x[None], 0.5, True), F.rrelu(x, training=True)
