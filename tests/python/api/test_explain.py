"""`stator.explain`: the report of a call."""

import io

import pytest
import torch

import stator
from stator import places
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
    first = two_ops.__code__.co_firstlineno
    assert f"graph 1: two_ops  {places.short_path(__file__)}:{first}, line {first + 1}\n  2 ops: sin, cos" in text
    assert not any(guard in text for guard in report.guards)
    details = report.details()
    assert details.startswith(text.splitlines()[0]) and "aten::sin" in details
    for guard in report.guards:
        assert guard in details


def test_a_large_model_fits_on_a_screen():
    block = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0)
    report = stator.explain(torch.nn.TransformerEncoder(block, 4, enable_nested_tensor=False))(torch.ones(2, 3, 16))
    text = str(report)
    assert len(text) < 800 and len(text.splitlines()) <= 8 and len(report.details()) > 20 * len(text)
    assert "graph 1: TransformerEncoder.forward  torch/nn/modules/transformer.py:" in text
    assert "linear" in text


def test_many_graphs_and_breaks_fit_on_a_screen():
    many = make_breaks(30)
    report = stator.explain(many)(torch.ones(3))
    assert report.graph_count == 31 and report.graph_break_count == 30
    assert len(str(report).splitlines()) < 60 and "and 23 more graphs" in str(report)
    assert "and 24 more breaks" in str(report)


def make_breaks(count):
    """A function with so many breaks, each in a line of its own."""
    lines = "".join(f"    x = x + {n}\n    stator.graph_break()\n" for n in range(count))
    scope = {"stator": stator}
    exec(f"def many(x):\n{lines}    return x + 1\n", scope)
    return scope["many"]


class Scored(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.layer(x)
        for _ in range(3):
            y = y + 1
            y.sum().backward(retain_graph=True)
        return y


def test_a_break_is_counted_once_and_shown_at_the_users_line():
    report = stator.explain(Scored())(torch.ones(2, 3))
    (broke,) = report.break_reasons
    assert report.graph_break_count == 1 and broke.id == "backward" and broke.count >= 1
    assert (broke.file, broke.line) == (__file__, Scored.forward.__code__.co_firstlineno + 4)
    text = str(report)
    assert "    y.sum().backward(retain_graph=True)\n" in text and "Scored.forward" in text
    assert "_ignore_self" not in text and "call" not in {capture.function for capture in report.captures}


def test_the_chain_into_a_library_is_shown():
    def reads(x):
        y = x + 1
        torch.save(y, io.BytesIO())
        return y * 2

    report = stator.explain(reads)(torch.ones(2))
    assert report.break_reasons
    for broke in report.break_reasons:
        assert broke.line == reads.__code__.co_firstlineno + 2 and broke.file == __file__
    text = str(report)
    assert "    torch.save(y, io.BytesIO())\n" in text and "  through: torch/serialization.py:" in text


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
