"""Values and sizes that depend on data, in graphs for Python backends: numbers, checks in the graph, settings."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

import stator
from stator.fx_size_asserts import MESSAGE
from tests.python.helpers import assert_same, captures

BACKENDS = [lambda gm, example_inputs: gm.forward, lambda gm, example_inputs: torch.fx.Interpreter(gm).run, "aot_eager"]


def outcome(fn, *args):
    try:
        return fn(*args)
    except Exception as error:  # noqa: BLE001
        return type(error), str(error).partition("\nException raised from")[0]


def checked_range(x):
    n = x[0].long().item()
    torch._check(n >= 2)
    torch._check(n < 100, lambda: "too many")
    return torch.zeros(n) + 1, x + n


def checked_size(x):
    n = x[0].long().item()
    torch._check_is_size(n)
    torch._check(n <= x.shape[0])
    return x[:n] * 2


def decides_a_branch(x):
    n = x[0].long().item()
    torch._check(n > 1)
    return x * n if n > 1 else x - n


def asserted(x):
    n = x[0].long().item()
    if n <= 1:  # pytest changes `assert`
        raise AssertionError("small")
    return x * n


def raised(x):
    if x.sum().item() > 8:
        raise ValueError("large")
    return x * 2


def asserted_of_tensor(x):
    if not (x > 0.5).all():
        raise AssertionError("small")
    return x.log()


def negated(x):
    n = x[0].long().item()
    if not n:
        raise ZeroDivisionError("nothing to divide by")
    return x / n


def after_a_write(x):
    x.add_(1)
    n = x[0].long().item()
    if n <= 2:
        raise AssertionError("small")
    return x * n


CHECKED = [
    checked_range,
    checked_size,
    decides_a_branch,
    asserted,
    raised,
    asserted_of_tensor,
    negated,
    after_a_write,
]
CALLS = [[3.0, 2.0, 4.0], [2.0, 1.0, 5.0], [1.0, 2.0, 3.0], [0.0, 0.0, 9.0], [3.0, 1.0, 1.0], [-2.0, 1.0, 1.0]]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", BACKENDS, ids=["graph", "interpreter", "aot_eager"])
@pytest.mark.parametrize("fn", CHECKED, ids=lambda fn: fn.__name__)
def test_a_condition_is_checked_by_the_graph(fn, backend, requires_grad):
    """One graph; where the condition does not hold, the error and the effects are those of the plain program."""
    if requires_grad and fn is after_a_write:
        pytest.skip("a leaf that requires gradients takes no writes")
    compiled = stator.compile(fn, backend=backend, fullgraph=True)
    for values in CALLS:
        mine, theirs = (torch.tensor(values, requires_grad=requires_grad) for _ in range(2))
        assert_same(outcome(compiled, mine), outcome(fn, theirs), f"{values}")
        assert_same(mine, theirs, f"{values}")
    assert captures() == 1


def test_the_check_is_a_node_that_passes_keep():
    seen = []

    def backend(gm, example_inputs):
        gm.graph.eliminate_dead_code()
        gm.recompile()
        checks = [node for node in gm.graph.nodes if "assert" in str(node.target)]
        seen.append([node.target for node in checks if node.args[1] != MESSAGE])
        return gm.forward

    stator.compile(checked_range, backend=backend, fullgraph=True)(torch.tensor(CALLS[0]))
    stator.compile(asserted_of_tensor, backend=backend, fullgraph=True)(torch.tensor(CALLS[0]))
    assert seen[0].count(torch.ops.aten._assert_scalar.default) == 2
    assert torch.ops.aten._assert_async.msg in seen[1]


def test_an_unrecoverable_write_leaves_no_check_in_the_graph():
    def fn(x, large):
        large.add_(1)
        if x.sum().item() <= 0:
            raise ValueError("negative")
        return x * 2

    compiled = stator.compile(fn, backend=BACKENDS[0])
    for sign in (1, 1, -1):
        mine, theirs = torch.ones(300, 300), torch.ones(300, 300)
        x = torch.full((3,), float(sign))
        assert_same(outcome(compiled, x, mine), outcome(fn, x, theirs))
        assert_same(mine, theirs)


def numbers(x):
    n = x.sum().item()
    return x * n, n + 1


def sizes(x):
    y = x[x > 1]
    return y * 2, torch.unique(x), x.nonzero()


@pytest.mark.parametrize(
    ("fn", "setting"), [(numbers, "capture_scalar_outputs"), (sizes, "capture_dynamic_output_shape_ops")]
)
def test_settings(fn, setting):
    def graph_breaks(backend, **options):
        stator.reset()
        compiled = stator.compile(fn, backend=backend, **options)
        for values in CALLS:
            assert_same(compiled(torch.tensor(values)), fn(torch.tensor(values)))
        return sum(stator.counters()["breaks"].values())

    assert graph_breaks(BACKENDS[0]) == 0
    with stator.config.patch({setting: False}):
        assert graph_breaks(BACKENDS[0]) > 0
        assert graph_breaks(BACKENDS[0], fullgraph=True) == 0
        assert graph_breaks(None) == 0


def test_torchs_settings_of_these_names_have_no_effect():
    """Torch's are off by default, and whatever patches them puts that back: Off says nothing of what the user wants."""
    compiled = stator.compile(numbers, backend=BACKENDS[0])
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled(torch.tensor(CALLS[0]))
    stator.reset()
    compiled(torch.tensor(CALLS[0]))
    assert sum(stator.counters()["breaks"].values()) == 0
