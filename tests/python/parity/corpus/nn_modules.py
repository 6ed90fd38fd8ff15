"""nn.Module: containers, parameters, buffers, modes, sharing, state, modules as arguments."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.python.parity.corpus.registry import call, f, factory, i, program


class Block(nn.Module):
    def __init__(self, width=4, residual=True):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width * 2)
        self.down = nn.Linear(width * 2, width)
        self.residual = residual

    def forward(self, x):
        y = self.down(F.gelu(self.up(self.norm(x))))
        return x + y if self.residual else y


class WithState(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("running", torch.zeros(4), persistent=False)
        self.calls = 0
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.steps += 1
        self.calls += 1
        if self.training:
            self.running.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return x * self.scale - self.running


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids))


class Router(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})
        self.gains = nn.ParameterList([nn.Parameter(torch.full((4,), float(k))) for k in range(2)])

    def forward(self, x, head="a"):
        for expert, gain in zip(self.experts, [*self.gains, 1.0]):
            x = x + expert(x) * gain
        return self.heads[head](x)


class Attention(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, width * 3)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, xs):
        h = torch.zeros(xs.shape[1], 4)
        out = []
        for x in xs:
            h = self.cell(x, h)
            out.append(h)
        return torch.stack(out), h


@factory(f(2, 4), f(2, 4, grad=True), f(3, 4))
def block():
    return Block()


@factory(f(2, 4), f(3, 4))
def sequential():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Sequential(nn.Linear(8, 3), nn.Tanh()))


@factory(f(2, 4), f(2, 4), call(f(2, 4), before=lambda m: m.eval()), call(f(3, 4), before=lambda m: m.train()))
def buffers_and_counters():
    return WithState()


@factory(i(2, 3), i(4))
def tied_weights():
    return Tied()


@factory(call(f(2, 4)), call(f(2, 4), head="b"), call(f(1, 4), "a"))
def lists_and_dicts_of_modules():
    return Router()


@factory(call(f(1, 3, 8)), call(f(1, 3, 8), torch.ones(3, 3).triu(1).bool()), call(f(2, 2, 8)))
def attention():
    return Attention()


@factory(f(3, 2, 3), f(2, 2, 3))
def recurrent_cell_in_a_loop():
    return Recurrent()


@factory(f(2, 3, 8, 8), f(1, 3, 8, 8), call(f(1, 3, 8, 8), before=lambda m: m.eval()))
def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 5),
    )


@factory(f(5, 2, 3), f(4, 2, 3))
def lstm():
    return nn.LSTM(3, 4, num_layers=2)


@factory(f(4, 2, 8), f(3, 1, 8))
def transformer_encoder_layer():
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)


@factory((f(2, 3, 8), f(2, 3, 8), f(2, 3, 8)), (f(1, 2, 8), f(1, 2, 8), f(1, 2, 8)))
def multihead_attention():
    return nn.MultiheadAttention(8, 2, batch_first=True)


@factory(f(2, 4), f(3, 4))
def module_in_closure():
    block = Block(4, residual=False)
    head = nn.Linear(4, 1)

    def fn(x):
        return head(block(x)).squeeze(-1)

    return fn


@program((nn.Linear(3, 2), f(2, 3)), (nn.Linear(3, 4, bias=False), f(2, 3)))
def module_as_argument(layer, x):
    return layer(x), layer.weight.shape, layer.bias is None


@program((Block(4), f(2, 4)), (Block(4, residual=False), f(2, 4)))
def submodule_used_alone(model, x):
    return model.norm(x) + model.up.bias[:4], model.residual


@factory(f(2, 4), call(f(2, 4), before=lambda m: setattr(m, "residual", False)))
def attribute_changes_between_calls():
    return Block()


def double_the_weights(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)


@factory(f(2, 4), call(f(2, 4), before=double_the_weights))
def weights_change_between_calls():
    return Block()


@factory(f(2, 4), call(f(2, 4), before=lambda m: m.requires_grad_(False)))
def frozen_between_calls():
    return Block()


@factory(f(2, 4), call(f(2, 4), before=lambda m: setattr(m, "down", nn.Linear(8, 4, bias=False))))
def submodule_replaced_between_calls():
    return Block()


@program((Block(4), f(2, 4)), (Router(), f(2, 4)))
def introspection(model, x):
    names = [name for name, _ in model.named_parameters()]
    count = sum(p.numel() for p in model.parameters())
    return model(x), names, count, len(list(model.modules())), [n for n, _ in model.named_children()]


@program((Block(4), f(2, 4)), (Block(4), f(2, 4)))
def mode_switched_inside(model, x):
    model.eval()
    a = model(x)
    model.train()
    return a, model.training, model.up.training


@factory(f(2, 4), f(2, 4))
def weight_norm_by_hand():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.v = nn.Parameter(torch.ones(3, 4))
            self.g = nn.Parameter(torch.full((3, 1), 2.0))

        @property
        def weight(self):
            return self.g * self.v / self.v.norm(dim=1, keepdim=True)

        def forward(self, x):
            return F.linear(x, self.weight)

    return Normed()


@factory(f(2, 4), f(2, 4))
def parametrized():
    class Symmetric(nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).T

    layer = nn.Linear(4, 4)
    nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


@factory(f(2, 4), f(2, 4))
def lazy_module():
    return nn.Sequential(nn.LazyLinear(3), nn.ReLU())


@factory(f(2, 4), f(3, 4), f(2, 4))
def lazy_modules_inside():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.body = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
            self.unused = nn.LazyLinear(2)

        def forward(self, x):
            return self.body(self.drop(x))

    return Model()


@factory(f(2, 4), f(2, 4), f(3, 4))
def parameters_made_on_the_way():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.scale = 1.0
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x):
            if not hasattr(self, "weight"):
                self.weight = nn.Parameter(torch.full((4,), 2.0))
            self.calls += 1
            if self.calls == 2:
                self.scale = nn.Parameter(x.detach().sum(0))
                self.weight = self.scale
            self.seen = x[0]
            return x * self.weight * self.scale, [name for name, _ in self.named_parameters()]

    return Model()


@factory(f(2, 4), f(2, 4), f(3, 4))
def members_replaced():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.second = nn.Linear(4, 4)
            self.register_buffer("shift", torch.ones(4))

        def forward(self, x):
            y = self.first(x)
            self.first, self.second = self.second, self.first
            self.act = nn.ReLU() if y.shape[0] == 2 else nn.Identity()
            self.shift = None
            self.first.bias = nn.Parameter(self.first.bias.detach() * 2)
            return self.act(y), list(self._modules), list(self._buffers)

    return Model()


@program((f(2, 4), 3), (f(2, 4), 2))
def module_made_inside(x, n):
    torch.manual_seed(0)
    layer = nn.Linear(4, n)
    return layer(x)


@factory(call(f(2, 4)), call(f(2, 4), return_dict=False), call(x=f(1, 4)))
def keyword_arguments_of_forward():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x, *, return_dict=True, **kwargs):
            y = self.block(x)
            return {"out": y, "extra": kwargs} if return_dict else (y,)

    return Model()


@factory(f(2, 4), f(2, 4))
def calls_forward_directly():
    model = Block()

    def fn(x):
        return model.forward(x) + model(x), model._modules["up"].weight.sum(), model.get_parameter("up.bias")[0]

    return fn


@factory(i(2, 3), i(1, 4))
def embedding_bag_and_positions():
    class Embedder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(5, 4, padding_idx=0)
            self.positions = nn.Embedding(6, 4)
            self.register_buffer("ids", torch.arange(6))

        def forward(self, ids):
            return self.tokens(ids) + self.positions(self.ids[: ids.shape[1]])

    return Embedder()
