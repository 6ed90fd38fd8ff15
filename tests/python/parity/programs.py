"""A registry of small programs, all checked in the same way: each equals plain Python over several calls."""

import pytest
import torch

import stator
from tests.python.helpers import check_parity

x = torch.arange(6.0).reshape(2, 3)
y = torch.ones(2, 3) * 3


class Programs:
    """Programs of one area. A program is captured in one graph unless `breaks` names the code of its break."""

    def __init__(self):
        self.rows = {}

    def __call__(self, *calls, breaks=None):
        def add(fn):
            assert fn.__name__ not in self.rows, fn.__name__
            self.rows[fn.__name__] = (fn, list(calls), breaks)
            return fn

        return add

    def tests(self):
        """A test function over all programs; the module binds it to a name that pytest collects."""

        @pytest.mark.parametrize("name", self.rows)
        def test_program(name):
            check_program(*self.rows[name])

        return test_program


def check_program(fn, calls, breaks=None):
    """Equal to plain Python over two rounds of `calls`, and captured as the row states."""
    check_parity(fn, *calls, *calls, graphs=None if breaks is None else any_number)
    counters = stator.counters()
    if breaks is None:
        assert not counters["breaks"], counters["breaks"]
        assert counters["cache"]["hits"] >= len(calls)
    else:
        assert breaks in counters["breaks"], counters["breaks"]


class _AnyNumber:
    def __eq__(self, other):
        return isinstance(other, int)


any_number = _AnyNumber()
