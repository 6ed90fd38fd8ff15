"""What fakes on the CPU answer, fakes on a CUDA device answer: PyTorch's operator database in four layouts.

Fakes have no data, so no GPU is needed. Without one, torch refuses gradients of CUDA tensors and functions that make
tensors on a CUDA device: `make test-cuda` covers these, and compares metadata with the kernels.
"""

import itertools
import warnings

import pytest
import torch
from torch.utils import _pytree as pytree

from stator import _C
from tests.python.fake import op_samples
from tests.python.helpers import fake_scope

_fake = _C._fake

PARTS = 8
# The errors of torch's functions that first look for a GPU.
NO_GPU = (
    "Torch not compiled with CUDA enabled",
    "PyTorch is not linked with support for cuda devices",
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
)


def entries():
    for name, op in sorted(op_samples.entries().items()):
        if op.supports_dtype(torch.float32, "cpu") and op.supports_dtype(torch.float32, "cuda"):
            yield name, op


def refusal(op, sample, device):
    """What is raised or refused on fakes of the device; None if they answer."""

    def placed(value):
        if not isinstance(value, torch.Tensor):
            return torch.device(device) if isinstance(value, torch.device) else value
        return torch.ops.aten.empty_strided.default(value.shape, value.stride(), dtype=value.dtype, device=device)

    _fake.take_poison()
    error = None
    with fake_scope(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            first, args, kwargs = pytree.tree_map(placed, sample)
            if "device" in kwargs:
                kwargs = {**kwargs, "device": device}
            op(first, *args, **kwargs)
        except Exception as raised:  # noqa: BLE001
            error = str(raised)
    return _fake.take_poison() or error


def refused_on_cuda(op):
    made = op.sample_inputs("cpu", torch.float32, requires_grad=False)
    for sample, layout in itertools.product(itertools.islice(made, 2), op_samples.LAYOUTS):
        values = (sample.input, sample.args, dict(sample.kwargs))
        if any(isinstance(v, torch.Tensor) and v.layout is not torch.strided for v in pytree.tree_leaves(values)):
            continue
        values = pytree.tree_map(
            lambda v, layout=layout: op_samples.relayout(v, layout) if isinstance(v, torch.Tensor) else v, values
        )
        if refusal(op, values, "cpu") is None:
            reason = refusal(op, values, "cuda:0")
            if reason is not None and not any(text in reason for text in NO_GPU):
                yield f"{layout}: {reason}"


@pytest.mark.parametrize("part", range(PARTS))
def test_no_entry_breaks_on_cuda_alone(part):
    ours = list(entries())[part::PARTS]
    assert len(ours) > 50
    wrong = {name: found for name, op in ours if (found := list(refused_on_cuda(op)))}
    assert not wrong
