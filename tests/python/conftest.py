"""Every test starts and ends with nothing captured and the settings as they were."""

import pytest

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
def K():
    """A backend that counts the graphs it gets."""
    return Counting()


@pytest.fixture
def K2():
    return Counting()
