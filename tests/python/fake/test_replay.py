"""Operators recorded as one node: right metadata, and both lists replay to the same values and gradients.

Recurrent layers, attention, and composite operators that read values.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from stator import _C


def tensors(value):
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def facts(outputs):
    return [(t.shape, t.stride(), t.dtype, t.device, t.requires_grad, t.is_leaf) for t in outputs]


def gradients(outputs, inputs):
    roots = [t.sum() for t in outputs if t.requires_grad]
    leaves = [t for t in inputs if t.requires_grad]
    return torch.autograd.grad(roots, leaves, allow_unused=True) if roots and leaves else []


def seeded(fn, inputs):
    torch.manual_seed(5)
    return tensors(fn(*inputs))


def check(fn, *inputs, grad):
    inputs = [t.detach().clone().requires_grad_(grad and t.is_floating_point()) for t in inputs]
    tracer = _C.Tracer("traced", aten=True)
    fakes = [tracer.input(tensor, f"x{i}") for i, tensor in enumerate(inputs)]
    with torch.set_grad_enabled(grad):
        traced = tensors(tracer.call(fn, *fakes))
        told = facts(traced)
        graph = tracer.finish(traced)
        wanted, got = seeded(fn, inputs), seeded(graph, inputs)
    assert told == facts(wanted)
    assert told == facts(got)
    assert all(torch.equal(a, b) for a, b in zip(got, wanted, strict=True))
    for mine, theirs in zip(gradients(got, inputs), gradients(wanted, inputs), strict=True):
        assert (mine is None) == (theirs is None) and (mine is None or torch.equal(mine, theirs))
    with torch.no_grad():
        # Run eager in the same mode: oneDNN has other kernels for layers that save tensors for backward.
        pairs = zip(seeded(graph.aten, inputs), seeded(fn, inputs), strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
    return graph


GRAD = pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
TRAIN = pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])

LAYERS = {
    "lstm": (nn.LSTM, {}),
    "lstm_two_ways": (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.3}),
    "lstm_projected": (nn.LSTM, {"num_layers": 2, "proj_size": 4}),
    "lstm_without_bias": (nn.LSTM, {"bias": False}),
    "gru": (nn.GRU, {"num_layers": 2}),
    "gru_two_ways": (nn.GRU, {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.3}),
    "rnn_tanh": (nn.RNN, {"num_layers": 2}),
    "rnn_relu": (nn.RNN, {"nonlinearity": "relu", "bidirectional": True, "bias": False}),
}


@GRAD
@TRAIN
@pytest.mark.parametrize("batched", [True, False], ids=["batch", "one"])
@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers(name, batched, train, grad):
    make, options = LAYERS[name]
    torch.manual_seed(0)
    layer = make(8, 16, **options)
    x = torch.randn(5, 3, 8) if batched else torch.randn(5, 1, 8)
    directions = layer.num_layers * (2 if layer.bidirectional else 1)
    batch = x.size(0 if layer.batch_first else 1)
    state = [torch.randn(directions, batch, layer.proj_size or layer.hidden_size)]
    if make is nn.LSTM:
        state.append(torch.randn(directions, batch, layer.hidden_size))
    kernel = getattr(torch._VF, layer.mode.lower())

    def run(x, *rest):
        given = tuple(rest[: len(state)]) if make is nn.LSTM else rest[0]
        weights = list(rest[len(state) :])
        sizes = (layer.bias, layer.num_layers, layer.dropout, train, layer.bidirectional, layer.batch_first)
        return kernel(x, given, weights, *sizes)

    check(run, x, *state, *layer._flat_weights, grad=grad)


@GRAD
@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell], ids=lambda cell: cell.__name__)
def test_recurrent_cells(cell, grad):
    torch.manual_seed(0)
    layer = cell(8, 16)
    state = [torch.randn(3, 16) for _ in range(2 if cell is nn.LSTMCell else 1)]

    def run(x, *rest):
        given = tuple(rest[: len(state)]) if cell is nn.LSTMCell else rest[0]
        names = [name for name, _ in layer.named_parameters()]
        return torch.func.functional_call(layer, dict(zip(names, rest[len(state) :], strict=True)), (x, given))

    check(run, torch.randn(3, 8), *state, *layer.parameters(), grad=grad)


def encoder_weights():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    attention = layer.self_attn
    own = [attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight, attention.out_proj.bias]
    parts = (layer.norm1, layer.norm2, layer.linear1, layer.linear2)
    return own + [weight for part in parts for weight in (part.weight, part.bias)]


@pytest.mark.parametrize("mask_kind", [None, 0, 1])
@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer_fast_path(norm_first, gelu, mask_kind):
    mask = {None: [], 0: [torch.ones(3, 3).triu(1).bool()], 1: [torch.tensor([[False, False, True]] * 5)]}[mask_kind]

    def run(x, *rest):
        given, w = rest[: len(mask)], rest[len(mask) :]
        flags = (gelu, norm_first, 1e-5)
        return torch._transformer_encoder_layer_fwd(x, 8, 2, *w[:4], *flags, *w[4:], *(given or (None,)), mask_kind)

    graph = check(run, torch.randn(5, 3, 8), *mask, *encoder_weights(), grad=False)
    assert [node[0] for node in graph.nodes()] == ["aten::_transformer_encoder_layer_fwd"]


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("need_weights", [False, True])
def test_attention_fast_path(need_weights, average):
    def own(q, *w):
        return torch._native_multi_head_attention(q, q, q, 8, 2, *w, None, need_weights, average)

    def other(q, k, *w):
        return torch._native_multi_head_attention(q, k, k, 8, 2, *w, None, need_weights, average)

    weights = encoder_weights()[:4]
    check(own, torch.randn(5, 3, 8), *weights, grad=False)
    check(other, torch.randn(5, 3, 8), torch.randn(5, 3, 8), *weights, grad=False)


def integers(*values):
    return torch.tensor(values)


def matrix():
    torch.manual_seed(0)
    return torch.randn(4, 5)


LOG_PROBS = torch.linspace(-1, 1, 12 * 3 * 6).reshape(12, 3, 6).sin().log_softmax(-1)
TARGETS = (torch.arange(12).reshape(3, 4) * 7) % 5 + 1
LENGTHS = (integers(12, 10, 9), integers(4, 3, 2))

# name: (function, inputs, operators above)
ONE_NODE = {
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2), [torch.randn(2, 3, 10)], ["max_pool1d"]),
    "max_pool1d_ceil": (lambda x: torch.max_pool1d(x, 3, 2, 1, 1, True), [torch.randn(3, 10)], ["max_pool1d"]),
    "max_pool1d_layout": (
        lambda x: F.max_pool1d(x.transpose(1, 2), 2, dilation=2),
        [torch.randn(2, 10, 3)],
        ["transpose", "max_pool1d"],
    ),
    "ctc_none": (lambda *a: F.ctc_loss(*a, reduction="none"), [LOG_PROBS, TARGETS, *LENGTHS], ["ctc_loss"]),
    "ctc_mean": (lambda *a: F.ctc_loss(*a), [LOG_PROBS, TARGETS, *LENGTHS], ["ctc_loss"]),
    "ctc_sum": (lambda *a: F.ctc_loss(*a, reduction="sum"), [LOG_PROBS, TARGETS, *LENGTHS], ["ctc_loss"]),
    "ctc_one": (
        lambda *a: F.ctc_loss(*a, reduction="none"),
        [LOG_PROBS[:, 0], TARGETS[0], LENGTHS[0][0], LENGTHS[1][0]],
        ["ctc_loss"],
    ),
    "one_hot": (lambda k: F.one_hot(k, 5), [integers(0, 3, 1).reshape(3, 1)], ["one_hot"]),
    "one_hot_of_none": (lambda k: F.one_hot(k, 5), [torch.zeros(0, 2, dtype=torch.long)], ["one_hot"]),
    "cdist": (lambda a: torch.cdist(a, a[:3]), [matrix()], ["slice", "cdist"]),
    "cdist_p": (lambda a: torch.cdist(a, a[:3], 3.0), [matrix()], ["slice", "cdist"]),
    "repeat_interleave": (
        lambda a, n: torch.repeat_interleave(a, n, 0, output_size=7),
        [matrix(), integers(1, 2, 3, 1)],
        ["repeat_interleave"],
    ),
    "quantile": (lambda a: torch.quantile(a, 0.3), [matrix()], ["quantile"]),
    "quantiles": (
        lambda a, q: torch.quantile(a, q, dim=1, keepdim=True),
        [matrix(), torch.tensor([0.1, 0.5])],
        ["quantile"],
    ),
    "nanquantile": (lambda a: torch.nanquantile(a, 0.3, dim=0), [matrix()], ["nanquantile"]),
    "cov": (lambda a, n: torch.cov(a, fweights=n), [matrix(), integers(1, 2, 1, 1, 1)], ["cov"]),
    "corrcoef": (lambda a: torch.corrcoef(a), [matrix()], ["corrcoef"]),
    "istft": (
        lambda x, w: torch.istft(torch.stft(x, 64, 16, window=w, return_complex=True, center=True), 64, 16, window=w),
        [torch.linspace(0, 9, 800).reshape(2, 400).sin(), torch.hann_window(64)],
        None,
    ),
}


@GRAD
@pytest.mark.parametrize("name", ONE_NODE)
def test_operators_that_look_at_values(name, grad):
    fn, inputs, names = ONE_NODE[name]
    graph = check(fn, *inputs, grad=grad)
    if names is not None:
        assert [node[0].removeprefix("aten::") for node in graph.nodes()] == names


RAISING = {
    "one_hot": (lambda k: F.one_hot(k, 3), [integers(0, 3)], "Class values must be smaller"),
    "quantile": (lambda a, q: torch.quantile(a, q), [matrix(), torch.tensor([1.5])], "in the range"),
    "cov": (lambda a, n: torch.cov(a, fweights=n), [matrix(), integers(1, -2, 1, 1, 1)], "negative"),
}


@pytest.mark.parametrize("name", RAISING)
def test_checks_of_values_are_made_when_the_graph_runs(name):
    fn, inputs, message = RAISING[name]
    tracer = _C.Tracer("traced", aten=True)
    graph = tracer.finish(tensors(tracer.call(fn, *[tracer.input(t, f"x{i}") for i, t in enumerate(inputs)])))
    for run in (fn, graph, graph.aten):
        with pytest.raises(RuntimeError, match=message):
            run(*inputs)


REFUSED = {
    "one_hot": (lambda k: F.one_hot(k), [integers(0, 3)], "value of a tensor"),
    "repeat_interleave": (lambda a, n: torch.repeat_interleave(a, n, 0), [matrix(), integers(1, 2, 3, 1)], "size"),
    "tensor_split": (torch.tensor_split, [matrix(), integers(1, 3)], "data of a fake"),
    "bincount": (torch.bincount, [integers(1, 3)], "size"),
    "nonzero": (torch.nonzero, [integers(1, 3)], "size"),
    "equal": (lambda a: torch.equal(a, a), [matrix()], "value of a tensor"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_results_that_depend_on_values_are_refused(name):
    fn, inputs, why = REFUSED[name]
    tracer = _C.Tracer("traced")
    with pytest.raises(RuntimeError, match=f"cannot be traced: .*{why}"):
        tracer.call(fn, *[tracer.input(t, f"x{i}") for i, t in enumerate(inputs)])


def test_a_check_is_not_assumed_outside_of_the_operators_that_make_it():
    tracer = _C.Tracer("traced")
    a = tracer.input(matrix(), "a")
    tracer.call(torch.quantile, a, 0.5)
    with pytest.raises(RuntimeError, match="value of a tensor"):
        tracer.call(torch.equal, a, a)
