"""PyTorch beyond plain operators: pytrees, `out=`, parametrizations, optimizers, distributions, checkpoints."""

import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

import stator
from tests.python.helpers import assert_same
from tests.python.parity.programs import Programs, x, y

programs = Programs()


@programs((x, y))
def tree_map(a, b):
    tree = {"a": a, "b": [b, (a, 3)], "n": None}
    doubled = pytree.tree_map(lambda t: t * 2 if isinstance(t, torch.Tensor) else t, tree)
    leaves, spec = pytree.tree_flatten(doubled)
    return pytree.tree_unflatten(leaves, spec), len(leaves)


@programs((x, y))
def tree_only(a, b):
    return pytree.tree_map_only(torch.Tensor, torch.neg, [a, 1, {"k": b}]), pytree.tree_leaves((a, [b])), b * 1


@programs((x, y))
def tensor_of_tensors(a, b):
    total, mean = a.sum(), b.mean()
    row = torch.tensor([total, mean, 2])
    table = torch.tensor([[total, 1], [2.5, mean]], dtype=torch.float64)
    counts = torch.tensor((a.argmax(), True, 7))
    return row, table, counts, torch.as_tensor([mean, mean]), row.requires_grad


@programs((x.clone().requires_grad_(), y))
def tensor_of_a_tensor_is_a_copy(a, b):
    copied, wide = torch.tensor(a), torch.tensor(b.t(), dtype=torch.float64)
    b.add_(1)
    return copied, copied.requires_grad, wide, wide.stride(), b


@programs((x, y))
def tensor_of_numbers_in_tensors(a, b):
    n, s = a.argmax().item(), b.sum().item()
    return torch.tensor(n), torch.tensor([n, 3]), torch.tensor([[s], [n]]), torch.tensor(s, dtype=torch.float64)


@programs((x, y))
def subscripts_by_tensors(a, b):
    n, k = a.flatten().argmax() % 2, b[0].argmax()
    v = a[n]
    return v, a[n, k], a[:, k], a[..., k, None], a[n - 1], a[None, n]


@programs((x, y))
def slices_by_tensors(a, b):
    n = b[0].argmax() + 1
    return a[:n] * 2, a[:, :n].sum(), a[:, n:].sum(), a[0:n:2].sum()


@programs((x.clone(), y))
def stores_by_tensors(a, b):
    n = b.sum(1).argmax()
    row = a[n]
    row.add_(1)
    a[n, 0] = 7
    a[1 - n] = b[n]
    a[:, n] = b[0, 0]
    return a * 1, row


@programs((x.clone(), torch.tensor(1)), (x.clone(), torch.tensor(-1)), (x.clone(), torch.tensor(5)))
def subscript_out_of_range(a, n):
    a.add_(1)
    return a[n] * 2


@programs((x.clone(), y))
def out_argument(a, b):
    target = torch.empty_like(a)
    result = torch.add(a, b, out=target)
    torch.mul(a, 2, out=a)
    return result, target, result is target


@programs((x,))
def out_of_two(a):
    values, indices = torch.empty(2), torch.empty(2, dtype=torch.long)
    made = torch.max(a, dim=1, out=(values, indices))
    return made, values, indices


@programs((x,))
def named_returns(a):
    s = torch.sort(a)
    m = a.max(dim=0)
    return s, m.values + 1, m[1], type(s).__name__, torch.linalg.slogdet(a @ a.T + torch.eye(2)).logabsdet


@programs((x,))
def normal_distribution(a):
    d = torch.distributions.Normal(a, torch.ones_like(a), validate_args=False)
    return d.log_prob(a + 1), d.mean, d.rsample().shape, d.entropy()


@programs((torch.tensor([[0.2, 0.8], [0.5, 0.5]]),))
def categorical(p):
    d = torch.distributions.Categorical(probs=p, validate_args=False)
    return d.logits, d.sample(), d.entropy()


@programs((x,))
def made_in_other_ways(a):
    return (
        a.new_tensor([1, 2]),
        a.new_zeros(3),
        torch.asarray([1.0, 2.0]),
        torch.scalar_tensor(3.0),
        torch.tensor(a.shape),
        a.new_full((2,), 7.0),
        torch.linspace(0, 1, 3),
    )


@programs((x, 0), (x, 1))
def shapes_as_numbers(a, d):
    n = a.shape[d]
    return a.reshape(-1, n) if n > 2 else a.reshape(n, -1), a.size(), torch.Size([1, 2]), a.numel() // n


@programs((x,))
def generic_function_names(a):
    fn = getattr(torch, "relu")
    method = getattr(a, "sum")
    return (
        fn(a - 2),
        method(),
        torch.Tensor.add(a, 1),
        torch.ops.aten.mul(a, 2),
        functools.partial(F.softmax, dim=-1)(a),
    )


layer = nn.Linear(3, 2)


@programs((x,))
def functional_with_module(a):
    return F.linear(a, layer.weight, layer.bias), layer(a), [n for n, _ in layer.named_parameters()]


@programs((x,))
def dtype_questions(a):
    info = torch.finfo(a.dtype)
    return a + info.eps, info.max > 1e30, torch.iinfo(torch.int8).max, torch.promote_types(a.dtype, torch.float64)


test_program = programs.tests()


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.scale = 2.0

    def forward(self, a):
        self.count = self.count + 1
        self.last = a.shape[0]
        return a * self.count


def parametrized():
    layer = nn.Linear(3, 3)
    nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


MODULES = {
    "parametrized": parametrized,
    "weight_norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
    "counter": Counter,
    "batch_norm": lambda: nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()),
    "embedding_bag": lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (1, 3)), nn.AdaptiveAvgPool1d(2)),
}


@pytest.mark.parametrize("name", MODULES)
def test_module(name):
    torch.manual_seed(0)
    plain = MODULES[name]()
    other = copy.deepcopy(plain)
    compiled = stator.compile(other)
    for step in range(3):
        expected, actual = plain(x + step), compiled(x + step)
        assert_same(actual, expected)
        assert_same(dict(other.state_dict()), dict(plain.state_dict()))
    assert not stator.counters()["breaks"], stator.counters()["breaks"]


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "sgd_loop": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=False),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_step(name):
    def run(wrap):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = OPTIMIZERS[name](list(model.parameters()))

        def update():
            optimizer.step()
            optimizer.zero_grad()

        step = wrap(update)
        for i in range(4):
            model(x + i).sum().backward()
            step()
        return [p.detach().clone() for p in model.parameters()], [p.grad for p in model.parameters()]

    expected = run(lambda fn: fn)
    assert_same(run(stator.compile), expected)
    assert stator.counters()["captures"].get("graphs", 0) > 0
    assert not stator.counters()["breaks"], stator.counters()["breaks"]


def test_optimizer_step_after_the_other_compiler_marked_it():
    torch.compile(lambda y: y + 1, backend="eager")(x)
    test_optimizer_step("momentum")


NUMBERS = [2**70, 2**63, 2**63 - 1, -(2**63) - 1, 1e300, True, 2.5]


@pytest.mark.parametrize("number", NUMBERS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.bool], ids=str)
def test_numbers_stored_into_tensors(number, dtype):
    def store(a, value):
        b = a + a
        try:
            b[0] = value
        except (ValueError, RuntimeError, OverflowError) as error:
            return type(error).__name__, str(error)
        return b

    stator.reset()
    compiled = stator.compile(store)
    for _ in range(2):
        a = torch.ones(2, dtype=dtype)
        assert_same(compiled(a, number), store(a, number))


def hooked_and_scaled(x, log):
    y = x * 2
    y.register_hook(lambda g: g * 5)
    y.register_hook(lambda g: log.append(g.clone()))
    y.mul_(3)
    return y.sin().sum()


def hooked_and_written_in_part(x, log):
    y = x * 2
    y.register_hook(lambda g: g * 5)
    y[0] = 7.0
    return y.sin().sum()


def hooked_between_writes(x, log):
    y = x * 2
    y.register_hook(lambda g: g * 5)
    y.mul_(3)
    handle = y.register_hook(lambda g: g + 1)
    y.add_(1)
    y.register_hook(lambda g: log.append(g.clone()))
    return y.sin().sum() + (handle is not None)


def one_of_two_results_hooked(x, log):
    values, _ = torch.max(torch.stack([x, x * 3]), dim=0)
    values.register_hook(lambda g: g * 7)
    values.mul_(2)
    return values.cos().sum()


@pytest.mark.parametrize(
    "program", [hooked_and_scaled, hooked_and_written_in_part, hooked_between_writes, one_of_two_results_hooked]
)
def test_tensors_written_after_their_hooks(program):
    stator.reset()
    compiled = stator.compile(program, fullgraph=True)
    for shift in range(3):
        seen = []
        for run in (compiled, program):
            x, log = torch.arange(4.0).add(shift).requires_grad_(), []
            run(x, log).backward()
            seen.append((x.grad, log))
        assert_same(*seen)
    assert stator.counters()["captures"]["graphs"] == 1
