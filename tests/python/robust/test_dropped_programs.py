"""A program without references dies, with everything that was captured of it."""

import sys
import types
import weakref

import pytest
import torch

import stator
from tests.python.helpers import collect

PROGRAMS = {
    "plain": "def program(x): return x + 1",
    "a_global": "S = 3\ndef program(x): return x + S",
    "calls": "def helper(x): return x * 2\ndef program(x): return helper(x) + 1",
    "makes_an_object": """
class C:
    def __init__(self, v): self.v = v
    def scaled(self, x): return x * self.v
def program(x): return C(2).scaled(x)
""",
    "returns_an_object": """
class C:
    def __init__(self, v): self.v = v
def program(x): return C(x + 1)
""",
    "returns_a_function": "def helper(x): return x * 2\ndef program(x): return helper, x + 1",
    "returns_its_module": "import sys\ndef program(x): return x + 1, sys.modules[__name__]",
    "returns_a_closure": "def program(x):\n    y = x + 1\n    return lambda: y",
    "writes_a_global": "S = 0\ndef program(x):\n    global S\n    S = 1\n    return x + 1",
    "breaks": "def program(x):\n    y = x + 1\n    stator.graph_break()\n    return y * 2",
    "breaks_with_an_object": """
class C:
    def __init__(self, v): self.v = v
def program(x):
    c = C(2)
    stator.graph_break()
    return x * c.v
""",
    "breaks_in_a_call": """
def helper(x):
    y = x + 1
    stator.graph_break()
    return y * 2
def program(x): return helper(x) + 1
""",
    "branches_on_data": "def program(x):\n    y = x + 1\n    return y * 2 if y.sum() > 0 else y",
    "raises": """
class Failed(Exception): pass
def program(x):
    try:
        raise Failed()
    except Failed as error:
        return x + 1
""",
    "yields": "def program(x): return sum((x * i for i in range(3)), x)",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_dropped_program_dies(name):
    module = types.ModuleType("dropped")
    exec(compile("import torch, stator\n" + PROGRAMS[name], "<dropped>", "exec"), module.__dict__)
    sys.modules["dropped"] = module
    compiled = stator.compile(module.program)
    before = stator.counters()["captures"].get("graphs", 0)
    for _ in range(3):
        compiled(torch.ones(3))
    assert stator.counters()["captures"]["graphs"] > before
    assert sum(entry["hits"] for entry in stator.cache_entries(compiled)) > 0
    watched = [weakref.ref(thing) for thing in (module.program.__code__, module.program, module)]
    del sys.modules["dropped"]
    del module, compiled
    collect()
    assert [ref() for ref in watched] == [None] * 3
