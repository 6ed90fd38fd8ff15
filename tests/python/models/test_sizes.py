"""Models whose inputs change in size: generation with a growing cache, sentences of many lengths, batches."""

from __future__ import annotations

import pytest
import torch

import stator
from benchmarks import models
from tests.python.helpers import assert_same, captures


@pytest.mark.parametrize("name", ["GPT-2", "Llama", "T5"])
def test_generate_with_a_growing_cache(name):
    model = models.by_name(name).build().eval()
    model.generation_config.pad_token_id, model.generation_config.eos_token_id = 0, None
    ids = torch.arange(3, 11).reshape(2, 4)
    settings = {"max_new_tokens": 59, "do_sample": False, "use_cache": True}
    expected = model.generate(ids, **settings)
    model.forward = stator.compile(model.forward)
    assert torch.equal(model.generate(ids, **settings), expected)
    assert expected.shape[1] >= 60
    assert captures() <= 4
    assert torch.equal(model.generate(ids, **settings), expected)
    assert captures() <= 4


@pytest.mark.parametrize("name", ["BERT", "GPT-2", "Llama", "T5"])
def test_twenty_lengths(name):
    case = models.by_name(name)
    model = case.build().eval()
    compiled = stator.compile(model)
    with torch.no_grad():
        for length in range(3, 23):
            inputs = dict(case.inputs(0))
            for key in ("input_ids", "decoder_input_ids"):
                if key in inputs:
                    inputs[key] = torch.arange(2 * length).reshape(2, length) % 99 + 1
            if "attention_mask" in inputs:
                inputs["attention_mask"] = torch.ones(2, length, dtype=torch.long)
                inputs["attention_mask"][1, -1:] = 0
            assert_same(getattr(compiled(**inputs), case.output), getattr(model(**inputs), case.output), f"{length}")
    assert captures() <= 2


@pytest.mark.parametrize("name", ["MLP", "CNN", "GPT, 12 blocks", "ViT", "ResNet", "ConvNeXt"])
def test_ten_batches(name):
    case = models.by_name(name)
    model = case.build().eval()
    compiled = stator.compile(model)
    (key, first), *_ = case.inputs(0).items()
    with torch.no_grad():
        for batch in (2, 3, 7, 4, 9, 2, 12, 5, 6, 8):
            inputs = {key: first[:1].repeat(batch, *(1 for _ in first.shape[1:]))}
            actual, expected = compiled(**inputs), model(**inputs)
            if case.output:
                actual, expected = getattr(actual, case.output), getattr(expected, case.output)
            assert_same(actual, expected, f"batch {batch}")
    assert captures() <= 2
