"""torch's own composed layers, compiled: recurrent ones, attention, encoders, in training and for inference."""

import pytest
import torch
from torch import nn

from tests.python.helpers import captures, check_layer

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


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name, training, grad):
    torch.manual_seed(0)
    check_layer(LAYERS[name](), training, grad, fullgraph=True)
    assert captures() == 1
