"""The corpus with Python backends of three kinds: one that reads the graph and makes a module of it, one that returns
`gm.forward` unread, and, for a part of the programs, one that traces the graph ahead of time."""

import logging
import zlib

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


# What a backend that traces ahead of time does otherwise than plain Python (docs/graphs.md).
AHEAD_OF_TIME = {
    "autograd_and_modes": {"double_backward", "gradient_penalty"},
    "checkpoints": {"written_in_place", "part_in_autocast", "batch_norm_counts_twice", "autocast_in_a_part"},
    "data_dependent": {"tensors_where_plain_numbers_are_taken"},
    "graph_breaks": {"error_behind_a_break_in_no_grad", "error_at_its_own_line_behind_a_break"},
    "hooks": {"hook_added_between_calls", "several_tensor_hooks", "handle_from_elsewhere_removed"},
    "library_state": {"warnings_of_an_operator"},
    "nn_modules": {"multihead_attention"},
}
WHOLE = ("autograd_functions",)


def some_programs():
    """All programs of some categories, and a fixed part of the others."""
    for parameters in programs():
        category, name = parameters.values
        is_chosen = category in WHOLE or zlib.crc32(f"{category}.{name}".encode()) % 16 == 0
        if is_chosen and name not in AHEAD_OF_TIME.get(category, ()):
            yield parameters


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("category", "name"), some_programs())
def test_ahead_of_time(category, name, monkeypatch):
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    expected = run.run(category, name, exact=False)
    seen = run.run(category, name, lambda target: stator.compile(target, backend="aot_eager"), exact=False)
    found = difference(seen, expected, exact=False)
    assert found is None, found
