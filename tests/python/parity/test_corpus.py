"""Every program of the corpus does under `stator.compile` what it does plain, call after call.

`make conformance` runs the same programs beside torch.compile and tells how many are captured whole.
"""

import pytest
import torch

import stator
from tests.python.parity.corpus import run
from tests.python.parity.corpus.observe import difference

# Programs known to differ from plain Python, and how.
WRONG: dict[str, str] = {}
# Programs known to crash the process, and how.
CRASHES: dict[str, str] = {}


# Categories in which floating-point data may differ in the last bits, and why. They are bit-equal as well, with the
# setting that is named.
NEAR = {"numpy_interop": "numpy_exact"}  # torch rounds otherwise than NumPy


def _programs():
    for category in run.categories():
        for name in run.names(category):
            title = f"{category}.{name}"
            marks = []
            if title in WRONG:
                marks.append(pytest.mark.xfail(strict=True, reason=WRONG[title]))
            if title in CRASHES:
                marks.append(pytest.mark.xfail(run=False, reason=CRASHES[title]))
            yield pytest.param(category, name, id=title, marks=marks)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("category", "name"), _programs())
def test_equals_plain_python(category, name):
    expected = run.run(category, name)
    assert difference(run.run(category, name), expected) is None, "not the same in two plain runs"
    found = difference(run.run(category, name, stator.compile), expected, exact=category not in NEAR)
    assert found is None, found
    if category in NEAR:
        stator.reset()
        with stator.config.patch({NEAR[category]: True}):
            found = difference(run.run(category, name, stator.compile), expected)
        assert found is None, found


def test_the_corpus_is_wide():
    sizes = {category: len(run.names(category)) for category in run.categories()}
    assert sum(sizes.values()) >= 600, sizes
    assert min(sizes.values()) >= 15, sizes
    known = {f"{category}.{name}" for category in sizes for name in run.names(category)}
    assert not (WRONG.keys() | CRASHES.keys()) - known, "the tables above name programs that are gone"
