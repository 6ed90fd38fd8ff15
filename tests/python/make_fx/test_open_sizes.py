"""Sizes out of numbers and of data, as torch's tests of make_fx use them (docs/make_fx_scenarios.md)."""

import pytest
import torch

import stator
from tests.python.make_fx.helpers import calls

tensor = torch.tensor


def rows(*size):
    return torch.linspace(-1, 1, torch.Size(size).numel()).view(size)


def symbolic(program, args):
    return stator.make_fx(program, tracing_mode="symbolic")(*args)


def shapes_that_fit(x, y):
    return torch.broadcast_shapes(x.size(), y.size()[0]), torch.zeros(x.shape[0])


def product_of_items(a, b, c):
    a, b, c = a.item(), b.item(), c.item()
    return torch.cat([torch.ones(a * c), torch.zeros(b * c)]).view(a + b, c)


def a_size_as_an_element(x):
    x = x.clone()
    x[0] = x.size(0)
    return x


def divided_in_another_order(n):
    return torch.ones(n.item(), 4, 20).transpose(2, 1).reshape(-1, 80)


def a_divisor_that_is_prime_to_the_factor(n):
    n = n.item()
    torch._check(n > 0)
    torch._check(n <= 448)
    return torch.ones(256 * n).view(-1, 447)


def equal_to_a_size(n, y):
    made = torch.zeros(n.item())
    torch._check(made.size(0) == y.size(0))
    return y * 2 if made.size(0) == 4 else y + 2


def equal_by_another(n, m, y):
    first, second = torch.zeros(n.item()), torch.zeros(m.item())
    torch._check(first.size(0) == second.size(0))
    torch._check(second.size(0) == y.size(0))
    return y * 2 if first.size(0) == 4 else y + 2


def items_that_depend(a, b, c, y):
    a = a.item()
    torch._check(a // 9 == 1)
    b, c = b.item(), c.item()
    torch._check(a == b + c)
    return y * 2


PAIR, NUMBER = tensor([[1, 2], [3, 4]]), rows(1)
# The program, the arguments of the trace, and those of another run.
PROGRAMS = {
    "an integer argument": (lambda x, n: x.view(n), (rows(3, 4), 12), (rows(5, 2), 10)),
    "shapes that fit": (shapes_that_fit, (rows(3, 1), rows(5)), (rows(4, 1), rows(7))),
    "repeats that are data": (
        lambda x, n: x.repeat_interleave(n, dim=1),
        (PAIR, tensor([2, 3])),
        (PAIR, tensor([1, 4])),
    ),
    "how many repeats": (
        lambda n, x: x.repeat_interleave(n, dim=0, output_size=n.sum().item()),
        (tensor([2, 3]), rows(2)),
        (tensor([1, 5]), rows(2)),
    ),
    "a product of items": (product_of_items, (tensor(30), tensor(20), tensor(10)), (tensor(3), tensor(4), tensor(5))),
    "a sum along another dimension": (lambda n: torch.ones(3, n.item(), 3).cumsum(0), (tensor([5]),), (tensor([2]),)),
    "a range": (lambda n: torch.arange(0, n), (tensor(10),), (tensor(4),)),
    "a size as an element": (a_size_as_an_element, (rows(10),), (rows(4),)),
    "divided in another order": (divided_in_another_order, (tensor(24),), (tensor(3),)),
    "divided by a part": (lambda n: torch.ones(n.item(), 192).view(12, -1, 192), (tensor(24),), (tensor(36),)),
    "a divisor that is prime to the factor": (a_divisor_that_is_prime_to_the_factor, (tensor(447),), (tensor(447),)),
    "equal to a size": (equal_to_a_size, (tensor(10), rows(10)), (tensor(7), rows(7))),
    "equal by another": (equal_by_another, (tensor(10), tensor(10), rows(10)), (tensor(7), tensor(7), rows(7))),
    "items that depend": (
        items_that_depend,
        (tensor(10), tensor(5), tensor(5), NUMBER),
        (tensor(12), tensor(6), tensor(6), NUMBER),
    ),
    "a tensor as a size": (lambda n: torch.zeros([n]), (tensor(4),), (tensor(2),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_out_of_numbers_and_data(name):
    program, first, second = PROGRAMS[name]
    module = symbolic(program, first)
    for args in (first, second):
        torch.testing.assert_close(module(*args), program(*args))


def test_what_a_program_checks_is_checked_in_each_run():
    module = symbolic(items_that_depend, PROGRAMS["items that depend"][1])
    assert calls(module).count("_assert_scalar.default") == 2
    with pytest.raises(RuntimeError):
        module(tensor(20), tensor(10), tensor(10), NUMBER)
    module = symbolic(equal_to_a_size, PROGRAMS["equal to a size"][1])
    with pytest.raises(RuntimeError):
        module(tensor(7), rows(8))


@pytest.mark.parametrize(
    ("program", "args"),
    [
        (lambda n, y: torch.zeros(n.item()) + y, (tensor(10), rows(10))),
        (lambda n, x: torch.split(x, [n[i].item() for i in range(3)]), (tensor([2, 3, 4]), rows(9))),
    ],
)
def test_sizes_of_data_that_must_fit_are_refused(program, args):
    with pytest.raises(RuntimeError, match="a size depends on data"):
        symbolic(program, args)
