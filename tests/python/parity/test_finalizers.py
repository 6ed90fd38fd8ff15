"""An object dropped between two breaks dies there: its finalizer runs before the program's next statement."""

import pytest
import torch

import stator
from tests.python.helpers import captures

log: list = []


def counter(k):
    try:
        while k < 3:
            yield k
            k += 1
    finally:
        log.append("counter done")


class Loud:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        log.append(f"end of {self.name}")


def generator_left_by_break(x):
    for n in counter(0):
        stator.graph_break()
        if n == 1:
            break
    log.append("after")
    return x + 1


def generator_left_by_an_error(x):
    x = x * 2
    try:
        for n in counter(0):
            stator.graph_break()
            raise ValueError(n)
    except ValueError as error:
        log.append(str(error))
    return x + 1


def generator_left_by_return(x):
    def inner(x):
        for _ in counter(0):
            stator.graph_break()
            return x * 2

    y = inner(x)
    log.append("after")
    return y


def generator_rebound(x):
    values = counter(0)
    next(values)
    stator.graph_break()
    values = None
    log.append("after")
    return x + 1


def rebound(x):
    thing = Loud("one")
    stator.graph_break()
    y = x + 1
    thing = None
    log.append("after")
    return y


def deleted(x):
    thing = Loud("one")
    stator.graph_break()
    y = x + 1
    del thing
    log.append("after")
    return y


def cleared(x):
    things = [Loud("one")]
    stator.graph_break()
    y = x + 1
    things.clear()
    log.append("after")
    return y


def taken_from_a_dict(x):
    things = {"a": Loud("one")}
    stator.graph_break()
    y = x + 1
    del things["a"]
    log.append("after")
    return y


def attribute_overwritten(x):
    thing = Loud(Loud("inner"))
    stator.graph_break()
    y = x + 1
    thing.name = "outer"
    log.append("after")
    return y


def held_by_the_frames_of_an_error(x):
    def inner(x):
        thing = Loud("one")
        stator.graph_break()
        raise ValueError(str(x.shape))

    x = x * 2
    try:
        inner(x)
    except ValueError:
        log.append("handler")
    log.append("after")
    return x + 1


PROGRAMS = [
    generator_left_by_break,
    generator_left_by_an_error,
    generator_left_by_return,
    generator_rebound,
    rebound,
    deleted,
    cleared,
    taken_from_a_dict,
    attribute_overwritten,
    held_by_the_frames_of_an_error,
]


def run(function):
    seen = []
    for _ in range(4):
        log.clear()
        result = function(torch.ones(2))
        seen.append((result.tolist(), list(log)))
    return seen


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_ends_where_it_is_dropped(program):
    expected = run(program)
    before = captures()
    assert run(stator.compile(program)) == expected
    assert captures() > before
