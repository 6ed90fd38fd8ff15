"""Layers of torch.nn that do not call torch through plain functions."""

import collections

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same
from tests.python.parity.programs import Programs, x

programs = Programs()


@programs((x, x + 1))
def cdist(a, b):
    return torch.cdist(a, b), torch.cdist(a, b, p=1.0)


test_program = programs.tests()

seq = torch.arange(24.0).reshape(2, 3, 4) / 10
LAYERS = {
    "lstm": (lambda: nn.LSTM(4, 5, batch_first=True), (seq,)),
    "lstm_deep": (lambda: nn.LSTM(4, 5, num_layers=2, bidirectional=True, dropout=0.2), (seq,)),
    "lstm_state": (lambda: nn.LSTM(4, 5), (seq, (torch.zeros(1, 3, 5), torch.ones(1, 3, 5)))),
    "lstm_proj": (lambda: nn.LSTM(4, 5, proj_size=2), (seq,)),
    "gru": (lambda: nn.GRU(4, 5), (seq,)),
    "gru_deep": (lambda: nn.GRU(4, 5, 2, bidirectional=True), (seq, torch.ones(4, 3, 5))),
    "rnn": (lambda: nn.RNN(4, 5), (seq,)),
    "rnn_relu": (lambda: nn.RNN(4, 5, nonlinearity="relu", batch_first=True), (seq,)),
    "lstm_unbatched": (lambda: nn.LSTM(4, 5), (seq[0],)),
    "lstm_cell": (lambda: nn.LSTMCell(4, 5), (seq[0],)),
    "gru_cell": (lambda: nn.GRUCell(4, 5), (seq[0],)),
    "rnn_cell": (lambda: nn.RNNCell(4, 5), (seq[0],)),
    "attention": (lambda: nn.MultiheadAttention(4, 2), (seq, seq, seq)),
    "attention_first": (lambda: nn.MultiheadAttention(4, 2, batch_first=True, dropout=0.1), (seq, seq, seq)),
    "encoder_layer": (lambda: nn.TransformerEncoderLayer(4, 2, 8), (seq,)),
    "encoder_first": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True), (seq,)),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), 2), (seq,)),
    "decoder": (lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8), 1), (seq, seq)),
    "transformer": (lambda: nn.Transformer(4, 2, 1, 1, 8), (seq, seq)),
}


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name, training):
    make, inputs = LAYERS[name]
    torch.manual_seed(0)
    layer = make().train(training)
    compiled = stator.compile(layer, fullgraph=True)
    for shift in (0.0, 0.5):
        arguments = [i + shift if isinstance(i, torch.Tensor) else i for i in inputs]
        results = []
        for call in (layer, compiled):
            torch.manual_seed(3)
            result = call(*arguments)
            layer.zero_grad()
            flat = torch.utils._pytree.tree_leaves(result)
            sum(t.sum() for t in flat if t is not None).backward()
            results.append((result, {n: p.grad.clone() for n, p in layer.named_parameters()}))
        assert_same(results[1], results[0])
    assert stator.counters()["cache"]["hits"] >= 1


class Table(collections.OrderedDict):
    """A ParameterDict that overrides lookup."""

    def __getitem__(self, key):
        return super().__getitem__(key)


class Measured(torch.nn.Module):
    def __init__(self, data):
        super().__init__()
        self.data, self.act = data, torch.nn.functional.gelu
        self.width = 10 * self.columns

    @property
    def columns(self):
        return self.data.shape[1]

    def forward(self, x):
        return self.act(x) * self.width + self.data.sum()


def test_modules_that_are_made_inside():
    def fn(x):
        loss = torch.nn.CrossEntropyLoss()(x, torch.tensor([0, 1]))
        y = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())(x)
        made = Measured(torch.ones(2, 5))
        return loss, made(y), made.width, isinstance(made, torch.nn.Parameter), torch.tensor(data=[1, 2])

    x = torch.linspace(-1, 1, 6).reshape(2, 3)
    assert_same(stator.compile(fn, fullgraph=True)(x), fn(x))


def test_tables_of_a_class_of_their_own():
    layer = torch.nn.Linear(3, 2)
    layer._parameters = Table(layer._parameters)
    x = torch.ones(4, 3)
    assert_same(stator.compile(lambda x: layer(x), fullgraph=True)(x), layer(x))
    assert stator.compile(lambda: hasattr(layer, "weight") and not hasattr(layer, "gain"))()


def test_super_without_arguments():
    class Base:
        @staticmethod
        def make():
            return super().__init__()

    with pytest.raises(RuntimeError, match="no arguments"):
        stator.compile(lambda x: (x + 1, Base.make()))(torch.ones(2))
