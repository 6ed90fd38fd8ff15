import pytest
import torch


@pytest.fixture(autouse=True)
def _ambient_state_is_kept():
    """No conversion or run may leave the thread in another state."""
    before = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))
    yield
    assert before == (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))
