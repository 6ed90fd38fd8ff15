import pytest
import torch


@pytest.fixture(autouse=True)
def _ambient_state_is_kept():
    """Checks that no conversion or run changes the thread's state."""
    before = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))
    yield
    assert before == (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))
