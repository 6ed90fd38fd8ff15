"""Operators that raise depending on data (`Fallible` in the operator table), after a write to a large tensor."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import stator
from tests.python.helpers import assert_same, captures

LARGE = 200_000  # elements: more than the undo log saves

NAN_MATRIX = torch.tensor([[1.0, float("nan")], [0.0, 1.0]])
GOOD_INDEX, BAD_INDEX = torch.tensor([1]), torch.tensor([9])
ROW = torch.ones(2)
SPECTRUM = torch.ones(5, 4, dtype=torch.cfloat)
PIVOTS = [torch.tensor([[a, b]], dtype=torch.int32) for a, b in ((1, 2), (7, 9))]

# name: the call, an argument that it takes and one that it raises for
CASES = {
    "index": (lambda a: ROW[a], GOOD_INDEX, BAD_INDEX),
    "_unsafe_index": (lambda a: torch.ops.aten._unsafe_index.Tensor(ROW, [a]), GOOD_INDEX, BAD_INDEX),
    "_unsafe_index_put": (
        lambda a: torch.ops.aten._unsafe_index_put(ROW, [a], torch.ones(1)),
        GOOD_INDEX,
        BAD_INDEX,
    ),
    "gather": (lambda a: torch.gather(ROW, 0, a), GOOD_INDEX, BAD_INDEX),
    "take": (lambda a: torch.take(ROW, a), GOOD_INDEX, BAD_INDEX),
    "scatter_add": (lambda a: torch.scatter_add(ROW, 0, a, torch.ones(1)), GOOD_INDEX, BAD_INDEX),
    "index_fill": (lambda a: torch.index_fill(ROW, 0, a, 1.0), GOOD_INDEX, BAD_INDEX),
    "put": (lambda a: torch.put(ROW, a, torch.ones(1)), GOOD_INDEX, BAD_INDEX),
    "embedding_bag": (lambda a: F.embedding_bag(a, torch.ones(2, 2), torch.tensor([0])), GOOD_INDEX, BAD_INDEX),
    "_embedding_bag": (
        lambda a: torch._embedding_bag(torch.ones(2, 2), a, torch.tensor([0]))[0],
        GOOD_INDEX,
        BAD_INDEX,
    ),
    "nll_loss": (lambda a: F.nll_loss(torch.ones(1, 3), a), GOOD_INDEX, BAD_INDEX),
    "cross_entropy": (lambda a: F.cross_entropy(torch.ones(1, 3), a), GOOD_INDEX, BAD_INDEX),
    "one_hot": (lambda a: F.one_hot(a, 3), GOOD_INDEX, BAD_INDEX),
    "max_unpool1d": (
        lambda a: F.max_unpool1d(torch.ones(1, 1, 1), a.reshape(1, 1, 1), 2),
        GOOD_INDEX,
        BAD_INDEX,
    ),
    "searchsorted": (
        lambda a: torch.searchsorted(torch.tensor([1.0, 2.0, 3.0]), ROW, sorter=a),
        torch.tensor([0, 1, 2]),
        torch.tensor([0, 1, 7]),
    ),
    "quantile": (lambda a: torch.quantile(ROW, a), torch.tensor(0.5), torch.tensor(2.0)),
    "nanquantile": (lambda a: torch.nanquantile(ROW, a), torch.tensor(0.5), torch.tensor(2.0)),
    "cov": (lambda a: torch.cov(torch.eye(3), aweights=a), torch.ones(3), -torch.ones(3)),
    "istft": (lambda a: torch.istft(SPECTRUM, 8, window=a), torch.ones(8), torch.zeros(8)),
    "histc": (lambda a: torch.histc(a, 4), ROW, ROW / 0),
    "histogram": (lambda a: torch.histogram(a, 4).hist, ROW, ROW / 0),
    "bernoulli": (lambda a: torch.bernoulli(a), torch.ones(2), torch.full((2,), 2.0)),
    "multinomial": (lambda a: torch.multinomial(a, 1), torch.tensor([0.0, 1.0]), torch.tensor([-1.0, 1.0])),
    "poisson": (lambda a: torch.poisson(a), torch.zeros(2), -torch.ones(2)),
    "binary_cross_entropy": (lambda a: F.binary_cross_entropy(a, ROW), ROW / 2, ROW * 2),
    "inverse": (lambda a: torch.inverse(a), torch.eye(2), torch.zeros(2, 2)),
    "linalg_cholesky": (lambda a: torch.linalg.cholesky(a), torch.eye(2), -torch.eye(2)),
    "cholesky_inverse": (lambda a: torch.cholesky_inverse(a), torch.eye(2), torch.zeros(2, 2)),
    "matrix_power": (lambda a: torch.matrix_power(a, -1), torch.eye(2), torch.zeros(2, 2)),
    "pinverse": (lambda a: torch.pinverse(a), torch.eye(2), NAN_MATRIX),
    "svd": (lambda a: torch.svd(a)[1], torch.eye(2), NAN_MATRIX),
    "nuclear_norm": (lambda a: torch.norm(a, p="nuc"), torch.eye(2), NAN_MATRIX),
    "lu_unpack": (lambda a: torch.lu_unpack(torch.ones(1, 2, 2), a)[0], *PIVOTS),
    "repeat_interleave": (
        lambda a: torch.repeat_interleave(ROW, a, output_size=2),
        torch.tensor([1, 1]),
        -torch.ones(2).int(),
    ),
    "segment_reduce": (
        lambda a: torch.segment_reduce(torch.ones(3), "sum", lengths=a),
        torch.tensor([1, 2]),
        torch.tensor([1, 9]),
    ),
    "fake_quantize": (
        lambda a: torch.fake_quantize_per_channel_affine(torch.ones(2, 2), torch.ones(2), a, 0, 0, 255),
        torch.zeros(2, dtype=torch.int32),
        torch.full((2,), 900, dtype=torch.int32),
    ),
    "floor_divide": (lambda a: torch.tensor([6]) // a, torch.tensor([2]), torch.tensor([0])),
    "div": (lambda a: torch.div(torch.tensor([6]), a, rounding_mode="trunc"), torch.tensor([2]), torch.tensor([0])),
    "remainder": (lambda a: torch.tensor([6]) % a, torch.tensor([2]), torch.tensor([0])),
    "fmod": (lambda a: torch.fmod(torch.tensor([6]), a), torch.tensor([2]), torch.tensor([0])),
    "embedding_renorm_": (
        lambda a: F.embedding(a, torch.ones(2, 2), max_norm=1.0),
        GOOD_INDEX,
        BAD_INDEX,
    ),
}


ERRORS = (RuntimeError, IndexError, ZeroDivisionError)


@pytest.mark.parametrize("name", CASES)
def test_the_program_handles_the_error(name):
    call, good, bad = CASES[name]

    def program(buffer, data):
        buffer.add_(1)
        try:
            result = call(data)
        except ERRORS as error:
            result = (type(error).__name__, str(error))
        buffer.mul_(2)
        return result

    with pytest.raises(ERRORS):
        call(bad.clone())
    compiled = stator.compile(program)
    for data in (good, bad, good, bad):
        results, buffers = [], []
        for run in (compiled, program):
            torch.manual_seed(0)
            buffers.append(torch.ones(LARGE))
            results.append(run(buffers[-1], data.clone()))
        assert_same(results[0], results[1])
        assert_same(buffers[0], buffers[1])
    assert captures() > 0
