"""Sizes that change from call to call: symbols of the graph after the first miss, and never a wrong shape."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same, captures, check_parity

F = nn.functional
LENGTHS = [5, 3, 7, 2, 12, 1, 0, 9, 3, 64]


def made(n: int, m: int = 6) -> torch.Tensor:
    return torch.linspace(-1, 1, n * m).reshape(n, m)


def outcome(fn, *args):
    try:
        return fn(*args)
    except (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError) as error:
        return type(error), str(error)


def calls(fn, lengths, most, compiled=None):
    """Calls `fn` compiled and plain on tensors of each length; at most `most` captures."""
    compiled = compiled or stator.compile(fn)
    for n in lengths:
        assert_same(outcome(compiled, made(n)), outcome(fn, made(n)), f"length {n}")
    assert captures() <= most, stator.counters()["captures"]


# Each line is the result of a function of `x`, with n rows and 6 columns. Two captures for n >= 2: one static, one
# symbolic; and one each for n = 1 and n = 0.
USES = """
x + 1, x * x, x.sin(), -x, x > 0, x.abs().sqrt()
x.sum(), x.sum(0), x.mean(1), x.amax(1), x.var(1), x.softmax(-1), x.log_softmax(0), x.cumsum(0), x.norm()
x.reshape(-1), x.view(-1, 3), x.reshape(-1, 2, 3), x.flatten(), x.t(), x.transpose(0, 1).contiguous(), x.unsqueeze(0)
x.view(x.size(0), 2, 3).transpose(1, 2).reshape(x.shape[0], -1)
x @ x.t(), x.t() @ x, x.matmul(torch.ones(6, 4)), torch.mm(x, torch.ones(6, 2)), F.linear(x, torch.ones(4, 6))
torch.cat([x, x]), torch.cat([x, x], 1), torch.stack([x, x]), torch.cat([x, torch.zeros(2, 6)])
x[1:], x[:-1], x[::2], x[-1:], x[:, 2:4], x[1:-1], x[: x.size(0) // 2], x[..., 0], x[None]
torch.zeros(x.size(0)), torch.ones_like(x), x.new_zeros(x.shape[0], 2)
torch.full((x.size(0),), 2.0), torch.zeros(x.shape)
torch.arange(x.size(0)), torch.arange(x.size(0)) * 2, torch.arange(0, x.size(0), 2)
x * torch.arange(x.size(0))[:, None]
x.expand(3, -1, -1), x.repeat(2, 1), x[:, None].expand(-1, 4, -1), x.flip(0), x.roll(1, 0)
x.shape, x.size(), x.size(0), len(x), x.numel(), x.dim(), x.stride(), x.shape[0] * 2 + 1
x.size(0) // 2, x.size(0) % 3, x.size(0) / 2, -x.size(0), x.size(0) ** 2, max(x.size(0), 4)
min(4, x.size(0)), abs(x.size(0) - 9)
x * x.size(0), x / x.size(0), x + len(x), x.sum() / x.numel(), x * float(x.size(0)), x * math.sqrt(x.size(0))
x * 2 if x.size(0) > 4 else x * 3
x.view(-1, 2).sum(0) if x.size(0) % 2 == 0 else x.sum(0)
f"{x.size(0)}", str(x.shape), {"n": x.size(0)}, [x.size(0), x], (x.shape, x + 1)
x.tril(), x.triu(1), x.masked_fill(x > 0, 0.0), torch.where(x > 0, x, 0.0), x.clamp(0, 1)
F.layer_norm(x, (6,)), F.gelu(x), F.relu(x), F.dropout(x, 0.0), F.normalize(x), F.pad(x, (1, 1))
F.one_hot((x[:, 0] > 0).long(), 3)
F.embedding((x[:, 0] > 0).long(), torch.ones(2, 3)), F.cross_entropy(x, (x[:, 0] > 0).long()), F.mse_loss(x, x + 1)
F.scaled_dot_product_attention(x.view(1, -1, 1, 6), x.view(1, -1, 1, 6), x.view(1, -1, 1, 6))
x.topk(2, 1).values, x.sort(0).values, x.argmax(1), x.max(0).indices
x.gather(1, torch.zeros(x.size(0), 1, dtype=torch.long))
x.split(2, 1)[0], x.chunk(2, 1)[1], x.unbind(1)[0], x.tensor_split(3, 1)[2]
x.clone().add_(1), x.clone().fill_(2), x.clone().index_fill_(0, torch.tensor([0]), 1.0)
x.long() + 1, x.double() * 2, x.bool(), x.to(torch.bfloat16)
torch.einsum("ij,kj->ik", x, x), torch.outer(x[:, 0], x[0]), x.unfold(1, 2, 2)
""".strip().splitlines()


@pytest.mark.parametrize("line", USES)
def test_each_use(line):
    space = {"torch": torch, "F": F, "math": math}
    exec(f"def fn(x):\n    return {line}", space)
    calls(space["fn"], LENGTHS, 12)


def test_one_capture_serves_all_lengths():
    def fn(x):
        y = F.relu(x @ torch.ones(6, 6)) + x
        return y.view(y.size(0), 2, 3).sum(-1), y.shape

    calls(fn, [5, 3, 7, 2, 12, 40, 3, 100, 1000], 2)


def test_dynamic_true_starts_with_symbols():
    def fn(x):
        return (x * 2).sum(1)

    calls(fn, [5, 3, 7, 2, 12], 1, stator.compile(fn, dynamic=True))


def test_dynamic_false_captures_each_size():
    def fn(x):
        return x * 2

    compiled = stator.compile(fn, dynamic=False)
    for n in (2, 3, 4):
        assert_same(compiled(made(n)), fn(made(n)))
    assert captures() == 3


def test_equal_sizes_are_guarded_where_they_matter():
    def fn(x, y):
        return x + y

    compiled = stator.compile(fn)
    for a, b in [(3, 3), (4, 4), (5, 5), (4, 1), (1, 4), (7, 7), (6, 5)]:
        assert_same(outcome(compiled, made(a), made(b)), outcome(fn, made(a), made(b)))
    assert captures() <= 4


def test_a_branch_on_a_size_is_guarded():
    def fn(x):
        if x.size(0) > 10:
            return x.sum(0)
        return x * 2

    calls(fn, [3, 4, 5, 11, 12, 13, 6, 40], 3)


def test_loops_over_a_size_specialise():
    def fn(x):
        total = x[0]
        for i in range(1, x.size(0)):
            total = total + x[i]
        return total

    compiled = stator.compile(fn)
    for n in (3, 4, 5, 4, 3):
        assert_same(compiled(made(n)), fn(made(n)))


def test_gradients():
    def fn(x):
        return (F.layer_norm(x @ x.t(), (x.size(0),)) ** 2).mean()

    compiled = stator.compile(fn)
    for n in (3, 5, 7, 4):
        x, y = made(n).requires_grad_(), made(n).requires_grad_()
        compiled(x).backward()
        fn(y).backward()
        assert_same(x.grad, y.grad)


def test_other_strides():
    def fn(x):
        return x * 2, x.is_contiguous(), x.stride()

    compiled = stator.compile(fn)
    for n in (3, 5, 7):
        for x in (made(n), made(6, n).t(), made(n, 12)[:, ::2], made(n, 8)[:, 1:7], made(1).expand(n, 6)):
            assert_same(compiled(x), fn(x), f"{n} {x.stride()}")


def test_writes_to_inputs():
    def fn(x):
        x.mul_(2)
        x[1:] += 1
        return x.sum()

    compiled = stator.compile(fn)
    for n in (3, 5, 7, 4):
        x, y = made(n), made(n)
        assert_same(compiled(x), fn(y))
        assert_same(x, y)
    assert captures() <= 2


def test_an_unrecoverable_write_does_not_split_a_graph():
    def fn(x, large):
        large.mul_(0.5).add_(1)
        y = x @ large[:6, :6]
        return y.view(x.size(0), 2, 3).sum(-1), torch.zeros(x.size(0)) + x.size(0)

    compiled = stator.compile(fn)
    for n in (3, 5, 7, 4):
        one, other = torch.ones(200, 200), torch.ones(200, 200)
        assert_same(compiled(made(n), one), fn(made(n), other))
        assert_same(one, other)
    assert captures() == 2 and not stator.counters()["breaks"]


def test_breaks_keep_symbols():
    def fn(x):
        y = x * 2
        stator.graph_break()
        return y.reshape(-1), y.shape

    calls(fn, [3, 4, 5, 6, 7], 4)


def test_marks():
    def fn(x):
        return x * 2

    compiled = stator.compile(fn)
    first = made(5)
    stator.mark_dynamic(first, 0)
    for x in (first, made(3), made(7)):
        assert_same(compiled(x), fn(x))
    assert captures() == 1


def transposed(x):
    n = x.size(0)
    x.t_()
    return x, torch.zeros(n), x.shape, torch.zeros(x.size(1)), n


def transposed_copy(x):
    y = x * 2
    n = y.size(0)
    y.t_()
    return y, torch.zeros(n, 2), y.sum(1), y.size(0) * n


def resized(x):
    y = x.clone()
    n = y.size(0)
    y.resize_(2, 3)
    return y.shape, torch.zeros(n), y.numel()


def other_data(x):
    y = x + 1
    n = y.size(0)
    y.data = torch.ones(4, 2)
    return y, torch.zeros(n), y.shape


def squeezed(x):
    y = x[:, :1].clone()
    n = y.size(0)
    y.squeeze_(1)
    return y, y.shape, torch.arange(n)


def of_masked_rows(x):
    y = x[x[:, 0] > -0.5]
    n = y.size(0)
    y.t_()
    return y, torch.zeros(n), y.size(1)


@pytest.mark.parametrize("fn", [transposed, transposed_copy, resized, other_data, squeezed, of_masked_rows])
def test_sizes_that_change_in_place(fn):
    calls(fn, [5, 3, 7, 2, 12, 1, 9], 7)


def test_an_epoch_with_a_short_last_batch():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3))
    plain = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3))
    plain.load_state_dict(net.state_dict())
    data = torch.utils.data.TensorDataset(made(21), torch.arange(21) % 3)

    def loss_of(model, x, y):
        return F.cross_entropy(model(x), y)

    compiled = stator.compile(loss_of)
    for x, y in torch.utils.data.DataLoader(data, batch_size=8):
        for run, model in ((compiled, net), (loss_of, plain)):
            run(model, x, y).backward()
    for one, other in zip(net.parameters(), plain.parameters(), strict=True):
        assert_same(one.grad, other.grad)
    assert captures() == 2


def test_guards_name_the_sizes_and_the_line():
    def fn(x, y):
        return x[: y.size(0)] + y

    compiled = stator.compile(fn, dynamic=True)
    compiled(made(5), made(4))
    text = "\n".join(stator.cache_entries(compiled)[0]["guards"])
    assert "x.size(0)" in text and "y.size(0)" in text and "Tensor float32[*" in text
    (sizes,) = (line for line in text.splitlines() if "has sizes with" in line)
    assert f"  (needed at {__file__}:" in sizes


def overlapping(x, log):
    log.append("start")
    x.mul_(3)
    x[:3].add_(x[x.size(0) - 3 :])  # raises if these parts of the memory overlap in part
    log.append("end")


def overlapping_and_handled(x, log):
    log.append("start")
    x.mul_(3)
    try:
        x[:3].add_(x[x.size(0) - 3 :])
    except RuntimeError:
        log.append("handled")


def overlapping_always(x, log):
    log.append("start")
    x.mul_(3)
    x.add_(x[0])


@pytest.mark.parametrize("fn", [overlapping, overlapping_and_handled, overlapping_always])
@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("first", [8, 4])
def test_an_operator_raises_after_a_write_for_some_sizes(fn, dynamic, first):
    """The effects before the error are kept, and the error comes from the program's own line."""
    compiled = stator.compile(fn, dynamic=dynamic)

    def observed(called, n):
        x, log, lines = torch.arange(float(n)), [], []
        try:
            called(x, log)
        except RuntimeError as error:
            entry = error.__traceback__
            while entry:
                if entry.tb_frame.f_code.co_name == fn.__name__:
                    lines.append(entry.tb_lineno)
                entry = entry.tb_next
        return x, log, lines

    for n in [first, 9, 7, 4, 5, 6, 8, 4, 30_000, 3]:
        assert_same(observed(compiled, n), observed(fn, n), f"length {n}")


def test_solutions_of_batches_of_vectors_have_the_strides_of_columns():
    def fn(matrices, vectors):
        return torch.linalg.solve(matrices, vectors)

    calls = [(torch.eye(n).expand(b, n, n) + 0.1, torch.ones(b, n)) for b, n in ((2, 5), (3, 4), (4, 6))]
    check_parity(fn, *calls, dynamic=True)


# Operators whose implementations look at plain sizes.
ONE_GRAPH = """
x.new_zeros(n, n).fill_diagonal_(n), x.clone().fill_diagonal_(2.5), x.new_zeros(n, n).fill_diagonal_(1, wrap=True)
torch.vander(x[:, 0].detach()), torch.vander(x[:, 1].detach(), 3, increasing=True), torch.vander(torch.arange(n))
torch.combinations(x[:, 0]), torch.combinations(x[:, 0], 3), torch.combinations(x[:, 0], 2, with_replacement=True)
torch.cov(x), torch.cov(x.t()), torch.corrcoef(x), torch.corrcoef(x.t()), torch.cov(x, correction=0)
torch.linalg.multi_dot([x, x.t(), x]), torch.linalg.multi_dot([x[0], x.t(), x[:, 0]]), torch.chain_matmul(x, x.t(), x)
x.quantile(0.5, 0), x.quantile(0.25, 1, keepdim=True), x.quantile(0.5), x.nanquantile(0.5, 0, keepdim=True)
x.t().quantile(0.5, 0), x[None].quantile(0.5, 1, interpolation="nearest")
x.nbytes, x[1:].nbytes, x.double().nbytes, x.nbytes // n
""".strip().splitlines()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("line", ONE_GRAPH)
def test_one_graph_with_symbolic_sizes(line, grad):
    space = {"torch": torch}
    exec(f"def fn(x):\n    n = x.size(0)\n    return x * 1, {line}", space)
    fn = space["fn"]
    compiled = stator.compile(fn, dynamic=True, fullgraph=True)
    for n in (5, 3, 7, 2, 12, 9):
        a, b = made(n).requires_grad_(grad), made(n).requires_grad_(grad)
        actual, expected = compiled(a), fn(b)
        assert_same(actual, expected, f"{n}")
        for part, other in zip(actual, expected, strict=True):
            if isinstance(part, torch.Tensor):
                assert part.stride() == other.stride(), f"{n}"
        if grad:
            sum(t.square().sum() for t in actual if isinstance(t, torch.Tensor) and t.requires_grad).backward()
            sum(t.square().sum() for t in expected if isinstance(t, torch.Tensor) and t.requires_grad).backward()
            assert_same(a.grad, b.grad, f"{n}")
    assert captures() <= 3  # the sizes may be compared with 6
    compiled = stator.compile(fn)
    for n in (5, 1, 3, 0, 7, 2):
        assert_same(outcome(compiled, made(n)), outcome(fn, made(n)), f"{n}")
