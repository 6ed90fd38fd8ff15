"""Every entry of PyTorch's operator database, on fakes and on real tensors, in four layouts, with grad and without.

Sizes, strides, dtype, device, requires_grad and conj/neg bits of results and of mutated arguments must be those of
the real run. An entry whose fakes are refused must stand in breaks.json with that reason (written by
tools/gen_fake_tiers.py); whatever is not refused must be right.
"""

import json
import pathlib

import pytest
import torch

from tests.python.fake import op_samples

ENTRIES = op_samples.entries()
BREAKS = json.loads((pathlib.Path(__file__).parent / "breaks.json").read_text())
CASES = [
    (name, dtype)
    for name, op in sorted(ENTRIES.items())
    for dtype in op_samples.DTYPES
    if op.supports_dtype(dtype, "cpu")
]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name,dtype", CASES, ids=[f"{name}-{str(dtype)[6:]}" for name, dtype in CASES])
def test_metadata(name, dtype):
    # Grad changes what runs above the fakes, not the dtype rules: both settings in float32, one in the others.
    grads = (False, True) if dtype is torch.float32 else (dtype.is_floating_point or dtype.is_complex,)
    most = op_samples.samples_for(dtype)
    runs, breaks, wrong = op_samples.run_entry(ENTRIES[name], dtype, grads=grads, most=most)
    assert not wrong, f"{len(wrong)} of {runs} runs differ; the first: {wrong[0]}"
    unnamed = sorted(set(breaks) - set(BREAKS.get(name, ())))
    assert not unnamed, f"breaks that no table names: {unnamed}"


def test_no_break_is_stale():
    unknown = sorted(set(BREAKS) - set(ENTRIES))
    assert not unknown, f"breaks.json names entries the database does not have: {unknown}"


def test_most_entries_are_served():
    # Guards against a table that swallows everything.
    served = [name for name in ENTRIES if name not in BREAKS]
    assert len(served) >= MINIMUM_SERVED


MINIMUM_SERVED = 600
