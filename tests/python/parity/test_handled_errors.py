"""Errors that the program handles are captured in one graph, with the plain program's messages."""

import collections
import dataclasses
import functools
import itertools
import operator
import struct
import sys

import pytest
import torch

import stator


class Bare:
    pass


class Wrong:
    """Each of its methods returns a wrong type."""

    def __hash__(self):
        return "text"

    def __str__(self):
        return 1

    def __repr__(self):
        return 2

    def __format__(self, spec):
        return 3

    def __index__(self):
        return 1.5


class Nothing:
    __iter__ = None


class Enters:
    def __enter__(self):
        return self


class First(type):
    pass


class Second(type):
    pass


class OfFirst(metaclass=First):
    pass


class OfSecond(metaclass=Second):
    pass


@dataclasses.dataclass
class Data:
    a: int = 1


Pair = collections.namedtuple("Pair", "p q")

NAMES = {
    "collections": collections,
    "function": lambda *args: args,
    "functools": functools,
    "itertools": itertools,
    "operator": operator,
    "torch": torch,
    **{cls.__name__: cls for cls in (Bare, Wrong, Nothing, Enters, OfFirst, OfSecond, Data, Pair)},
}

LANGUAGE = [
    "hash(Wrong())",
    "[1][Wrong()]",
    "{Wrong(): 1}",
    "str(Wrong())",
    "repr(Wrong())",
    "f'{Wrong()}'",
    "f'{Bare():>3}'",
    "iter(Nothing())",
    "Bare() in 'text'",
    "[*3]",
    "{**3}",
    "a, b = 3",
    "a, b = Bare()",
    "a, *b = Bare()",
    "max(1, 2, default=3)",
    "min(1, 2, default=3)",
    "sum(['a'], '')",
    "sum([b'a'], b'')",
    "getattr(Bare(), 3)",
    "hasattr(Bare(), 3)",
    "setattr(Bare(), 3, 4)",
    "isinstance(1, [int])",
    "isinstance(1, 3)",
    "'a' + Bare()",
    "[1] + Bare()",
    "(x,) + Bare()",
    "Bare() * [x]",
    "[x] * Bare()",
    "[x] * 1.5",
    "None * [x]",
    "Bare()()",
    "3()",
    "None()",
    "Bare()[0]",
    "Bare()[0:1]",
    "Bare()[0] = 1",
    "del Bare()[0]",
    "with Bare(): pass",
    "with 3: pass",
    "with Enters(): pass",
    "Bare(1)",
    "object.__new__(Bare, 1)",
    "object.__init__(Bare(), 1)",
    "type(1, 2)",
    "super(Bare, Data()).x",
    "reversed(Bare())",
    "Data(1, 2)",
    "Data(z=1)",
    "Pair(1)",
    "raise",
    "list(map(3, [1]))",
    "[3].sort(key=3)",
    "functools.partial(3)",
    "collections.defaultdict(3)",
    "operator.attrgetter(3)",
    "operator.attrgetter('a', 3)",
    "operator.methodcaller(3)",
    "class Made(Bare, Bare): pass",
    "class Made(object, Bare): pass",
    "class Made(OfFirst, OfSecond): pass",
    "class Made(Bare, key=1): pass",
]

TORCH = [
    "x.view(9)",
    "x + torch.ones(9)",
    "x.add_(torch.ones(9))",
    "x[9]",
    "x[0, 0, 0]",
    "x.sum(dim=7)",
    "torch.add(x)",
    "torch.add(x, 'a')",
    "torch.stack([x, torch.ones(5)])",
    "torch.cat([x, 3])",
    "x.reshape('a')",
    "x.t(3)",
    "x + 'a'",
    "'a' + x",
    "x + None",
    "torch.ones(2, dtype=3)",
    "torch.nn.functional.softmax(x, dim=9)",
]


# Errors whose message CPython makes before it looks at the arguments, or which follow from literals.
ARGUMENTS = """
len()
len(1, 2)
max()
sorted([1], 2)
map()
filter()
enumerate()
range()
slice()
id()
getattr(1)
callable()
object(5)
len.__call__()
itertools.repeat()
enumerate([1], "a")
[1].pop("a")
[1].insert("a", 1)
reversed({1})
setattr(1, "foo", 2)
delattr("a", "foo")
issubclass(1, int)
issubclass(int, 3)
[](1)
{}(1)
(1, 2)()
function(*5)
len(*None)
"é".encode("ascii")
b"\\xff".decode("utf8")
type("A", 5, {})
int(x[:2])
float(torch.ones(2))
bool(torch.ones(0))
torch.ones(2).item()
len(torch.tensor(1))
list(torch.tensor(1))
torch.tensor("a")
torch.tensor([[1], [1, 2]])
torch.tensor([1, "a"])
torch.tensor(None)
torch.dtype("float")
torch.layout()
type(iter([]))()
type(type.__dict__)()
""".strip().splitlines()

# Errors of operators whose shape functions have messages of their own.
OPERATORS = """
torch.ones(2, 3) @ torch.ones(2, 3)
torch.mm(torch.ones(2, 3), torch.ones(2))
torch.bmm(torch.ones(2, 3), torch.ones(2, 3))
torch.cat([])
torch.cat([torch.ones(2, 3), torch.ones(3, 4)])
torch.ones(2, 3).permute(0)
torch.ones(2, 3).expand(5, 5)
torch.ones(2, 3).repeat(1)
torch.ones(2, 3).split([1, 5], 0)
torch.ones(2, 3).masked_select(torch.ones(2))
torch.zeros(-1)
torch.eye(-1)
torch.dot(torch.ones(2, 3), torch.ones(2, 3))
torch.nn.functional.linear(torch.ones(2, 3), torch.ones(2, 7))
torch.nn.functional.conv1d(torch.ones(1, 2, 5), torch.ones(3, 4, 2))
torch.nn.functional.layer_norm(torch.ones(2, 3), (7,))
torch.nn.functional.pad(x, (1, 1), mode="foo")
torch.nn.Linear(2, 3)(torch.ones(7))
""".strip().splitlines()


def program(statement):
    text = f"""
def program(x):
    before, error = x * 2, None
    try:
        {statement}
    except Exception as caught:
        error = type(caught).__name__, str(caught), caught.args
    return before + 1, error
"""
    scope = dict(NAMES)
    exec(compile(text, "program", "exec"), scope)
    return scope["program"]


@pytest.mark.parametrize("statement", LANGUAGE + TORCH + ARGUMENTS + OPERATORS)
def test_one_graph(statement):
    fn = program(statement)
    compiled = stator.compile(fn, fullgraph=True)
    for x in (torch.arange(4.0), torch.arange(4.0) + 1, torch.arange(3.0)):
        expected, error = fn(x.clone())
        given = x.clone()
        result, seen = compiled(given)
        assert error is not None
        assert seen == error
        assert torch.equal(result, expected)
        assert torch.equal(given, x)


def test_a_write_that_fails_in_the_middle_is_none():
    def fn(x, y):
        x = x + 1
        try:
            x.mul_(y).add_(torch.ones(7))
        except RuntimeError as error:
            return x, str(error)
        return x, None

    compiled = stator.compile(fn, fullgraph=True)
    for n in (1.0, 2.0):
        x, y = torch.full((3,), n), torch.full((3,), n + 1)
        assert repr(compiled(x, y)) == repr(fn(x, y))


BROKEN = """
from torch import stator_absent_name
from math import stator_absent_name
x.__len__(3)
x.__iter__(3)
""".strip().splitlines()


@pytest.mark.parametrize("statement", BROKEN)
def test_breaks(statement):
    """Not captured in one graph; the program sees the error of the plain program."""
    fn = program(statement)
    compiled = stator.compile(fn)
    for x in (torch.arange(4.0), torch.arange(4.0) + 1):
        assert fn(x)[1] is not None
        assert repr(compiled(x)) == repr(fn(x))


def test_data_that_only_zeros_lack():
    """An error that torch raises only for zeros is not an error of the program."""

    def fn(x):
        try:
            return torch.linalg.inv(x), None
        except RuntimeError as error:
            return x, str(error)

    compiled = stator.compile(fn)
    for x in (torch.eye(3) * 2, torch.zeros(3, 3), torch.eye(3)):
        assert repr(compiled(x)) == repr(fn(x))


def test_an_error_that_names_the_data():
    """The message has the elements of the tensor."""

    def fn(x):
        try:
            return torch.meshgrid(x), None
        except RuntimeError as error:
            return x, str(error)

    compiled = stator.compile(fn)
    for n in (1.0, 2.0):
        x = torch.full((2, 2), n)
        assert repr(compiled(x)) == repr(fn(x))


FIELDS = """
b"\\xff".decode("utf8"); error.start, error.end, error.reason, error.encoding, error.object
"é".encode("ascii"); error.start, error.object, error.reason
int("z"); error.args
import stator_absent_module; error.name, error.path, error.msg, str(error)
struct.unpack("<i", b"a"); str(error), type(error).__name__
next(iter([])); error.value
""".strip().splitlines()


@pytest.mark.parametrize("line", FIELDS)
def test_fields(line):
    statement, fields = line.split("; ")
    scope = {"struct": struct}
    text = f"""
def fn(x):
    try:
        {statement}
    except Exception as error:
        return x + 1, {fields}
"""
    exec(compile(text, "program", "exec"), scope)
    fn = scope["fn"]
    compiled = stator.compile(fn, fullgraph=True)
    for x in (torch.ones(2), torch.ones(3)):
        assert repr(compiled(x)) == repr(fn(x))


def test_a_module_that_the_first_call_imports(tmp_path, monkeypatch):
    """Its import is a graph break. Later calls do not break there."""

    def fn(x):
        y = x + 1
        import stator_late_module as late

        return y * late.SCALE

    (tmp_path / "stator_late_module.py").write_text("SCALE = 3.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def backend(gm, example_inputs):
        return lambda *inputs: (runs.append(gm), gm(*inputs))[1]

    runs = []
    compiled = stator.compile(fn, backend=backend)
    try:
        for x in (torch.ones(2), torch.ones(2) * 2, torch.ones(2) * 3):
            runs.clear()
            assert torch.equal(compiled(x), (x + 1) * 3)
        assert len(runs) == 1, "one graph holds the entire call"
    finally:
        sys.modules.pop("stator_late_module", None)


def test_an_optional_module(tmp_path, monkeypatch):
    """It is absent in the first calls, and installed later."""

    def fn(x):
        try:
            import stator_optional_module as optional
        except ImportError as error:
            return x + 1, str(error), error.args
        return x * optional.SCALE, None, None

    compiled = stator.compile(fn, fullgraph=True)
    for x in (torch.ones(2), torch.ones(3)):
        assert repr(compiled(x)) == repr(fn(x))
    (tmp_path / "stator_optional_module.py").write_text("SCALE = 3.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    compiled = stator.compile(fn)
    try:
        for x in (torch.ones(2), torch.ones(3)):
            assert repr(compiled(x)) == repr(fn(x))
    finally:
        sys.modules.pop("stator_optional_module", None)
    monkeypatch.undo()
    for x in (torch.ones(2), torch.ones(3)):
        assert repr(compiled(x)) == repr(fn(x))
