"""`stator.explain`: the report of a call."""

import pytest
import torch

import stator
from tests.python.helpers import captures


def two_ops(x):
    return torch.cos(torch.sin(x))


def breaks(x):
    y = x + 1
    stator.graph_break()
    return y * 2


@pytest.fixture
def x():
    return torch.ones(3)


def test_counts(x):
    report = stator.explain(two_ops)(x)
    assert report.graph_count == 1 and len(report.graphs) == 1
    assert report.op_count == 2 and report.ops_per_graph == [2]
    assert report.graph_break_count == 0 and report.break_reasons == []
    assert report.guards
    assert report.compile_times["total"] > 0
    assert torch.equal(report.result, two_ops(x))


def test_text(x):
    report = stator.explain(two_ops)(x)
    text = str(report)
    assert text.startswith("two_ops: 1 graph, 2 ops, 0 breaks, ")
    assert "sin" in text and "cos" in text
    assert __file__ in text
    for guard in report.guards:
        assert guard in text


def test_break_names_line_and_hint(x):
    report = stator.explain(breaks)(x)
    (reason,) = report.break_reasons
    assert report.graph_break_count == 1
    assert reason.file == __file__
    assert reason.line == breaks.__code__.co_firstlineno + 2
    text = str(report)
    assert "stator.graph_break()" in text and reason.hint in text
    assert torch.equal(report.result, breaks(x))


def test_nothing_is_left_behind(x):
    compiled = stator.compile(two_ops)
    compiled(x)
    stator.explain(compiled)(x)
    assert captures() == 0
    compiled(x)
    assert captures() == 1


def test_listener_is_removed_after_an_error(x):
    def fails(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        stator.explain(fails)(x)
    from stator import _C

    assert _C.set_capture_listener(None) is None


def test_module_with_keywords():
    class Two(torch.nn.Module):
        def forward(self, a, b):
            return a * b

    report = stator.explain(Two())(a=torch.ones(2), b=torch.ones(2))
    assert report.op_count == 1
    assert str(report).startswith("Two: 1 graph, 1 op,")


def test_old_form_warns(x):
    with pytest.warns(FutureWarning):
        report = stator.explain(two_ops, x)
    assert report.op_count == 2


def test_guards_are_named_as_the_program_writes_them():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(3, 3))
            self.scale = 2

        def forward(self, x):
            return self.layers(x) * self.scale

    offset = 1.0

    def add(x):
        return x + offset

    def begins(report, text):
        return any(guard.startswith(text) for guard in report.guards)

    x = torch.ones(2, 3)
    report = stator.explain(stator.compile(Net()))(x)
    assert begins(report, "self.scale == 2") and begins(report, "self.layers[0].weight Parameter")
    assert begins(report, "self.layers[0] has no own attribute 'forward'")
    assert begins(stator.explain(add)(x), "offset == 1.0")
    assert not any("cell_contents" in guard or "_modules[" in guard for guard in report.guards)
