"""Class statements are captured in one graph, and every call of the program makes new classes."""

import enum
import functools
import weakref

import pytest
import torch

import stator
from tests.python.helpers import captures, collect
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


class Colour(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1


class Right(enum.IntFlag):
    READ = 1
    WRITE = 2


class WithItems(type):
    def __iter__(cls):
        yield from cls.items

    def __reversed__(cls):
        return [*cls.items][::-1]


class Listed(metaclass=WithItems):
    items = (1, 2, 3)


class NotIterable(metaclass=type("Meta", (type,), {"__iter__": lambda cls: [1]})):
    pass


def error_of(run):
    try:
        return run()
    except Exception as error:
        return type(error).__name__, str(error)


# Parts of programs that use classes which are iterable, and enumerations that the program makes.
PARTS = {
    "members": lambda: ([m.name for m in Colour], list(Colour), [*Right], dict(zip(Colour, Right, strict=True))),
    "reversed": lambda: (list(reversed(Colour)), reversed(Listed), sorted(Right, reverse=True)),
    "made members": lambda: [(m.name, m.value) for m in enum.Enum("C", ["A", "B"])],
    "next": lambda: (next(iter(Colour)), sum(Listed), max(Listed)),
    "flags of a flag": lambda: [m.name for m in Right(3)],
    "no iterator": lambda: error_of(lambda: list(NotIterable)),
    "made by value": lambda: [(c.B.value, c["A"].name, c(2).name, len(c)) for c in [enum.Enum("C", "A B")]],
    "made of ints": lambda: [(c.B + 1, c.A < c.B, c.A == 1) for c in [enum.IntEnum("C", "A,B")]],
    "made of pairs": lambda: [(c.A.value, str(c.A), repr(c.B)) for c in [enum.Enum("C", {"A": 3, "B": "b"}, start=4)]],
    "made with names": lambda: [
        (c.__module__, c.__qualname__) for c in [enum.Enum("C", "A", module="m", qualname="q.C"), enum.Enum("C", "A")]
    ],
    "made flags": lambda: [((c.A | c.B).value, bool(c.A & c.B), c(3)) for c in [enum.Flag("C", "A B")]],
    "made keys": lambda: [({c.A: 1.0, c.B: 2.0}[c.B], isinstance(c.A, c), c.A in c) for c in [enum.Enum("C", "A B")]],
    "made twice": lambda: enum.Enum("C", "A").A == enum.Enum("C", "A").A,
    "made and compared": lambda: [(c.A is c.A, c.A is c["A"], c.A == c.B) for c in [enum.Enum("C", "A B")]],
    "no such member": lambda: error_of(lambda: enum.Enum("C", "A B")(7)),
    "same name twice": lambda: error_of(lambda: enum.Enum("C", "A A")),
}


@pytest.mark.parametrize("name", PARTS)
def test_enumerations(name):
    part = PARTS[name]
    compiled = stator.compile(lambda a: (a * 2, part()), fullgraph=True)
    for _ in range(2):
        doubled, found = compiled(x)
        assert torch.equal(doubled, x * 2)
        assert repr(found) == repr(part())
    assert stator.counters()["cache"]["hits"] == 1


def test_a_class_that_counts_iterations():
    class Counting(type):
        def __iter__(cls):
            cls.count += 1
            return iter((1, 2))

    class Counted(metaclass=Counting):
        count = 0

    compiled = stator.compile(lambda a: a * sum(Counted) + len([*Counted]), fullgraph=True)
    for i in range(4):
        assert torch.equal(compiled(x), x * 3 + 2)
        assert Counted.count == 2 * (i + 1)
    assert stator.counters()["cache"]["hits"] == 2


def test_made_enumerations_are_returned():
    def make(a):
        made = enum.Enum("Made", "A B")
        return a + 1, made, made.B, [made.A]

    compiled = stator.compile(make, fullgraph=True)
    results = [compiled(x) for _ in range(3)]
    for summed, made, member, members in results:
        assert torch.equal(summed, x + 1)
        assert member is made.B and members == [made.A] and made.__module__ == __name__
        assert [(m.name, m.value) for m in made] == [("A", 1), ("B", 2)]
    assert len({id(made) for _, made, _, _ in results}) == 3
    assert stator.counters()["cache"]["hits"] == 2


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


def test_combinations_of_flags_of_a_made_enumeration():
    def fn(a, n):
        made = enum.IntFlag("Right", {"r": 1, "w": 2})
        both, same = made.r | made.w, made(3)
        stator.graph_break()
        return a + both, both, same, made, made.r in same, type(both) is made, both is same, made.r | n

    def seen(result):
        total, both, same, made, *rest = result
        return total.tolist(), repr(both), type(both) is made, type(same) is made, made(3) is both, repr(rest)

    compiled = stator.compile(fn)
    for n in (1, 2, 1, 2):
        assert seen(compiled(x, n)) == seen(fn(x, n))
    assert captures() > 0
