"""Layers used in ways that select different code paths in torch: masks, packed sequences, losses, distances."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import stator
from tests.python.helpers import captures, check_layer

PADDING = torch.tensor([[False, False, False], [False, False, True], [False, True, True]] + [[False] * 3] * 2)


class Packed(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.layer = kind(8, 16, 2, batch_first=True, **options)

    def forward(self, x):
        packed = pack_padded_sequence(x, torch.tensor([3, 3, 2, 1, 1]), batch_first=True)
        output, state = self.layer(packed)
        return pad_packed_sequence(output, batch_first=True)[0], state


class Padded(nn.Module):
    def __init__(self, **options):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, **options)

    def forward(self, x):
        return self.encoder(x, src_key_padding_mask=PADDING)


class Causal(Padded):
    def forward(self, x):
        return self.encoder(x, mask=nn.Transformer.generate_square_subsequent_mask(3), is_causal=True)


class Attention(nn.Module):
    def __init__(self, need_weights=True, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True, **options)
        self.need_weights = need_weights

    def forward(self, x):
        return self.attention(x, x, x, key_padding_mask=PADDING, need_weights=self.need_weights)


class Distances(nn.Module):
    def forward(self, x):
        return (
            torch.cdist(x, x * 2),
            torch.cdist(x, x.flip(0), p=1),
            torch.cdist(x, x + 1, compute_mode="use_mm_for_euclid_dist"),
        )


class Ctc(nn.Module):
    def __init__(self, lengths_in_tensors):
        super().__init__()
        self.layer = nn.Linear(8, 6)
        self.lengths_in_tensors = lengths_in_tensors

    def forward(self, x):
        scores = self.layer(x).log_softmax(-1)
        targets = torch.tensor([[1, 2], [2, 3], [4, 1]])
        if self.lengths_in_tensors:
            return F.ctc_loss(scores, targets, torch.tensor([5, 5, 4]), torch.tensor([2, 2, 1]))
        return F.ctc_loss(scores, targets, (5, 5, 4), (2, 2, 1), reduction="none")


class Pools(nn.Module):
    def forward(self, x):
        return F.max_pool1d(x, 2), F.max_pool1d(x, 3, 1, 1), F.max_pool1d(x, 2, return_indices=True)


class OneHot(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes

    def forward(self, x):
        index = (x.detach().abs() * 3).long().clamp(0, 4)
        return F.one_hot(index, self.classes).float().sum(-2) * x.sum()


IN_ONE_GRAPH = {
    "encoder, padded, not nested": lambda: Padded(enable_nested_tensor=False),
    "encoder, causal": Causal,
    "attention without weights": lambda: Attention(False),
    "attention with biases": lambda: Attention(add_bias_kv=True, add_zero_attn=True),
    "distances": Distances,
    "ctc": lambda: Ctc(False),
    "ctc, lengths in tensors": lambda: Ctc(True),
    "pools": Pools,
    "one hot": lambda: OneHot(5),
}
# Results whose size or layout depends on data: correct, with a break of this reason in some mode.
BREAKING = {
    "packed LSTM": (lambda: Packed(nn.LSTM), "no_shape_function"),
    "packed GRU": (lambda: Packed(nn.GRU, bidirectional=True), "no_shape_function"),
    "packed RNN": (lambda: Packed(nn.RNN), "no_shape_function"),
    "packed LSTM, projected": (lambda: Packed(nn.LSTM, proj_size=4), "no_shape_function"),
    "one hot, classes found": (lambda: OneHot(-1), "no_shape_function"),
    "encoder, padded": (Padded, None),
}


modes = pytest.mark.parametrize(("training", "grad"), list(itertools.product([False, True], repeat=2)))


@pytest.mark.filterwarnings("ignore")
@modes
@pytest.mark.parametrize("name", IN_ONE_GRAPH)
def test_in_one_graph(name, training, grad):
    torch.manual_seed(0)
    check_layer(IN_ONE_GRAPH[name](), training, grad, fullgraph=True)
    assert captures() == 1


@pytest.mark.filterwarnings("ignore")
@modes
@pytest.mark.parametrize("name", BREAKING)
def test_breaking(name, training, grad):
    torch.manual_seed(0)
    make, reason = BREAKING[name]
    check_layer(make(), training, grad, fullgraph=False)
    if reason is not None:
        assert stator.counters()["breaks"][reason] > 0
