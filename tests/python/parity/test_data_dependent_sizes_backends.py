"""Sizes that depend on data, in graphs that torch's compilers trace ahead of time: they take such a size for one of two
or more, and replace operators by others that check less."""

from __future__ import annotations

import warnings

import pytest
import torch

import stator
from stator.fx_size_asserts import MESSAGE
from tests.python.helpers import assert_same, captures

ROWS = 8
WITHOUT = "runs without the backend"


def rows_of(n):
    return torch.arange(ROWS) < n


def outcome(fn, x, mask):
    """The result and the gradient, or the error of either pass."""
    try:
        made = fn(x, mask)
        if made.requires_grad:
            made.sum().backward()
    except Exception as error:  # noqa: BLE001
        return type(error), str(error).partition("\nException raised from")[0]
    return made, x.grad


def warned_of(fn, counts, requires_grad, mark=False):
    """Compares calls with so many selected rows with those of the plain function. The warnings of the compiled one."""
    compiled = stator.compile(fn, backend="aot_eager")
    data = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(0))
    shown = []
    for n in counts:
        mine, theirs = (data.clone().requires_grad_(requires_grad) for _ in range(2))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            made = outcome(compiled, mine, rows_of(n))
        shown += [str(one.message) for one in caught if WITHOUT in str(one.message)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(made, outcome(fn, theirs, rows_of(n)), f"{n} rows")
    return shown


CHECKED = {
    "narrow": lambda x, mask: x[mask].narrow(0, 0, 1),
    "narrow_second": lambda x, mask: x[mask].narrow(0, 1, 2),
    "narrow_of_slice": lambda x, mask: x[mask][1:].narrow(0, 0, 2),
    "view": lambda x, mask: x[mask].view(2, 3, 6),
    "view_of_pairs": lambda x, mask: x[mask].view(-1, 2, 6),
}
ASSUMED = {
    "std": lambda x, mask: x[mask].std(0),
    "contiguous": lambda x, mask: x[mask].t().contiguous(),
    "slice": lambda x, mask: x[mask][::2],
    "first": lambda x, mask: x[mask][:1] * 2,
    "rest": lambda x, mask: x[mask][1:].t().contiguous(),
    "logsumexp": lambda x, mask: x[mask].logsumexp(0),
    "cummax": lambda x, mask: x[mask].cummax(0)[0],
    "cumsum": lambda x, mask: x[mask].cumsum(0),
    "take": lambda x, mask: x[mask].take(torch.tensor([7])),
    "as_strided": lambda x, mask: x[mask].as_strided((1, 2), (2, 1)),
    "nonzero": lambda x, mask: mask.nonzero().t().contiguous() * x.sum(),
}
PRODUCTS = {
    "matmul": lambda x, mask: x[mask] @ torch.ones(6),
    "mv": lambda x, mask: x[mask].mv(torch.ones(6)),
    "mm": lambda x, mask: x[mask] @ torch.ones(6, 3),
    "two_masks": lambda x, mask: x[mask].t() @ (x * 2)[mask],
}
REFUSED = {
    "kron": lambda x, mask: torch.kron(x[mask], x[mask]),
    "einsum": lambda x, mask: torch.einsum("ij,ij->j", x[mask], x[:3]),
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", CHECKED)
def test_what_an_operator_checks_is_asserted(name, requires_grad):
    warned_of(CHECKED[name], (6, 4, 0, 1, 2, 3, 8), requires_grad)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", ASSUMED)
def test_sizes_below_two(name, requires_grad):
    assert warned_of(ASSUMED[name], (5, 3, 1, 0, 2, 4), requires_grad) == []
    assert captures() == 1


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients_of_products(name, requires_grad):
    """Their backward passes read the size of the gradient that they get."""
    assert warned_of(PRODUCTS[name], (5, 3, 1, 0, 2, 4), requires_grad) == []
    assert captures() == 1


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_a_graph_that_needs_the_value_of_a_size_runs_without_the_backend(name, requires_grad):
    counts = (3, 1) if name == "einsum" else (5, 3, 1, 0)
    shown = warned_of(REFUSED[name], counts, requires_grad)
    assert len(shown) == 1
    assert "depends on data" in shown[0]
    assert captures() == 1


def test_unbacked_sizes_of_inputs():
    def fn(x):
        return x.narrow(0, 0, 2)

    compiled = stator.compile(fn, backend="aot_eager")
    for n in (5, 3, 2, 1, 0):
        x = torch.ones(n, 6)
        stator.mark_unbacked(x, 0)
        try:
            made = compiled(x)
        except RuntimeError as error:
            made = str(error).partition("\nException raised from")[0]
        try:
            expected = fn(x)
        except RuntimeError as error:
            expected = str(error).partition("\nException raised from")[0]
        assert_same(made, expected)


def test_the_asserts_are_nodes_that_passes_keep():
    seen = []

    def backend(gm, example_inputs):
        gm.graph.eliminate_dead_code()
        gm.recompile()
        seen.extend(node for node in gm.graph.nodes if node.target is torch.ops.aten._assert_scalar.default)
        return torch.fx.Interpreter(gm).run

    def fn(x, mask):
        return x[mask].narrow(0, 0, 3) * 2

    compiled = stator.compile(fn, backend=backend)
    data = torch.randn(ROWS, 6)
    for n in (5, 3, 2, 1, 0):
        assert_same(outcome(compiled, data, rows_of(n)), outcome(fn, data, rows_of(n)))
    assert len(seen) >= 2
    assert all(node.args[1] == MESSAGE for node in seen)
    assert captures() == 1


def test_a_failed_assert_undoes_what_the_graph_wrote():
    def fn(x, mask, count):
        count.add_(1)
        return x[mask].std(0)

    compiled = stator.compile(fn, backend="aot_eager")
    mine, theirs = torch.zeros(2), torch.zeros(2)
    for n in (5, 1, 0, 3):
        data = torch.randn(ROWS, 6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert_same(compiled(data, rows_of(n), mine), fn(data, rows_of(n), theirs))
        assert_same(mine, theirs)
    assert captures() == 1


def test_a_graph_that_cannot_undo_its_writes_runs_without_the_backend():
    def fn(x, mask, large):
        large.add_(1)
        return x[mask].t().contiguous()

    compiled = stator.compile(fn, backend="aot_eager")
    mine, theirs = torch.zeros(300, 300), torch.zeros(300, 300)
    data = torch.randn(ROWS, 6)
    with pytest.warns(UserWarning, match=WITHOUT):
        assert_same(compiled(data, rows_of(5), mine), fn(data, rows_of(5), theirs))
    for n in (1, 0, 3):
        assert_same(compiled(data, rows_of(n), mine), fn(data, rows_of(n), theirs))
        assert_same(mine, theirs)


def by_branch(x, mask):
    return torch.cond(x.sum() > 0, lambda m: m * 2, lambda m: m + 1, (x[mask],))


def views_in_branches(x, mask):
    rows = mask.nonzero()
    return torch.cond(x.sum() > 0, lambda m: m + torch.arange(3), lambda m: m * torch.arange(3), (rows,))


@pytest.mark.parametrize("backend", ["reference", "eager", "aot_eager"])
@pytest.mark.parametrize("fn", [by_branch, views_in_branches])
@pytest.mark.parametrize("sign", [1, -1])
def test_branches_that_get_rows_of_data(fn, backend, sign):
    compiled = stator.compile(fn, backend=backend)
    data = torch.rand(ROWS, 6, generator=torch.Generator().manual_seed(0)) * sign
    for n in (5, 3, 1, 0, ROWS, 2):
        assert_same(compiled(data.clone(), rows_of(n)), fn(data.clone(), rows_of(n)), f"{n}")
    assert captures() == 1


def part_of(fn):
    return lambda x, mask: torch.utils.checkpoint.checkpoint(fn, x, mask, use_reentrant=False)


PARTS = [
    lambda x, mask: x[mask].sin() + torch.ones(3, 1),
    lambda x, mask: (x[mask] * 2).view(3, -1),
    lambda x, mask: x[mask][:, :1].expand(-1, 4).contiguous(),
    lambda x, mask: x[mask].t() @ x[mask],
    lambda x, mask: x[mask].cumsum(0).unsqueeze(0).mean(1),
]


@pytest.mark.parametrize("fn", PARTS)
def test_rows_of_data_in_checkpointed_parts(fn):
    """With torch's assumptions about such sizes, a row of one would not broadcast, and 3 rows would be any number."""
    compiled = stator.compile(part_of(fn), backend="aot_eager")
    data = torch.randn(ROWS, 6, generator=torch.Generator().manual_seed(0))
    for n in (3, 1, 0, 6, 2, 3):
        mine, theirs = (data.clone().requires_grad_() for _ in range(2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            actual = outcome(compiled, mine, rows_of(n))
        expected = outcome(part_of(fn), theirs, rows_of(n))
        if isinstance(expected[0], type):
            assert actual == expected, f"{n}"
            continue
        for a, b in zip(actual, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
