"""PyTorch's operator database on CUDA fakes, in four layouts, with and without gradients.

Metadata must be that of the real kernels, and no entry that is captured on the CPU may break on CUDA.
"""

import json
import pathlib

import pytest

from tests.python import fake
from tests.python.fake import op_samples

ENTRIES = op_samples.entries()
BREAKS = json.loads((pathlib.Path(fake.__path__[0]) / "breaks.json").read_text())
# Kernels that are compiled while they run exist on CUDA alone.
ONLY_ON_CUDA = {name for name in ENTRIES if name.startswith("jiterator")}
# A reason that only CUDA kernels give.
ON_CUDA = "aten::_linalg_svd: the conjugate bit of the result"
CASES = [
    (name, dtype)
    for name, op in sorted(ENTRIES.items())
    for dtype in op_samples.DTYPES
    if name not in ONLY_ON_CUDA and op.supports_dtype(dtype, "cuda")
]


@pytest.mark.parametrize("name,dtype", CASES, ids=[f"{name}-{str(dtype)[6:]}" for name, dtype in CASES])
def test_metadata(name, dtype):
    grads = (False, True) if dtype.is_floating_point and dtype.itemsize == 4 else (dtype.is_floating_point,)
    most = op_samples.samples_for(dtype)
    runs, breaks, wrong = op_samples.run_entry(ENTRIES[name], dtype, grads=grads, most=most, device="cuda")
    assert not wrong, f"{len(wrong)} of {runs} runs differ; the first: {wrong[0]}"
    unnamed = sorted(set(breaks) - set(BREAKS.get(name, ())) - {ON_CUDA})
    assert not unnamed, f"breaks that the CPU does not have: {unnamed}"
