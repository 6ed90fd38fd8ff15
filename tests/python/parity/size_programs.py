"""Programs whose inputs change in size from call to call: batches, sequences, images, lists. Shared by the tests and
tools/conformance.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

F = nn.functional

SIZES = (5, 3, 7, 2, 12, 4, 9, 31, 6, 17, 8, 64, 3, 11, 23, 10, 5, 40, 13, 16)
IMAGES = (16, 20, 18, 33, 24, 17, 40, 22, 16, 29, 32, 19, 27, 48, 21, 36, 25, 18, 30, 23)


@dataclass(frozen=True)
class Program:
    name: str
    make: Callable[[], Callable[..., Any]]
    args: Callable[[int], tuple[Any, ...]]
    sizes: tuple[int, ...] = SIZES
    captures: int = 2


PROGRAMS: list[Program] = []


def values(*shape: int) -> torch.Tensor:
    count = math.prod(shape)
    return (torch.arange(count, dtype=torch.float32) * 0.7).sin().reshape(shape)


def ids(*shape: int, most: int = 50) -> torch.Tensor:
    return (torch.arange(math.prod(shape)) * 7 % most).reshape(shape)


def rows(n: int) -> tuple[torch.Tensor]:
    return (values(n, 6),)


def sequences(n: int) -> tuple[torch.Tensor]:
    return (values(2, n, 16),)


def tokens(n: int) -> tuple[torch.Tensor]:
    return (ids(2, n),)


def images(n: int) -> tuple[torch.Tensor]:
    return (values(2, 3, n, n + 3),)


def program(args: Callable[[int], tuple[Any, ...]], **settings: Any) -> Any:
    """A function is the program; a class is made once, as a model."""

    def add(target: Any) -> Any:
        def make() -> Callable[..., Any]:
            torch.manual_seed(0)
            return target().eval() if isinstance(target, type) else target

        PROGRAMS.append(Program(target.__name__, make, args, **settings))
        return target

    return add


# ---- batches


@program(rows)
class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))

    def forward(self, x):
        return F.log_softmax(self.layers(x), -1)


@program(rows)
def normalised_rows(x):
    x = x - x.mean(0, keepdim=True)
    return x / (x.std(0, keepdim=True) + 1e-5), x.shape[0]


@program(rows)
def pairwise_distances(x):
    return torch.cdist(x, x), (x[:, None] - x[None]).pow(2).sum(-1).sqrt()


@program(rows)
def contrastive_loss(x):
    z = F.normalize(torch.cat([x, x * 0.9]), dim=1)
    logits = z @ z.t() / 0.1
    logits = logits.masked_fill(torch.eye(len(z), dtype=torch.bool), float("-inf"))
    target = torch.arange(len(z)).roll(x.shape[0])
    return F.cross_entropy(logits, target)


@program(lambda n: (values(n, 6), ids(n, most=4)))
def weighted_loss(x, target):
    counts = F.one_hot(target, 4).sum(0)
    weight = target.numel() / (counts + 1)
    return F.cross_entropy(x[:, :4], target, weight=weight)


@program(lambda n: (values(n, 6).requires_grad_(),))
def training_loss(x):
    return (x.sigmoid() * torch.arange(x.shape[0]).unsqueeze(1)).mean()


@program(lambda n: (values(n, 6), values(n, 6)))
def two_batches(x, y):
    return torch.cat([x, y], 1), torch.stack([x, y]).sum(0), x @ y.t()


@program(lambda n: (values(n, 6), values(n + 3, 6)))
def unequal_batches(x, y):
    return x @ y.t(), torch.cat([x, y])


@program(rows)
def halves(x):
    middle = x.shape[0] // 2
    return x[:middle].sum(0) + x[middle:].sum(0), x[: x.size(0) - 1] - x[1:]


@program(rows)
def ranked(x):
    order = x[:, 0].argsort(descending=True)
    return x[order], x.topk(2, 0).values, order.float() / len(x)


# ---- sequences


class Attention(nn.Module):
    def __init__(self, causal: bool = False) -> None:
        super().__init__()
        self.qkv, self.out, self.causal = nn.Linear(16, 48), nn.Linear(16, 16), causal

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        if self.causal:
            scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).tril().logical_not(), float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


@program(sequences)
class SelfAttention(Attention):
    pass


@program(sequences)
class CausalAttention(Attention):
    def __init__(self) -> None:
        super().__init__(causal=True)


@program(sequences)
class FusedAttention(Attention):
    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


@program(sequences)
class MultiHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


@program(sequences)
class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)

    def forward(self, x):
        return self.layer(x).mean(1)


@program(tokens)
class LearnedPositions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 16), nn.Embedding(64, 16)

    def forward(self, x):
        return self.tokens(x) + self.positions(torch.arange(x.size(1)))


@program(tokens)
def sinusoidal_positions(x):
    place = torch.arange(x.shape[1], dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, 16, 2) * (-math.log(10000.0) / 16))
    return torch.cat([(place * rate).sin(), (place * rate).cos()], -1).expand(x.shape[0], -1, -1)


@program(sequences)
def rotary(x):
    t = x.shape[1]
    angle = torch.outer(torch.arange(t).float(), 1.0 / 100 ** (torch.arange(0, 16, 2) / 16))
    cos, sin = angle.cos(), angle.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


@program(sequences)
def alibi(x):
    t = x.size(1)
    distance = torch.arange(t)[None] - torch.arange(t)[:, None]
    slopes = 2.0 ** -torch.arange(1, 5)
    return slopes[:, None, None] * distance.clamp(max=0)


@program(sequences)
def local_windows(x):
    padded = F.pad(x, (0, 0, 2, 2))
    return padded.unfold(1, 5, 1).mean(-1)


@program(sequences)
def blocks_of_four(x):
    b, t, c = x.shape
    padded = F.pad(x, (0, 0, 0, -t % 4))
    return padded.reshape(b, -1, 4, c).sum(2)


@program(sequences)
class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(16, 8, batch_first=True, bidirectional=True)

    def forward(self, x):
        out, (h, _) = self.rnn(x)
        return out.mean(1), h


@program(sequences)
class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(16, 8, 3, padding=1), nn.Conv1d(8, 4, 3, padding=2, dilation=2)

    def forward(self, x):
        return self.second(F.gelu(self.first(x.transpose(1, 2)))).amax(-1)


@program(lambda n: (values(2, n, 16), torch.tensor([n, max(n - 2, 1)])))
def masked_mean(x, lengths):
    mask = torch.arange(x.size(1))[None] < lengths[:, None]
    return (x * mask[..., None]).sum(1) / lengths[:, None]


@program(lambda n: (values(2, n, 16), values(2, n + 4, 16)))
def cross_attention(x, memory):
    return ((x @ memory.transpose(1, 2)) / 4).softmax(-1) @ memory


@program(lambda n: (values(1, n, 16), values(1, 1, 16)))
def growing_cache(cache, new):
    keys = torch.cat([cache, new], 1)
    return keys, (new @ keys.transpose(1, 2)).softmax(-1) @ keys


# For two tokens, the targets are a view of the ids; for more of them a copy.
@program(tokens, captures=3)
def shifted_loss(x):
    logits = F.one_hot(x, 50).float()
    return F.cross_entropy(logits[:, :-1].reshape(-1, 50), x[:, 1:].reshape(-1))


@program(sequences)
def two_sizes_at_once(x):
    flat = x.reshape(-1, x.size(-1))
    return flat.view(x.shape) + 1, flat.shape[0] / x.shape[1]


# ---- images


@program(images, sizes=IMAGES)
class SmallNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.head = nn.Conv2d(8, 8, 3, stride=2), nn.Linear(8, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        return self.head(F.adaptive_avg_pool2d(self.second(x), 1).flatten(1))


@program(images, sizes=IMAGES)
class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.norm = nn.GroupNorm(1, 3)

    def forward(self, x):
        return F.relu(x + self.second(F.relu(self.norm(self.first(x)))))


@program(images, sizes=IMAGES)
class Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.Conv2d(6, 3, 1)

    def forward(self, x):
        small = self.down(x)
        return x + self.up(F.interpolate(small, size=x.shape[2:], mode="bilinear", align_corners=False))


@program(images, sizes=IMAGES)
def scaled_up(x):
    return F.interpolate(x, scale_factor=2.0, mode="nearest"), F.avg_pool2d(x, 3, 2)


@program(images, sizes=IMAGES)
def padded_to_eight(x):
    h, w = x.shape[-2:]
    return F.pad(x, (0, -w % 8, 0, -h % 8))


@program(images, sizes=IMAGES)
def crops(x):
    h, w = x.shape[-2:]
    top, left = (h - 8) // 2, (w - 8) // 2
    return x[..., top : top + 8, left : left + 8], x.flip(-1)[..., : h // 2, :]


@program(lambda n: (values(2, 3, 8 * n, 8 * n),), sizes=tuple(dict.fromkeys((*SIZES[:7], 6, 11, 10, 13, 14, 15, 16))))
class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 16, 8, stride=8)

    def forward(self, x):
        return self.embed(x).flatten(2).transpose(1, 2)


@program(images, sizes=IMAGES)
def grid(x):
    h, w = x.shape[-2:]
    y, z = torch.meshgrid(torch.arange(h) / (h - 1) * 2 - 1, torch.arange(w) / (w - 1) * 2 - 1, indexing="ij")
    return F.grid_sample(x, torch.stack([z, y], -1)[None].expand(x.shape[0], -1, -1, -1), align_corners=True)


# ---- lists and dicts of tensors


@program(lambda n: ([values(n, 4), values(n + 2, 4), values(2 * n, 4)],))
def joined_list(parts):
    return torch.cat(parts), [part.sum(0) for part in parts], sum(part.shape[0] for part in parts)


@program(lambda n: ([values(n, 4), values(n + 1, 4)],))
def padded_list(parts):
    longest = max(part.shape[0] for part in parts)
    return torch.stack([F.pad(part, (0, 0, 0, longest - part.shape[0])) for part in parts])


@program(lambda n: ({"a": values(n, 4), "b": values(4, n)},))
def dict_of_tensors(parts):
    return {name: part * part.shape[0] for name, part in parts.items()}, parts["a"] @ parts["b"]


@program(lambda n: ((values(n, 4), (values(n, 4), {"x": values(n)})),))
def nested(parts):
    a, (b, c) = parts
    return a + b * c["x"][:, None], c["x"].cumsum(0)


@program(lambda n: (values(n, 4), [values(3), values(n)]))
def list_beside_a_batch(x, parts):
    return x.sum(1) * parts[1] + parts[0].sum(), len(parts) * x.shape[0]


@program(lambda n: (values(3 * n, 4), values(n, 4)))
def related_sizes(x, y):
    return x.view(3, -1, 4) + y, x.shape[0] // y.shape[0]
