"""Class statements are captured in one graph, and every call of the program makes new classes."""

import functools
import weakref

import pytest
import torch

import stator
from tests.python.helpers import collect
from tests.python.parity.corpus import run
from tests.python.parity.corpus.observe import difference

x = torch.arange(3.0)
BREAKS = {"classes_and_breaks"}  # prints
GROWS = {"told_to_the_base"}  # grows a list of its module, so each call needs a new entry


def collecting(compiled):
    """Calls the program with an empty cache."""

    @functools.wraps(compiled)
    def call(*args):
        collect()
        return compiled(*args)

    return call


@pytest.mark.parametrize("name", [n for n in run.names("class_statements") if n not in BREAKS])
def test_in_one_graph(name):
    expected = run.run("class_statements", name)
    seen = run.run("class_statements", name, lambda fn: collecting(stator.compile(fn, fullgraph=True)))
    assert difference(seen, expected) is None
    assert stator.counters()["cache"]["hits"] >= 1 or name in GROWS


def test_each_call_makes_its_own_class():
    def make(a):
        class Made:
            held = a + 1

            def get(self):
                return self.held, Made, __class__

        return Made, Made()

    compiled = stator.compile(make, fullgraph=True)
    (first, one), (second, two) = compiled(x), compiled(x + 1)
    assert first is not second and type(one) is first and type(two) is second
    assert one.get()[1:] == (first, first) and two.get()[1:] == (second, second)
    assert torch.equal(one.get()[0], x + 1) and torch.equal(two.get()[0], x + 2)
    assert stator.counters()["cache"]["hits"] == 1


def test_a_base_knows_no_other_subclasses():
    class Base:
        pass

    def make(a):
        class Made(Base):
            pass

        return a * 2, Made

    compiled = stator.compile(make, fullgraph=True)
    kept = [compiled(x)[1] for _ in range(3)]
    collect()
    assert sorted(map(id, Base.__subclasses__())) == sorted(map(id, kept))
    del kept
    collect()
    assert not Base.__subclasses__()


def test_a_program_that_is_dropped_dies():
    def make_program():
        class Base:
            pass

        def program(a):
            class Made(Base):
                def get(self):
                    return a * 2

            return Made().get()

        return program, Base

    program, base = make_program()
    stator.compile(program)(x)
    watched = weakref.ref(base)
    del program, base
    collect()
    assert watched() is None


@pytest.mark.parametrize(
    "look",
    [
        lambda made: "held" in vars(made),
        lambda made: sorted(made.__dict__)[0],
    ],
)
def test_an_examined_class_dies(look):
    refs = []

    def make(a):
        class Made:
            held: int = 3

            def get(self):
                return self.held

        refs.append(weakref.ref(Made))
        stator.graph_break()
        return a * 2, look(Made)

    compiled = stator.compile(make)
    for _ in range(3):
        assert compiled(x)[1] == make(x)[1]
    collect()
    assert [ref() for ref in refs] == [None] * 6


def test_names_of_a_class_behind_a_break():
    class Outer:
        held = 1

    def fn(a, how):
        names = vars(Outer)
        stator.graph_break()
        return a + 1, names["held"], names is vars(Outer), type(names), Outer.__dict__ == names, how in names

    compiled = stator.compile(fn)
    for how in ("held", "other", "held"):
        assert repr(compiled(x, how)) == repr(fn(x, how))
    Outer.other = 2
    assert repr(compiled(x, "other")) == repr(fn(x, "other"))
