"""Hostile objects: guards run none of their code, and their methods run as often as in the plain program."""

import gc
import sys
import weakref

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures, collect

x = torch.arange(4.0)


class Trap:
    """Logs every call of its special methods."""

    log: list = []

    def __init__(self, value=2):
        object.__setattr__(self, "value", value)

    def __eq__(self, other):
        Trap.log.append("eq")
        return True

    def __hash__(self):
        Trap.log.append("hash")
        return 1

    def __getattr__(self, name):
        Trap.log.append(f"getattr {name}")
        raise AttributeError(name)

    def __setattr__(self, name, value):
        Trap.log.append(f"setattr {name}")
        object.__setattr__(self, name, value)

    def __bool__(self):
        Trap.log.append("bool")
        return True

    def __len__(self):
        Trap.log.append("len")
        return 3

    def __repr__(self):
        Trap.log.append("repr")
        return "Trap"

    def __instancecheck__(self, other):
        Trap.log.append("instancecheck")
        return True

    def __del__(self):
        Trap.log.append("del")


class MetaTrap(type):
    log: list = []

    def __instancecheck__(cls, other):
        MetaTrap.log.append("instancecheck")
        return super().__instancecheck__(other)

    def __eq__(cls, other):
        MetaTrap.log.append("eq")
        return True

    def __hash__(cls):
        MetaTrap.log.append("hash")
        return 1

    def __getattribute__(cls, name):
        MetaTrap.log.append(f"get {name}")
        return super().__getattribute__(name)


class OfMeta(metaclass=MetaTrap):
    scale = 3


def same_log(fn, *calls):
    """Results and the logs of all traps are those of the plain program, at every call, and the calls hit."""
    compiled = stator.compile(fn)
    for args in calls:
        seen = []
        for side in (compiled, fn):
            Trap.log.clear()
            MetaTrap.log.clear()
            result = side(*args)
            seen.append((list(Trap.log), list(MetaTrap.log), result))
        assert_same(seen[0], seen[1])


PROGRAMS = {
    "attribute": lambda x, t: x * t.value,
    "identity": lambda x, t: x + (t is None) + (t is t),
    "passed through": lambda x, t: (x + 1, [t][0] is t),
    "type": lambda x, t: x + (type(t) is Trap) + isinstance(t, Trap),
    "equality": lambda x, t: x + (t == 5),
    "truth": lambda x, t: x + (1 if t else 2),
    "length": lambda x, t: x + len(t),
    "key of a dict": lambda x, t: x + {t: 4}[t],
    "element of a list": lambda x, t: x + (t in [1, t]),
    "missing attribute": lambda x, t: x + getattr(t, "missing", 7),
    "hasattr": lambda x, t: x + hasattr(t, "missing"),
    "text": lambda x, t: (x + 1, f"{t!r}"),
    "in a container": lambda x, t: x + len([t, t]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hostile_argument(name):
    trap = Trap()
    same_log(PROGRAMS[name], *[(x, trap)] * 4)


def test_hostile_objects_in_containers_that_are_guarded():
    trap = Trap()

    def fn(x, items, table):
        return x * len(items) + table["n"] + len(table)

    same_log(fn, *[(x, [trap, 1], {"n": 1, "t": trap})] * 4)


def test_a_change_to_a_hostile_object_is_seen():
    trap = Trap()
    compiled = stator.compile(lambda x, t: x * t.value)
    for value in (2, 3, 2, 5):
        object.__setattr__(trap, "value", value)
        assert_same(compiled(x, trap), x * value)
    Trap.log.clear()
    compiled(x, trap)
    assert Trap.log == []


def test_dicts_with_hostile_keys():
    """A key that collides with a name and claims to be equal must not be found in its place by a guard."""

    class Key(str):
        def __eq__(self, other):
            Trap.log.append("key eq")
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    def fn(x, table):
        return x * table["scale"]

    for table in ({"scale": 2, Key("other"): 1}, {Key("scale"): 3}, {Trap(): 1, "scale": 4}):
        compiled = stator.compile(fn)
        for _ in range(3):
            seen = []
            for side in (compiled, fn):
                Trap.log.clear()
                result = side(x, table)
                seen.append((list(Trap.log), result))
            assert_same(seen[0], seen[1])


def test_attributes_in_an_instance_with_a_hostile_dict():
    class Key(str):
        def __eq__(self, other):
            Trap.log.append("key eq")
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    class Plain:
        pass

    thing = Plain()
    thing.scale = 2
    thing.__dict__[Key("other")] = 1
    same_log(lambda x, t: x * t.scale, *[(x, thing)] * 3)


def test_hostile_metaclass():
    thing = OfMeta()
    same_log(lambda x, t: x * t.scale, *[(x, thing)] * 3)
    same_log(lambda x, t: x + isinstance(t, OfMeta), *[(x, thing)] * 3)
    same_log(lambda x, t: x + (type(t) is OfMeta), *[(x, thing)] * 3)


def test_globals_that_fight_back():
    space = {"trap": Trap(), "x": x}
    exec("def fn(x):\n    return x * trap.value", space)
    same_log(space["fn"], *[(x,)] * 3)


def test_del_that_calls_the_function_again():
    calls = []

    class Dies:
        def __del__(self):
            calls.append(compiled(x, 1))

    def fn(x, k):
        made = Dies() if k == 0 else None
        y = x + k
        del made
        return y * 2

    compiled = stator.compile(fn)
    for _ in range(3):
        assert_same(compiled(x, 0), x * 2)
        assert_same(calls.pop(), (x + 1) * 2)
    assert not calls


def test_del_that_resets_or_collects_while_an_entry_is_looked_up():
    class Dies:
        def __init__(self, what):
            self.what = what

        def __del__(self):
            self.what()

    def fn(x, t):
        return x + (t is not None)

    compiled = stator.compile(fn)
    for what in (stator.reset, gc.collect, lambda: compiled(x, None)) * 5:
        thing = Dies(what)
        assert_same(compiled(x, thing), x + 1)
        del thing
        assert_same(compiled(x, None), x + 0)


def test_garbage_that_computes_is_not_collected_in_a_capture():
    made = []

    class Dies:
        def __del__(self):
            made.append(torch.ones(2) + 1)

    def fn(x):
        for _ in range(300):
            x = torch.add(x, 1)
        return x

    before = gc.get_threshold()
    compiled = stator.compile(fn, fullgraph=True)
    collect()
    thing = Dies()
    thing.itself = thing
    try:
        gc.set_threshold(200)
        del thing
        assert_same(compiled(x), x + 300)
        assert gc.isenabled()
    finally:
        gc.set_threshold(*before)
    collect()
    assert stator.cache_entries(compiled)[0]["ops"] == 300
    assert [value.tolist() for value in made] == [[2.0, 2.0]]


def test_objects_are_not_kept_alive():
    class Thing:
        scale = 2

    def fn(x, t):
        y = x * t.scale
        stator.graph_break()
        return y + 1

    compiled = stator.compile(fn)
    thing = Thing()
    gone = weakref.ref(thing)
    compiled(x, thing)
    compiled(x, thing)
    del thing
    collect()
    assert gone() is None


def test_sys_modules_and_builtins_replaced_by_traps(monkeypatch):
    def fn(x, items):
        return x + len(items) + max(items)

    compiled = stator.compile(fn)
    assert_same(compiled(x, [1, 2]), x + 4)
    import builtins

    monkeypatch.setattr(builtins, "max", lambda items: 100)
    assert_same(compiled(x, [1, 2]), x + 102)
    monkeypatch.undo()
    assert_same(compiled(x, [1, 2]), x + 4)
    assert captures() >= 2 and "stator" in sys.modules
