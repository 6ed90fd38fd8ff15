"""Architectures of the transformers library: equal to eager in eval, in training steps and in `generate()`.

The table holds the number of graphs that torch.compile makes (`python -m benchmarks graphs` measures it).
"""

import copy
from collections import Counter

import pytest
import torch

import stator
from benchmarks import architectures
from tests.python.helpers import Counting, assert_same

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = architectures.ARCHITECTURES
GENERATING = [row for row in ROWS if row.kind.prompt]


# The tokens of each expert, and so guarded sizes, differ from call to call: a later call of these may make
# new graphs. No other architecture may be added here.
SIZES_VARY = {"Switch Transformers"}
# Graphs for Python backends that torch.compile does not make: the library handles errors around these models, and a
# graph ends between a write that cannot be undone and an operator that may raise.
SPLITS = {"RWKV": 4, "Switch Transformers": 4}


def check_count(row, backend, peer, call):
    if call == 0 or row.name not in SIZES_VARY:
        assert 0 < backend.count <= peer + SPLITS.get(row.name, 0)


def named(rows):
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.name)


def run_seeded(model, inputs, seed):
    torch.manual_seed(seed)
    return model(**inputs)


def test_the_table_is_broad():
    assert len({row.config for row in ROWS}) == len({row.name for row in ROWS}) == len(ROWS) >= 30
    kinds = Counter(row.kind.name for row in ROWS)
    assert set(kinds) == {
        "text decoder",
        "text encoder",
        "encoder-decoder",
        "state space",
        "vision",
        "vision and text",
        "audio",
    }
    assert kinds["text decoder"] >= 15 and kinds["text encoder"] >= 8 and kinds["vision"] >= 8


@named(ROWS)
def test_eval(row):
    case, backend = row.case(), Counting()
    model = case.build().eval()
    compiled = stator.compile(model, backend=backend)
    with torch.no_grad():
        for seed in range(2):
            assert_same(run_seeded(compiled, case.inputs(seed), seed), run_seeded(model, case.inputs(seed), seed))
            check_count(row, backend, row.peer_graphs[0], seed)


@named(ROWS)
def test_training_step(row):
    case, backend = row.case(), Counting()
    model = case.build().train()
    twin = copy.deepcopy(model)
    compiled = stator.compile(model, backend=backend)
    for step in range(2):
        losses = []
        for runner, parameters in ((compiled, model.parameters()), (twin, twin.parameters())):
            loss = case.loss(run_seeded(runner, case.inputs(step), step))
            loss.backward()
            losses.append(loss)
            with torch.no_grad():
                for parameter in parameters:
                    if parameter.grad is not None:
                        parameter -= 0.1 * parameter.grad
        assert_same(losses[0], losses[1], f"step {step}: loss")
        for (name, mine), theirs in zip(model.named_parameters(), twin.parameters(), strict=True):
            assert_same(mine.grad, theirs.grad, f"step {step}: gradient of {name}")
        for (name, mine), theirs in zip(model.named_buffers(), twin.buffers(), strict=True):
            assert_same(mine, theirs, f"step {step}: buffer {name}")
        check_count(row, backend, row.peer_graphs[1], step)


@named(GENERATING)
def test_generate(row):
    model, backend = row.case().build().eval(), Counting()
    settings = {"max_new_tokens": 4, "do_sample": False}
    expected = model.generate(**row.kind.prompt(), **settings)
    model.forward = stator.compile(model.forward, backend=backend)
    for _ in range(2):
        assert_same(model.generate(**row.kind.prompt(), **settings), expected)
    assert backend.count > 0


def test_generate_by_sampling_draws_the_same_tokens():
    row = architectures.by_name("Llama")
    model = row.case().build().eval()
    settings = {"max_new_tokens": 6, "do_sample": True, "top_k": 20}
    torch.manual_seed(3)
    expected = model.generate(**row.kind.prompt(), **settings)
    model.forward = stator.compile(model.forward)
    torch.manual_seed(3)
    assert_same(model.generate(**row.kind.prompt(), **settings), expected)
