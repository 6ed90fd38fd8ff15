"""Small models with random weights, shared by tests, benchmarks and the demo. Each row makes a model and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


@dataclass(frozen=True)
class Case:
    """`inputs(variant)` gives keyword arguments for a call; variants differ in values, and 2 also in shape."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], dict[str, Any]]
    output: str | None = None  # attribute of the result that the loss is computed from; None: the result itself

    def build(self) -> nn.Module:
        torch.manual_seed(0)
        return self.make()

    def loss(self, result: Any) -> torch.Tensor:
        """A scalar on which every element of the output has a different influence."""
        out = getattr(result, self.output) if self.output else result
        weights = torch.linspace(-1, 1, out[0].numel(), device=out.device).view(out.shape[1:])
        return (out.float() * weights).sum() + (out.float() ** 2).mean()


class MLP(nn.Module):
    def __init__(self, width: int = 64, hidden: int = 128):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.GELU()
        )
        self.head = nn.Linear(hidden, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(x))


class CNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 32, 3, stride=2, padding=1, groups=2)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(F.relu(self.norm(self.first(x))))
        x = F.silu(self.second(x))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.head(self.drop(x))


class LSTMCell(nn.Module):
    """An LSTM written out, unrolled over time."""

    def __init__(self, width: int = 32, hidden: int = 48):
        super().__init__()
        self.hidden = hidden
        self.gates_x = nn.Linear(width, 4 * hidden)
        self.gates_h = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, xs: torch.Tensor) -> torch.Tensor:
        h = xs.new_zeros(xs.shape[0], self.hidden)
        c = torch.zeros_like(h)
        outputs = []
        for x in xs.unbind(1):
            i, f, g, o = (self.gates_x(x) + self.gates_h(h)).chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        return torch.stack(outputs, dim=1)


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, blocks: int = 12, width: int = 128, heads: int = 4, vocabulary: int = 512, length: int = 64):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.tokens(ids) + self.positions(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def _ids(
    variant: int, vocabulary: int = 100, batch: int = 2, length: int = 12, key: str = "input_ids"
) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(variant)
    length += variant // 2
    return {key: torch.randint(1, vocabulary, (batch, length), generator=generator)}


def _encoder_inputs(variant: int) -> dict[str, Any]:
    inputs = _ids(variant)
    mask = torch.ones_like(inputs["input_ids"])
    mask[1, -3:] = 0
    return inputs | {"attention_mask": mask}


def _seq2seq_inputs(variant: int) -> dict[str, Any]:
    return _ids(variant) | _ids(variant + 10, length=7, key="decoder_input_ids")


def _pixels(variant: int, size: int = 32, key: str = "pixel_values") -> dict[str, Any]:
    generator = torch.Generator().manual_seed(variant)
    return {key: torch.randn(2 + variant // 2, 3, size, size, generator=generator)}


def _floats(variant: int, *shape: int, key: str = "x") -> dict[str, Any]:
    generator = torch.Generator().manual_seed(variant)
    return {key: torch.randn(shape[0] + variant // 2, *shape[1:], generator=generator)}


def transformers_model(model: str, config: str, **settings: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        import transformers

        return getattr(transformers, model)(getattr(transformers, config)(**settings))

    return make


_TEXT = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}

OWN = [
    Case("MLP", MLP, lambda v: _floats(v, 4, 64)),
    Case("CNN", CNN, lambda v: _floats(v, 2, 3, 16, 16)),
    Case("LSTM cell", LSTMCell, lambda v: _floats(v, 2, 5, 32, key="xs")),
    Case("GPT, 12 blocks", GPT, lambda v: _ids(v, vocabulary=512, length=16, key="ids")),
]

TRANSFORMERS = [
    Case(
        "BERT",
        transformers_model("BertModel", "BertConfig", intermediate_size=64, max_position_embeddings=64, **_TEXT),
        _encoder_inputs,
        "last_hidden_state",
    ),
    Case(
        "GPT-2",
        transformers_model(
            "GPT2LMHeadModel",
            "GPT2Config",
            vocab_size=100,
            n_positions=64,
            n_embd=32,
            n_layer=2,
            n_head=2,
            bos_token_id=1,
            eos_token_id=2,
        ),
        lambda v: _encoder_inputs(v) | {"use_cache": False},
        "logits",
    ),
    Case(
        "Llama",
        transformers_model(
            "LlamaForCausalLM",
            "LlamaConfig",
            intermediate_size=64,
            num_key_value_heads=1,
            max_position_embeddings=64,
            **_TEXT,
        ),
        lambda v: _encoder_inputs(v) | {"use_cache": False},
        "logits",
    ),
    Case(
        "T5",
        transformers_model(
            "T5ForConditionalGeneration",
            "T5Config",
            vocab_size=100,
            d_model=32,
            d_kv=16,
            d_ff=64,
            num_layers=2,
            num_heads=2,
            decoder_start_token_id=0,
        ),
        lambda v: _seq2seq_inputs(v) | {"use_cache": False},
        "logits",
    ),
    Case(
        "ViT",
        transformers_model(
            "ViTModel",
            "ViTConfig",
            image_size=32,
            patch_size=8,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
        ),
        _pixels,
        "last_hidden_state",
    ),
    Case(
        "ResNet",
        transformers_model(
            "ResNetModel",
            "ResNetConfig",
            embedding_size=8,
            hidden_sizes=[8, 16, 16, 32],
            depths=[1, 1, 2, 1],
            layer_type="basic",
        ),
        _pixels,
        "last_hidden_state",
    ),
    Case(
        "ConvNeXt",
        transformers_model("ConvNextModel", "ConvNextConfig", hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 2, 1]),
        _pixels,
        "last_hidden_state",
    ),
]

ALL = OWN + TRANSFORMERS


def by_name(name: str) -> Case:
    return next(case for case in ALL if case.name == name)
