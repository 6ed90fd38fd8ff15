"""Operators between built-in containers, views and numbers, and instances of subclasses and of unrelated classes."""

import collections
import itertools

import numpy as np
import pytest
import torch

import stator
from tests.python.helpers import assert_same


class Set(set):
    pass


class Frozen(frozenset):
    pass


class Dict(dict):
    pass


class List(list):
    pass


class Tuple(tuple):
    pass


class Int(int):
    pass


class Float(float):
    pass


class Stranger:
    def __repr__(self):
        return type(self).__name__


class Pairs(Stranger):
    def __iter__(self):
        return iter([("k", 1)])


class Mapping(Stranger):
    def keys(self):
        return ["m"]

    def __getitem__(self, key):
        return {"m": 2}[key]


class Right(Stranger):
    """Defines reflected operators only."""

    def __ror__(self, other):
        return "ror", type(other).__name__

    def __radd__(self, other):
        return "radd", type(other).__name__

    def __rmul__(self, other):
        return "rmul", type(other).__name__

    def __rsub__(self, other):
        return NotImplemented


class Sealed(Stranger):
    """Its left-hand operators return NotImplemented."""

    def __add__(self, other):
        return NotImplemented

    def __lt__(self, other):
        return NotImplemented


OPERANDS = {
    "int": lambda: 3,
    "float": lambda: 1.5,
    "text": lambda: "a%s",
    "list": lambda: [1, 2],
    "tuple": lambda: (1, 2),
    "dict": lambda: {"a": 1},
    "ordered": lambda: collections.OrderedDict(a=1),
    "default": lambda: collections.defaultdict(int, a=1),
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset({2}),
    "keys": lambda: {1: 1, 3: 2}.keys(),
    "items": lambda: {"a": 1}.items(),
    "deque": lambda: collections.deque([1, 2]),
    "slice": lambda: slice(1, 2),
    "size": lambda: torch.Size([1, 2]),
    "user_dict": lambda: collections.UserDict(a=5),
    "Set": lambda: Set({1, 5}),
    "Frozen": lambda: Frozen({1}),
    "Dict": lambda: Dict(a=7, c=1),
    "List": lambda: List([3]),
    "Tuple": lambda: Tuple((1, 2)),
    "Int": lambda: Int(2),
    "Float": lambda: Float(2.0),
    "Pairs": Pairs,
    "Mapping": Mapping,
    "Right": Right,
    "Sealed": Sealed,
}
BUILT_IN = [name for name in OPERANDS if name[0].islower()]
OPERATORS = ["|", "&", "-", "+", "*", "%", "<", "==", "in"]
IN_PLACE = ["|=", "&=", "-=", "+=", "*="]


def program(statement):
    """The result or exception of the statement, both operands afterwards, and an alias of the first."""
    scope = {}
    source = f"""
def run(x, make_a, make_b):
    a, b = make_a(), make_b()
    alias = a
    try:
        {statement}
    except Exception as error:
        r = type(error).__name__, str(error)
    return x + 1, r, a is alias, alias, b
"""
    exec(source, scope)  # noqa: S102 (one program for each operator)
    return scope["run"]


def shown(value):
    """Classes and contents, recursively."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (dict, collections.UserDict)):
        return type(value).__name__, [(shown(k), shown(v)) for k, v in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(repr, value))
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value).__name__, [shown(item) for item in value]
    return type(value).__name__, str(value)


STATEMENTS = [f"r = a {op} b" for op in OPERATORS] + [f"a {op} b; r = a" for op in IN_PLACE]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_operators(statement):
    x = torch.ones(2)
    # Other tests cover two built-in operands.
    pairs = [(a, b) for a, b in itertools.product(OPERANDS, OPERANDS) if not (a in BUILT_IN and b in BUILT_IN)]
    pairs += [("set", "keys"), ("set", "items"), ("dict", "list"), ("ordered", "list")]
    for a, b in pairs:
        run = program(statement)
        expected = shown(run(x, OPERANDS[a], OPERANDS[b]))
        compiled = stator.compile(program(statement))
        for _ in range(2):
            assert shown(compiled(x, OPERANDS[a], OPERANDS[b])) == expected, (a, statement, b)
        stator.reset()


CAPTURED = {
    "a view and an instance of a set": lambda x: (
        x + 1,
        {1: 1, 3: 2}.keys() & Set({1}),
        Set({1}) < {1: 0, 2: 0}.keys(),
    ),
    "an instance of a set in a set": lambda x: (x + 1, Set({1}) in {frozenset({1})}),
    "a dict that takes in an instance": lambda x: merged(x, Dict(b=2)),
    "a set that loses an instance's": lambda x: lessened(x, Set({1})),
    "a tuple's subclass and a literal": lambda x: (x + 1, Tuple((1, 2)) == (1, 2), (1, 2) <= Tuple((1, 3))),
    "a slice by another name": lambda x: (x + 1, (s := slice(1, 2)) is s),
}


def merged(x, other):
    d = {"a": 1}
    alias = d
    d |= other
    return x + 1, d, alias, alias is d


def lessened(x, other):
    s = {1, 2}
    alias = s
    s -= other
    return x + 1, s, alias, alias is s


@pytest.mark.parametrize("name", CAPTURED)
def test_in_one_graph(name):
    fn = CAPTURED[name]
    x = torch.ones(2)
    compiled = stator.compile(fn, fullgraph=True)
    for _ in range(2):
        assert_same(compiled(x), fn(x))


def test_outside_slice_is_itself():
    def fn(x, s):
        return x[s], s, [s][0] is s

    given = slice(0, 1)
    x = torch.arange(3.0)
    _, returned, same = stator.compile(fn, fullgraph=True)(x, given)
    assert returned is given and same


@pytest.mark.parametrize("make", [dict, collections.OrderedDict])
@pytest.mark.parametrize("pairs", [[1], [()], [(1,)], [(1, 2, 3)], [("a", 1), 5], ["ab", "c"]])
def test_messages_about_pairs(make, pairs):
    def fn(x, pairs):
        d = make()
        try:
            d.update(pairs)
        except (TypeError, ValueError) as error:
            return x + 1, str(error), d
        return x + 1, d

    x = torch.ones(2)
    assert_same(stator.compile(fn)(x, pairs), fn(x, pairs))


@pytest.mark.parametrize("container", [3, None, len, int, Right()])
def test_messages_about_membership(container):
    def fn(x, container):
        try:
            return x + 1, 1 in container
        except TypeError as error:
            return x + 1, str(error)

    x = torch.ones(2)
    assert_same(stator.compile(fn)(x, container), fn(x, container))


class Told(list):
    def __iter__(self):
        asked.append("iter")
        return super().__iter__()

    def __len__(self):
        asked.append("len")
        return super().__len__()


class OwnIndex(int):
    def __index__(self):
        asked.append("index")
        return 0


asked = []
one = OwnIndex(1)


@pytest.mark.parametrize(
    "expression",
    [
        "list(Told([1]))",
        "tuple(Told([1]))",
        "sorted(Told([2, 1]))",
        "[*Told([1])]",
        "(lambda *a: a)(*Told([1]))",
        "[1].extend(Told([2]))",
        "sum(Told([1]))",
        "set(Told([1]))",
        "[1, 2, 3][one]",
        "(1, 2, 3)[one]",
        "[1, 2].pop(one)",
        "[1, 2].insert(one, 5)",
        "list(range(one))",
        "{1: 2}.get(np.int64(1))",
        "{1: 2}[np.int64(1)]",
        "np.int64(1) in {1: 2}",
        "1.5 in {np.float64(1.5): 3}",
        "{1.5: 2}.get(np.float64(1.5))",
        "{True: 1}.get(np.int64(1))",
        "{np.bool_(True): 1}.get(1)",
        "len({1, np.int64(1)})",
        "{1} & {np.int64(1)}",
    ],
)
def test_numbers_and_lists_of_other_classes(expression):
    scope = {"np": np, "Told": Told, "one": one}
    exec(f"def fn(x):\n    y = x + 1\n    return y, {expression}\n", scope)
    fn = scope["fn"]
    compiled = stator.compile(fn)
    for _ in range(2):
        asked.clear()
        expected = repr(fn(torch.ones(2))), list(asked)
        asked.clear()
        assert (repr(compiled(torch.ones(2))), asked) == expected


def test_iter_is_called_once_although_the_plan_rebuilds_it():
    def fn(x):
        pairs = zip(Told([1, 2]), iter(Told([3, 4])))
        first = next(pairs)
        stator.graph_break()
        return x + 1, first, list(pairs)

    compiled = stator.compile(fn)
    for _ in range(2):
        asked.clear()
        expected = repr(fn(torch.ones(2))), list(asked)
        asked.clear()
        assert (repr(compiled(torch.ones(2))), asked) == expected
