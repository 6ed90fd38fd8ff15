"""Tests on a GPU (`make test-cuda`). They use the fixtures and helpers of tests/python."""

import pytest
import torch

from tests.python.conftest import clean_state  # noqa: F401


def pytest_configure(config):
    if not torch.cuda.is_available():
        raise pytest.UsageError("these tests need a GPU and a build of torch with CUDA")


@pytest.fixture(scope="session", autouse=True)
def settled():
    """torch chooses the order of its attention kernels when the first one runs. Captures guard that order."""
    q = torch.ones(1, 1, 8, 8, device="cuda", dtype=torch.bfloat16)
    torch.nn.functional.scaled_dot_product_attention(q, q, q)


@pytest.fixture(autouse=True)
def deterministic():
    """Algorithms of cuDNN that give the same bits in each run."""
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True):
        yield
