"""Every program of the corpus behaves the same plain and under `stator.compile`, in every call, and its captures are
those that tests/golden lists.

`make conformance` runs the same programs beside torch.compile and counts those captured in one graph.
"""

import pytest

import stator
from tests.python.captured import Table, watched
from tests.python.parity.corpus import run
from tests.python.parity.corpus.observe import difference

pytestmark = pytest.mark.usefixtures("one_thread", "validated_distributions")

# Categories in which floating-point data may differ in the last bits, and why. They are bit-equal as well, with the
# setting that is named.
NEAR = {"numpy_interop": "numpy_exact"}  # torch rounds differently from NumPy
TABLE = Table("corpus")


def programs():
    for category in run.categories():
        for name in run.names(category):
            yield pytest.param(category, name, id=f"{category}.{name}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("category", "name"), programs())
def test_equals_plain_python(category, name, renew):
    expected = run.run(category, name)
    assert difference(run.run(category, name), expected) is None, "not the same in two plain runs"
    with watched() as records:
        found = difference(run.run(category, name, stator.compile), expected, exact=category not in NEAR)
    assert found is None, found
    TABLE.check(f"{category}.{name}", records, renew)
    if category in NEAR:
        stator.reset()
        with stator.config.patch({NEAR[category]: True}):
            found = difference(run.run(category, name, stator.compile), expected)
        assert found is None, found


def test_every_line_of_the_table_is_a_program(renew):
    TABLE.check_names({f"{category}.{name}" for category in run.categories() for name in run.names(category)}, renew)


def test_the_corpus_is_wide():
    sizes = {category: len(run.names(category)) for category in run.categories()}
    assert sum(sizes.values()) >= 600, sizes
    assert min(sizes.values()) >= 15, sizes
