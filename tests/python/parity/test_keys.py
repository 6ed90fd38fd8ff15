"""Keys that equal objects of another class, or other objects of their own class."""

import enum

import pytest
import torch

import stator
from tests.python.helpers import assert_same


class Number(enum.IntEnum):
    ONE = 1


class Letter(enum.StrEnum):
    A = "a"


class Flag(enum.IntFlag):
    X = 1


class Plain(enum.Enum):
    ONE = 1


class Own(enum.Enum):
    ONE = 1

    def __eq__(self, other):
        return other == 1 or self is other

    def __hash__(self):
        return 1


KEYS = [Number.ONE, Letter.A, Flag.X, Plain.ONE, Own.ONE, 1, True, 1.0, "a", None, list[int], int | str, torch.float32]
TABLE = {1: 2, "a": 3, list[int]: 4, int | str: 5, torch.float32: 6}
ENUM_TABLE = {Number.ONE: 2, Letter.A: 3}

LINES = {
    "in a literal": lambda x, k: (x + 1, k in {1: 2, "a": 3}, {1: 2, "a": 3}.get(k)),
    "in an external dict": lambda x, k: (x + 1, k in TABLE, TABLE.get(k)),
    "in a dict of members": lambda x, k: (x + 1, k in ENUM_TABLE, ENUM_TABLE.get(k)),
    "as the known key": lambda x, k: (x + 1, {k: 5}.get(1), {k: 5}.get("a"), {k: 5}.get(list[int])),
    "twice": lambda x, k: (x + 1, list({k: 4, 1: 3}.items()), len({k, 1, "a", list[int]})),
    "in a tuple": lambda x, k: (x + 1, {(k, 2): 1}.get((1, 2)), {(1, 2): 1}.get((k, 2))),
    "in a set": lambda x, k: (x + 1, k in {1, "a"}, {k} & {1, "a"}, {k} - {1}, k in [1, "a"], k in (list[int],)),
    "removed": lambda x, k: (x + 1, {1: 2, "a": 3}.pop(k, None)),
}


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("name", LINES)
def test_equal_keys_are_one(name, key):
    fn = LINES[name]
    compiled = stator.compile(fn)
    x = torch.ones(2)
    for _ in range(2):
        assert_same(compiled(x, key), fn(x, key))
    with stator.config.patch(recompile_limit=100):
        for other in (*KEYS, *KEYS):
            assert_same(compiled(x, other), fn(x, other), repr(other))
    assert stator.counters()["cache"]["hits"] > 0
