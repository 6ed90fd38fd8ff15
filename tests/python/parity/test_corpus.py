"""Every program of the corpus does under `stator.compile` what it does plain, call after call.

`make conformance` runs the same programs beside torch.compile and tells how many are captured whole.
"""

import pytest

import stator
from tests.python.parity.corpus import run
from tests.python.parity.corpus.observe import difference

pytestmark = pytest.mark.usefixtures("one_thread")

# Categories in which floating-point data may differ in the last bits, and why. They are bit-equal as well, with the
# setting that is named.
NEAR = {"numpy_interop": "numpy_exact"}  # torch rounds otherwise than NumPy


def _programs():
    for category in run.categories():
        for name in run.names(category):
            yield pytest.param(category, name, id=f"{category}.{name}")


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
