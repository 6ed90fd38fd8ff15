"""`stator.fx.with_torch_targets`: graphs with the targets that torch.compile's backends see."""

import operator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from stator.fx import with_torch_targets


@pytest.fixture
def seen():
    return []


@pytest.fixture
def backend(seen):
    @with_torch_targets
    def look(gm, example_inputs):
        gm.graph.lint()
        seen.append(gm)
        return gm

    return look


def targets(seen):
    return [node.target for gm in seen for node in gm.graph.nodes if node.op.startswith("call")]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.linear = nn.Linear(4, 5)
        self.norm = nn.LayerNorm(5)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.bn(self.conv(x)), inplace=True), 2).mean((2, 3))
        y = self.dropout(self.norm(torch.relu(self.linear(y))))
        return y.view(-1).clone().add_(1) * 2 + 1


def test_layers(seen, backend):
    block = Block().eval()
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(stator.compile(block, backend=backend, fullgraph=True)(x), block(x))
    assert targets(seen) == [
        torch.conv2d,
        F.batch_norm,
        F.relu,
        torch.max_pool2d,
        torch.mean,
        torch._C._nn.linear,
        torch.relu,
        F.layer_norm,
        F.dropout,
        "view",
        torch.clone,
        "add_",
        operator.mul,
        operator.add,
    ]


def test_a_pass_written_for_torch_compile_finds_its_nodes(seen):
    @with_torch_targets
    def without_relu(gm, example_inputs):
        for node in gm.graph.nodes:
            if node.target is F.relu:
                node.replace_all_uses_with(node.args[0])
                gm.graph.erase_node(node)
        gm.recompile()
        return gm

    x = torch.tensor([-1.0, 1.0])
    assert torch.equal(stator.compile(lambda x: F.relu(x) * 2, backend=without_relu)(x), x * 2)


IMAGE, ROWS = torch.randn(1, 2, 6, 6), torch.randn(3, 4)
LABELS = torch.tensor([0, 1, 2])

# Calls of functions with arguments that ATen operators order, name or encode in other ways.
CALLS = {
    "cross_entropy": lambda: F.cross_entropy(ROWS, LABELS, reduction="sum", label_smoothing=0.1),
    "nll_loss": lambda: F.nll_loss(ROWS, LABELS, reduction="none"),
    "mse_loss": lambda: F.mse_loss(ROWS, ROWS * 2, reduction="sum"),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(ROWS, ROWS * 2, beta=0.5),
    "binary_cross_entropy": lambda: F.binary_cross_entropy(ROWS.sigmoid(), ROWS.sigmoid()),
    "kl_div": lambda: F.kl_div(ROWS.log_softmax(1), ROWS.softmax(1), reduction="batchmean"),
    "embedding": lambda: F.embedding(LABELS, ROWS, padding_idx=1),
    "embedding_bag": lambda: F.embedding_bag(LABELS, ROWS, torch.tensor([0, 2]), mode="sum"),
    "softmax": lambda: F.softmax(ROWS, dim=1),
    "log_softmax": lambda: F.log_softmax(ROWS, dim=0, dtype=torch.float64),
    "dropout": lambda: F.dropout(ROWS, 0.0, training=True),
    "leaky_relu": lambda: F.leaky_relu(ROWS.clone(), 0.2, inplace=True),
    "hardtanh": lambda: F.hardtanh(ROWS, -0.5, 0.5),
    "elu": lambda: F.elu(ROWS, 0.3),
    "glu": lambda: F.glu(ROWS, 1),
    "pad": lambda: F.pad(IMAGE, (1, 1, 1, 1), mode="reflect"),
    "interpolate": lambda: F.interpolate(IMAGE, scale_factor=2, mode="bilinear"),
    "group_norm": lambda: F.group_norm(IMAGE, 2, eps=1e-3),
    "instance_norm": lambda: F.instance_norm(IMAGE),
    "avg_pool2d": lambda: F.avg_pool2d(IMAGE, 2, 1),
    "max_pool2d": lambda: F.max_pool2d(IMAGE, 2, return_indices=True),
    "adaptive_max_pool2d": lambda: F.adaptive_max_pool2d(IMAGE, 2),
    "normalize": lambda: F.normalize(ROWS, dim=1),
    "attention": lambda: F.scaled_dot_product_attention(IMAGE, IMAGE, IMAGE, is_causal=True),
    "comparisons": lambda: (ROWS > 0, ROWS == ROWS, ROWS.max(1), ROWS.std(1, keepdim=True), ROWS.add(1, alpha=2)),
    "slices": lambda: (ROWS[1:], ROWS[:, 0], ROWS[None], ROWS[LABELS], ROWS.split(2), ROWS.chunk(2, 1), ROWS.T),
    "writes": lambda: (ROWS.clone().fill_(2), ROWS.clone().clamp_(0, 1), ROWS.clone().index_fill_(0, LABELS, 1.0)),
    "made": lambda: (
        torch.full((2,), 3),
        torch.arange(1, 7, 2),
        torch.zeros_like(ROWS),
        torch.eye(2),
        ROWS.new_ones(2),
    ),
    "cast": lambda: (ROWS.to(torch.float64), ROWS.half().float(), ROWS.to(torch.int64) // 2, ROWS.norm(2), ROWS.var()),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_renamed_call_computes_the_same(name, backend):
    program = CALLS[name]

    def with_input(x):
        return program(), x + 1

    torch.testing.assert_close(
        stator.compile(with_input, backend=backend)(torch.ones(1)), with_input(torch.ones(1)), rtol=0, atol=0
    )
    assert stator.counters()["captures"]["graphs"] > 0


def twice(a, scale):
    return a * scale + a


def several(a, b):
    return {"sum": a + b, "parts": (a * 2, [b * 3])}


@pytest.mark.parametrize(
    "fn", [lambda x: torch.relu(twice(x, scale=3)), lambda x: several(x, x * 2)["parts"][1][0] + several(x, x)["sum"]]
)
def test_an_allowed_function_is_the_target_of_its_node(seen, backend, fn):
    torch.compiler.allow_in_graph(twice)
    torch.compiler.allow_in_graph(several)
    compiled = stator.compile(fn, backend=backend, fullgraph=True)
    for x in (torch.ones(3), torch.arange(3.0)):
        assert torch.equal(compiled(x), fn(x))
    assert {twice, several} & set(targets(seen))
    assert not any(node.op == "call_module" for gm in seen for node in gm.graph.nodes)
