"""Programs of the golden files: modules, hooks, optimizers, side effects on external objects."""

import functools
import weakref

import torch

from tests.python.golden.registry import topic, x

modules = topic("modules")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.scale = 2
        self.calls = 0

    def forward(self, t):
        self.calls += 1
        return torch.relu(self.norm(self.linear(t))) * self.scale


@modules(make=True)
def linear_layer():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2)


@modules(lambda: (x(),), lambda: (x(),), make=True, brief=True)
def block_in_training():
    return Block()


@modules(make=True, brief=True)
def block_in_evaluation():
    return Block().eval()


@modules(make=True, brief=True)
def sequence_with_dropout():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.LayerNorm(3))


@modules(make=True)
def list_of_layers():
    torch.manual_seed(0)
    layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(2))

    def fn(t):
        for layer in layers:
            t = layer(t)
        return t

    return fn


@modules(lambda: (torch.tensor([0, 2]),), make=True)
def embedding():
    torch.manual_seed(0)
    return torch.nn.Embedding(4, 2)


@modules(lambda: (x(1, 4, 8),), make=True, brief=True)
def attention():
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    return lambda t: layer(t, t, t, need_weights=False)[0]


hooks = topic("hooks")


@hooks(make=True, brief=True)
def forward_hooks():
    layer = Block().eval()
    layer.linear.register_forward_hook(lambda module, args, output: output + 1)
    layer.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    return layer


@hooks(lambda: (torch.ones(3, requires_grad=True),))
def hook_on_a_tensor(t):
    y = t * 2
    y.register_hook(lambda grad: grad * 3)
    return y.sum()


@hooks(make=True, brief=True)
def parametrized():
    torch.manual_seed(0)
    return torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 3))


optimizers = topic("optimizers")


def _step(make):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = make(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()  # creates the optimizer's state
    return lambda: optimizer.step()


@optimizers(lambda: (), make=True, brief=True)
def sgd_with_momentum():
    return _step(functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9))


@optimizers(lambda: (), lambda: (), make=True, brief=True)
def adam():
    return _step(functools.partial(torch.optim.Adam, lr=0.1, foreach=False))


@optimizers(make=True, brief=True)
def training_step():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fn(t):
        optimizer.zero_grad()
        loss = model(t).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return fn


effects = topic("effects")


class Counter:
    def __init__(self):
        self.n = 0
        self.seen = []


@effects(lambda: (x(),), lambda: (x(),), make=True)
def attributes_and_lists():
    counter = Counter()

    def fn(t):
        counter.n += 1
        counter.seen.append(t * counter.n)
        return len(counter.seen)

    return fn


@effects(lambda: (x(), Counter()))
def attribute_of_an_argument(t, counter):
    counter.last = t + 1
    del counter.seen
    return counter.last * 2


@effects()
def attribute_of_a_tensor(t):
    t.note = "seen"
    return t + len(t.note)


@effects(lambda: (torch.ones(2), torch.zeros(2)))
def gradient_is_set(t, g):
    t.grad = g + 1
    return t * 2


@effects(make=True)
def cached_function():
    @functools.lru_cache(maxsize=None)
    def table(n):
        return n * 2

    return lambda t: t + table(3) + table(3)


@effects(lambda: (x(), Counter()))
def weak_reference(t, counter):
    return t + 1, weakref.ref(counter)


@effects()
def default_dtype(t):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    made = torch.ones(3)
    torch.set_default_dtype(before)
    return t + made
