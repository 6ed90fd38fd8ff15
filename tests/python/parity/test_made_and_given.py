"""`random.Random(seed)` that a program makes, and views of dicts that it gets."""

import copy
import random

import pytest
import torch

import stator
from tests.python.helpers import captures, check_parity

x = torch.arange(4.0)


def draws(a):
    numbers = random.Random(7)
    order = list(range(4))
    numbers.shuffle(order)
    return a[order] * numbers.random() + numbers.uniform(1, 2) - numbers.gauss(0, 1), numbers.choice("abc")


def seeded_by_float(a):
    numbers = random.Random(2.5)
    return a * numbers.randint(1, 9), numbers.sample(range(100), 5), numbers.getrandbits(70)


def seeded_again(a):
    numbers = random.Random(1)
    first = numbers.random()
    state = numbers.getstate()
    second = numbers.random()
    numbers.setstate(state)
    again = numbers.random()
    numbers.seed(1)
    return a + 1, first, second == again, numbers.random() == first


def by_number(a, seed):
    return a * random.Random(seed).random()


@pytest.mark.parametrize("program", [draws, seeded_by_float, seeded_again])
def test_in_one_graph(program):
    check_parity(program, (x,), (x + 1,), (x * 2,), graphs=1, fullgraph=True)


def test_the_seed_is_guarded():
    check_parity(by_number, (x, 1), (x, 2), (x, 1), fullgraph=True)


def test_the_generator_is_returned_with_its_state():
    def program(a):
        numbers = random.Random(3)
        numbers.gauss(0, 1)
        return a * numbers.random(), numbers

    compiled = stator.compile(program, fullgraph=True)
    for _ in range(2):
        (mine, left), (plain, expected) = compiled(x), program(x)
        assert torch.equal(mine, plain) and type(left) is random.Random
        assert left.getstate() == expected.getstate() and left.gauss(0, 1) == expected.gauss(0, 1)
    assert captures() == 1


def test_the_generator_survives_a_break():
    def program(a):
        numbers = random.Random(3)
        first = numbers.random()
        stator.graph_break()
        return a * first + numbers.random(), numbers.random()

    check_parity(program, (x,), (x + 1,))


def test_generators_from_outside_and_without_seed():
    outside = random.Random(5)

    def program(a):
        return a * outside.random()

    compiled = stator.compile(program)
    plain = random.Random(5)
    for _ in range(3):
        assert torch.equal(compiled(x), x * plain.random())

    def unseeded(a):
        return a + 1, random.Random().random()

    compiled = stator.compile(unseeded)
    assert compiled(x)[1] != compiled(x)[1]


def test_views_from_outside():
    def program(a, keys, values, items):
        total = a
        for key, value in zip(keys, values):
            total = total + value * len(key)
        return total, list(keys), "b" in keys, len(items), [(key, value * 2) for key, value in items], keys

    compiled = stator.compile(program, fullgraph=True)
    for table in ({"a": x, "bb": x + 1}, {"a": x * 3, "bb": x}, {"b": x}, {}):
        mine = compiled(x, table.keys(), table.values(), table.items())
        plain = program(x, table.keys(), table.values(), table.items())
        assert torch.equal(mine[0], plain[0]) and mine[1:4] == plain[1:4]
        assert [key for key, _ in mine[4]] == [key for key, _ in plain[4]]
        assert mine[5] == plain[5] and type(mine[5]) is type(plain[5])
        table["new"] = x
        assert "new" in mine[5]
    assert captures() == 3


def test_a_dict_changes_behind_its_view():
    def program(a, table, keys):
        table["more"] = a
        before = list(keys)
        del table["more"]
        return a + 1, before, list(keys)

    compiled = stator.compile(program, fullgraph=True)
    for _ in range(2):
        table, other = {"a": 1}, {"a": 1}
        assert compiled(x, table, table.keys())[1:] == program(x, other, other.keys())[1:]
    table = {"a": 1}
    assert compiled(x, table, {"a": 1}.keys())[1:] == (["a"], ["a"])
    sub = type("Sub", (dict,), {})(a=1)
    assert stator.compile(program)(x, sub, sub.keys())[1:] == (["a", "more"], ["a"])


def test_a_class_is_written_behind_the_view_of_its_names():
    class Held:
        first = 1

    def program(a, names):
        Held.second = 2
        found = "second" in names
        del Held.second
        return a + 1, found

    def compared(fn):
        return fn(x, vars(Held).keys())[1]

    compiled = stator.compile(program)
    for _ in range(2):
        assert compared(compiled) is compared(program) is True


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copied_generator_goes_its_own_way(copied):
    def program(a):
        numbers = random.Random(3)
        other = copied(numbers)
        return a + 1, numbers.random(), other.random(), numbers.random(), bool(numbers), numbers == other

    check_parity(program, (x,), (x,))
