"""The corpus with Python backends of two kinds: one that reads the graph and makes a module of it, one that returns
`gm.forward` unread."""

import pytest
import torch

import stator
from tests.python.parity.corpus import run
from tests.python.parity.corpus.observe import difference
from tests.python.parity.test_corpus import NEAR, programs

pytestmark = pytest.mark.usefixtures("one_thread", "validated_distributions")


def rebuilt(gm, example_inputs):
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(gm.graph, {}))
    return torch.fx.GraphModule(gm, graph)


def unread(gm, example_inputs):
    return gm.forward


# Operators that a backend calls through torch.ops give their warnings to stderr, where no filter sees them.
UNSEEN = ("rebuilt", "library_state", "warnings_of_an_operator")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("category", "name"), programs())
@pytest.mark.parametrize("backend", [rebuilt, unread], ids=lambda backend: backend.__name__)
def test_equals_plain_python(category, name, backend):
    if (backend.__name__, category, name) == UNSEEN:
        pytest.skip("torch.ops gives warnings to stderr")
    expected = run.run(category, name)
    seen = run.run(category, name, lambda target: stator.compile(target, backend=backend))
    found = difference(seen, expected, exact=category not in NEAR)
    assert found is None, found
