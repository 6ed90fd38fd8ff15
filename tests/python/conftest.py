"""Every test starts and ends with nothing captured and the settings as they were."""

import pytest
import torch

import stator
from tests.python.helpers import Counting


@pytest.fixture(autouse=True)
def clean_state():
    stator.reset()
    settings = stator.config.to_dict()
    yield
    for name, value in settings.items():
        setattr(stator.config, name, value)
    stator.reset()


@pytest.fixture
def one_thread():
    """Small matrices gain nothing from a pool, and waiting for it costs most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def K():
    """A backend that counts the graphs it gets."""
    return Counting()


@pytest.fixture
def K2():
    return Counting()
