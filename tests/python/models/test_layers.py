"""torch's own composed layers, compiled: recurrent ones, attention, encoders, in training and for inference."""

import copy

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import stator
from tests.python.helpers import assert_same, captures

LAYERS = {
    "LSTM": lambda: nn.LSTM(8, 16, 2),
    "LSTM two ways": lambda: nn.LSTM(8, 16, 2, bidirectional=True, dropout=0.3, batch_first=True),
    "LSTM projected": lambda: nn.LSTM(8, 16, 2, proj_size=4),
    "GRU": lambda: nn.GRU(8, 16, 2),
    "GRU two ways": lambda: nn.GRU(8, 16, 2, bidirectional=True, dropout=0.3),
    "RNN": lambda: nn.RNN(8, 16, 2),
    "RNN relu": lambda: nn.RNN(8, 16, nonlinearity="relu", bias=False),
    "attention": lambda: Attention(8, 2, dropout=0.1, batch_first=True),
    "encoder layer": lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    "encoder layer, norm first": lambda: nn.TransformerEncoderLayer(8, 2, 16, norm_first=True, activation="gelu"),
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
}


class Attention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x)


def leaves(output):
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name, training, grad):
    torch.manual_seed(0)
    layer = LAYERS[name]().train(training)
    twin = copy.deepcopy(layer)
    compiled = stator.compile(layer, fullgraph=True)
    with torch.set_grad_enabled(grad):
        for seed in range(3):
            torch.manual_seed(seed)
            x = torch.randn(5, 3, 8, requires_grad=grad)
            y = x.detach().clone().requires_grad_(grad)
            torch.manual_seed(seed)
            got = compiled(x)
            torch.manual_seed(seed)
            wanted = twin(y)
            assert_same(got, wanted)
            if grad:
                sum(leaf.sum() for leaf in leaves(got) if leaf.requires_grad).backward()
                sum(leaf.sum() for leaf in leaves(wanted) if leaf.requires_grad).backward()
                assert torch.equal(x.grad, y.grad)
                for (parameter, mine), theirs in zip(layer.named_parameters(), twin.parameters(), strict=True):
                    assert torch.equal(mine.grad, theirs.grad), parameter
    assert captures() == 1
