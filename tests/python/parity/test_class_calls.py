"""Classes whose metaclass defines calls: enumerations with `_missing_`, typed dicts."""

import enum
import typing

import torch

import stator
from tests.python.helpers import assert_same


def test_enumeration_that_finds_members_itself():
    asked = []

    class Color(enum.Enum):
        RED = 1

        @classmethod
        def _missing_(cls, value):
            asked.append(value)
            return cls.RED if value < limit else None

    limit = 5

    def fn(x, value):
        return x + Color(value).value

    compiled = stator.compile(fn)
    x = torch.ones(2)
    assert_same(compiled(x, 1), x + 1)
    assert asked == []
    for _ in range(3):
        assert_same(compiled(x, 3), x + 1)
    assert asked == [3, 3, 3]
    limit = 2
    try:
        compiled(x, 3)
    except ValueError as error:
        assert str(error) == "3 is not a valid " + Color.__qualname__
    else:
        raise AssertionError("no member is found any more")


def test_typed_dict():
    class Inputs(typing.TypedDict):
        pixels: torch.Tensor
        kind: str

    def fn(x):
        made = Inputs(pixels=x * 2, kind="image")
        return made, made["pixels"] + 1, Inputs(made)

    x = torch.ones(2)
    compiled = stator.compile(fn, fullgraph=True)
    for _ in range(2):
        assert_same(compiled(x), fn(x))
