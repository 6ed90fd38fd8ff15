"""Programs that ask a tensor only for its class, or for what its class has: another kind of object may come next."""

import numpy as np
import pytest
import torch

import stator


class Tagged(torch.Tensor):
    pass


class Holder:
    frobnicate = 1


OBJECTS = [
    torch.ones(2),
    5,
    Tagged(),
    torch.nn.Parameter(torch.ones(1)),
    "text",
    None,
    2.5,
    [1],
    {},
    torch.float32,
    np.ones(2),
    True,
    Holder(),
    Tagged,
    type,
    torch.nn.Linear(1, 1),
]

QUESTIONS = {
    "class": lambda a: a.__class__,
    "is class": lambda a: a.__class__ is torch.Tensor,
    "name of class": lambda a: (a.__class__.__name__, torch.ones(1)),
    "order of classes": lambda a: a.__class__.__mro__[0],
    "subclass": lambda a: issubclass(a.__class__, torch.Tensor),
    "branch": lambda a: not a if a.__class__ is int else 7,
    "has method": lambda a: hasattr(a, "add"),
    "has nothing": lambda a: hasattr(a, "frobnicate"),
    "own attribute": lambda a: getattr(a, "frobnicate", None),
    "method": lambda a: getattr(a, "add", None) is None,
    "doc": lambda a: a.__doc__ is None,
    "module": lambda a: a.__module__,
    "function": lambda a: a.__torch_function__,
}


def answer(fn, value):
    try:
        return repr(fn(value))
    except AttributeError as error:
        return repr(error)


@pytest.mark.parametrize("first", range(len(OBJECTS)))
@pytest.mark.parametrize("name", QUESTIONS)
def test_another_class_is_another_answer(name, first):
    fn = QUESTIONS[name]
    compiled = stator.compile(fn)
    with stator.config.patch(recompile_limit=100):
        for value in (*OBJECTS[first:], *OBJECTS[:first], *OBJECTS):
            assert answer(compiled, value) == answer(fn, value), type(value)
    assert stator.counters()["cache"]["hits"] > 0


def test_a_tensor_that_is_computed_with_has_one_guard():
    def fn(a):
        return a + 1 if a.__class__ is torch.Tensor else a

    compiled = stator.compile(fn)
    compiled(torch.ones(2))
    facts = [text for text in stator.explain(fn, torch.ones(2)).guards if text.startswith("a ")]
    assert len(facts) == 1, facts
