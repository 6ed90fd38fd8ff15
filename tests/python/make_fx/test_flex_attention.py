"""`flex_attention` and its gradients in a trace."""

import functools

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx as torch_make_fx
from torch.nn.attention.flex_attention import _create_empty_block_mask, create_block_mask, flex_attention

import stator
from tests.python.make_fx.helpers import calls, node

MODES = ["real", "fake", "symbolic"]


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def attention(q, k, v, bias):
    mask = _create_empty_block_mask(q, k).as_tuple()
    return torch.ops.higher_order.flex_attention(q, k, v, lambda s, b, h, m, n: s + bias[m, n], mask, 0.25, {})


def attention_by_function(q, k, v, bias):
    return flex_attention(q, k, v, score_mod=lambda s, b, h, m, n: torch.where(m >= n, s, -1e9)) + bias.sum()


def attention_by_mask(q, k, v, bias):
    mask = create_block_mask(lambda b, h, m, n: m >= n, 1, 1, 16, 16, device="cpu")
    return flex_attention(q, k, v, block_mask=mask, return_lse=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", [attention, attention_by_function, attention_by_mask])
def test_flex_attention_is_a_node(program, mode):
    torch.manual_seed(0)
    samples = [(*(torch.randn(1, 2, 16, 16) for _ in range(3)), torch.randn(16, 16)) for _ in range(2)]
    module = stator.make_fx(program, tracing_mode=mode)(*samples[0])
    assert calls(module).count("flex_attention") == 1
    assert len(module.sdpa_score_0.graph.find_nodes(op="placeholder")) == (6 if program is attention else 5)
    peer = None if program is attention else torch_make_fx(program, tracing_mode=mode)(*samples[0])
    for sample in samples:
        wanted = program(*sample)
        same(module(*sample), wanted)
        if peer is not None:
            same(peer(*sample), wanted)


# ---- gradients

QUERY, KEYS, VALUES, BIAS = (2, 4, 16, 8), (2, 2, 16, 8), (2, 2, 16, 4), (16, 16)


def samples():
    torch.manual_seed(0)
    return [tuple(torch.randn(size) for size in (QUERY, KEYS, VALUES, BIAS)) for _ in range(2)]


def operator(q, k, v, score):
    """Two heads of the query share those of the key, and a row is masked."""
    mask = create_block_mask(lambda b, h, m, n: (m >= n) & (m != 3), None, None, 16, 16, device="cpu")
    return torch.ops.higher_order.flex_attention(q, k, v, score, mask.as_tuple(), 0.3, {})


def with_bias(q, k, v, bias):
    out, sums, _ = operator(q, k, v, lambda s, b, h, m, n: s + bias[m, n])
    return out.sin().sum() + sums[:, :, 4:].sum()


def with_a_scalar(q, k, v, bias):
    return operator(q, k, v, lambda s, b, h, m, n: torch.tanh(s * bias.sum()))[0].sin().sum()


def gradients(program, count, graph=False):
    """Of the first arguments; with `graph`, of the squares of their gradients."""

    def step(*args):
        args = [arg.detach().requires_grad_(i < count) for i, arg in enumerate(args)]
        found = torch.autograd.grad(program(*args), args[:count], create_graph=graph)
        return torch.autograd.grad(sum(g.square().sum() for g in found), args[:count]) if graph else found

    return step


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", [with_bias, with_a_scalar])
def test_the_gradient_is_a_node(program, mode):
    """Of the query, the key and the value; torch's kernel agrees."""
    step, (first, second) = gradients(program, 3), samples()
    module = stator.make_fx(step, tracing_mode=mode)(*first)
    assert calls(module).count("flex_attention_backward") == 1
    for found in (module, stator.make_fx(module, tracing_mode=mode)(*first)):
        for sample in (first, second):
            wanted = step(*sample)
            same(found(*sample), wanted)
            assert [g.stride() for g in found(*sample)] == [g.stride() for g in wanted]
    value = node(module, "flex_attention_backward").args[0].meta["val"]
    assert value.shape == QUERY


def dense(program, q, k, v, bias):
    k, v = (t.repeat_interleave(2, dim=1) for t in (k, v))
    scores = q @ k.transpose(-1, -2) * 0.3
    scores = scores + bias if program is with_bias else torch.tanh(scores * bias.sum())
    rows = torch.arange(16)
    masked = (rows == 3)[:, None]
    scores = torch.where(rows[:, None] >= rows, scores, -torch.inf)
    scores = torch.where(masked, 0.0, scores)
    out = torch.where(masked, 0.0, scores.softmax(-1)) @ v
    if program is with_a_scalar:
        return out.sin().sum()
    return out.sin().sum() + scores.logsumexp(-1)[:, :, 4:].sum() / torch.log(torch.tensor(2.0))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("program", "count", "graph"),
    [(with_bias, 4, False), (with_a_scalar, 4, False), (with_bias, 3, True), (with_a_scalar, 4, True)],
)
def test_gradients_of_what_a_score_uses_and_gradients_of_gradients(program, count, graph, mode):
    first, second = samples()
    module = stator.make_fx(gradients(program, count, graph), tracing_mode=mode)(*first)
    for sample in (first, second):
        found = module(*sample)
        wanted = gradients(functools.partial(dense, program), count, graph)(*sample)
        assert all(g.isfinite().all() for g in found)
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


def test_a_mask_without_what_the_backward_pass_needs():
    def step(q, k, v, bias):
        mask = list(create_block_mask(lambda b, h, m, n: m >= n, None, None, 16, 16, device="cpu").as_tuple())
        mask[7] = None
        return torch.ops.higher_order.flex_attention(q.requires_grad_(), k, v, lambda s, *_: s, tuple(mask), 0.3, {})[0]

    with pytest.raises(RuntimeError, match="has no q_indices"):
        stator.make_fx(step)(*samples()[0])


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_autocast(mode, above):
    def step(q, k, v, bias):
        with torch.autocast("cpu", torch.bfloat16):
            return operator(q, k, v, lambda s, *_: s)[0]

    first, second = samples()
    module = stator.make_fx(step, tracing_mode=mode, pre_dispatch=above)(*first)
    for sample in (first, second):
        assert step(*sample).dtype == torch.bfloat16
        torch.testing.assert_close(module(*sample), step(*sample))
