"""Tensors cut at positions that are integers of other tensors; combinations and histograms of known shape."""

import pytest
import torch

import stator
from tests.python.helpers import captures
from tests.python.parity.corpus.observe import Walk, difference, gradients


def observe(fn, args):
    walk = Walk()
    seen = {"raised": None}
    result = None
    try:
        result = fn(*args)
    except Exception as error:
        seen["raised"] = walk.describe(error)
    return seen | {
        "arguments": walk.describe(list(args)),
        "result": walk.describe(result),
        "gradients": gradients(walk, result),
    }


def check(fn, *calls, **settings):
    compiled = stator.compile(fn, **settings)
    for call in calls:
        mine, plain = ([item.clone() if isinstance(item, torch.Tensor) else item for item in call] for _ in range(2))
        for args in (mine, plain):
            args[0] = args[0].detach().requires_grad_(args[0].is_floating_point())
        assert difference(observe(compiled, mine), observe(fn, plain)) is None


x = torch.arange(30.0).reshape(5, 6)
one, two, last = torch.tensor(1), torch.tensor(2), torch.tensor(-2)
ends, other_ends = torch.tensor([1, 3]), torch.tensor([2, 2])

CUTS = {
    "narrow": (lambda a, at: a.narrow(1, at, 2) * 2, [one, two, last, one]),
    "narrow_by_name": (lambda a, at: torch.narrow(a, 0, length=2, start=at) + 1, [one, two]),
    "narrow_of_int32": (lambda a, at: a.narrow(0, at.int(), 2), []),
    "sections": (lambda a, at: [part * 2 for part in torch.tensor_split(a, at)], [two, one, two]),
    "sections_by_name": (lambda a, at: a.tensor_split(tensor_indices_or_sections=at, dim=1), [two, torch.tensor(4)]),
    "indices": (lambda a, at: [part + 1 for part in a.tensor_split(at, 1)], [ends, other_ends, ends]),
    "one_index": (lambda a, at: torch.tensor_split(a, at), [torch.tensor([2])]),
    "no_index": (lambda a, at: torch.tensor_split(a, at), [torch.tensor([], dtype=torch.int64)]),
    "every_second": (lambda a, at: torch.tensor_split(a, at[::1]), []),
}


@pytest.mark.parametrize("name", [name for name, (_, given) in CUTS.items() if given])
def test_in_one_graph(name):
    program, given = CUTS[name]
    check(program, *((x, at) for at in given), fullgraph=True)
    assert captures() == len({str(at) for at in given})


@pytest.mark.parametrize("name", CUTS)
def test_with_breaks(name):
    program, given = CUTS[name]
    check(program, *((x, at) for at in given or [one]))


def test_errors_are_the_programs():
    def program(a, at):
        try:
            return a.narrow(0, at, 4)
        except RuntimeError as error:
            return str(error)

    check(program, (x, torch.tensor(0)), (x, two), (x, torch.tensor([1, 2])), (x, torch.tensor(1.0)))


def test_a_written_position_is_read_again():
    def program(a, at):
        at.add_(1)
        return a.narrow(0, at, 2)

    check(program, (x, one), (x, two), (x, one))


@pytest.mark.parametrize("count", [1, 2, 3, 6])
@pytest.mark.parametrize("repeats", [False, True])
def test_combinations(count, repeats):
    def program(a):
        return torch.combinations(a, count, repeats) * 2

    check(program, (x[0],), (x[1],), (x[0, :3],), (x[0, :0],), fullgraph=True)


HISTOGRAMS = {
    "counts": lambda a: torch.histogramdd(a.detach(), [3, 2]),
    "one_count": lambda a: torch.histogramdd(a.detach(), 4, range=[0.0, 9.0, 1.0, 8.0], density=True),
    "edges": lambda a: torch.histogramdd(a.detach(), [torch.tensor([0.0, 4.0, 20.0]), torch.tensor([1.0, 30.0])]),
    "tracked": lambda a: torch.histogramdd(a, [3, 2]).hist.detach(),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms(name):
    columns = x[:, :2]
    batched = torch.rand(2, 4, 2)
    check(HISTOGRAMS[name], (columns,), (batched,), (columns * 2,), fullgraph=True)
    check(HISTOGRAMS[name], (x[:, :3],), (x[0],), (columns / 0,))


def test_values_of_torch_are_the_same_objects():
    def program(a, dtype=torch.float32, layout=torch.strided, memory=torch.preserve_format):
        answers = (
            dtype is torch.float32,
            layout is not torch.strided,
            a.layout is layout,
            memory is torch.preserve_format,
            a.dtype is dtype,
        )
        return a * 2, answers

    compiled = stator.compile(program, fullgraph=True)
    for args in ((), (torch.float64,), (torch.float32, torch.sparse_coo), (torch.float32,)):
        assert compiled(x, *args)[1] == program(x, *args)[1]
