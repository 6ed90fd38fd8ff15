"""Every test starts and ends with an empty cache and default settings."""

import random
import tomllib
from pathlib import Path

import pytest
import torch

import stator
from tests.python.captured import Table, watched
from tests.python.helpers import Counting, collect


def pytest_addoption(parser):
    parser.addoption("--renew", action="store_true", help="write what was captured to tests/golden (`make golden`)")


@pytest.fixture
def renew(request):
    return request.config.getoption("--renew")


@pytest.fixture(autouse=True)
def clean_state():
    torch.manual_seed(0)  # so that a test draws the same numbers whatever ran before it in its process
    random.seed(0)
    stator.reset()
    settings = stator.config.to_dict()
    yield
    for name, value in settings.items():
        setattr(stator.config, name, value)
    stator.reset()
    collect(0)  # fails if the test left the collector stuck


@pytest.fixture
def one_thread():
    """Uses one thread: small matrices gain nothing from a thread pool, and waiting for it dominates."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def validated_distributions(monkeypatch):
    """Restores a setting that importing torch._dynamo, as some programs do, turns off."""
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)


@pytest.fixture
def capture_table(request, clean_state, renew):
    """Compares the captures of a test with the table in tests/golden that is named after the test's file."""
    with watched() as records:
        yield
    failed = getattr(request.node, "failed", False)
    if not failed:
        Table(request.module.__name__.rpartition(".")[2]).check(request.node.name, records, renew)


def pytest_collection_modifyitems(items):
    """Marks the tests of parity/no_oracle.toml if all tests run under the oracle (`make test-oracle`)."""
    if not stator.config.oracle:
        return
    table = tomllib.loads((Path(__file__).parent / "parity" / "no_oracle.toml").read_text())
    for row in table["rows"]:
        expected = pytest.mark.xfail(strict=True, run=row.get("run", True), reason=row["why"])
        for item in items:
            if item.nodeid.rpartition("parity/")[2].startswith(tuple(row["tests"])):
                item.add_marker(expected)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Stores whether the test itself failed, for fixtures."""
    report = yield
    item.failed = getattr(item, "failed", False) or report.failed
    return report


@pytest.fixture
def K():
    """A backend that counts the graphs it gets."""
    return Counting()


@pytest.fixture
def K2():
    return Counting()
