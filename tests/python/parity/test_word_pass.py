"""Changes that the word pass of guards must detect: each is made after the word pass is in use, then undone."""

import types
import weakref
from abc import ABC
from collections import OrderedDict, defaultdict

import pytest
import torch

import stator
from tests.python.helpers import assert_same, collect

x = torch.ones(2, 3)


def by_words():
    return stator.counters()["guards"]["by_words"]


def settle(compiled, plain, *args):
    """Calls until the word pass is in use again: after many changes it is rebuilt less often."""
    before = by_words()
    for _ in range(100):
        assert_same(compiled(*args), plain(*args))
        if by_words() > before + 1:
            return
    raise AssertionError("the fast pass is not in use")


def agrees(compiled, plain, *args):
    for _ in range(3):
        assert_same(compiled(*args), plain(*args))


class Inner(torch.nn.Module):
    scale = 3.0
    table = {"k": 2}
    shape = (1, 2)

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(9.0).view(3, 3))
        self.register_buffer("shift", torch.ones(3))

    def helper(self, t):
        return t @ self.weight + self.shift

    def forward(self, t):
        return self.helper(t) * self.scale + self.table["k"] + self.shape[0]


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class Options:
    def __init__(self):
        self.bias = 1.5
        self.pair = (1, 2)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.items = [1, torch.ones(3), (4, 5)]
        self.tensors = [torch.ones(3), torch.zeros(3)]
        self.table = {"a": 1.0, "b": {"c": 2}}
        self.ordered = OrderedDict(p=1, q=2)
        self.defaults = defaultdict(int, n=4)
        self.options = Options()
        self.slotted = Slotted(2)
        self.act = torch.relu
        self.count = 0
        self.register_buffer("unused", None)

    def forward(self, t):
        y = self.act(self.inner(t)) + self.items[0] + self.items[2][1] + self.tensors[0]
        y = y * self.table["a"] + self.table["b"]["c"] + self.defaults["n"] + len(self.tensors)
        for key, value in self.ordered.items():
            y = y * 2 + (value if key == "p" else -value)
        return y + self.options.bias + self.options.pair[0] + self.slotted.value


def assign(get, name, value):
    """Sets and restores an attribute of `get(model)`; `value` may be a function of the old value."""

    def change(m):
        owner = get(m)
        old = getattr(owner, name)
        setattr(owner, name, value(old) if isinstance(value, types.FunctionType) else value)
        return lambda: setattr(owner, name, old)

    return change


def put(get, key, value):
    def change(m):
        owner = get(m)
        old = owner[key]
        owner[key] = value
        return lambda: owner.__setitem__(key, old)

    return change


def own(get, name, value):
    """As `assign`, for an instance attribute that shadows a class attribute."""

    def change(m):
        owner = get(m)
        owner.__dict__[name] = value
        return lambda: owner.__dict__.pop(name)

    return change


def class_attribute(name, value):
    def change(m):
        owner = type(m.inner)
        had, old = name in vars(owner), getattr(owner, name, None)
        setattr(owner, name, value)
        return lambda: setattr(owner, name, old) if had else delattr(owner, name)

    return change


def replace_dict(get):
    """Replaces `__dict__` by another dict with other values."""

    def change(m):
        owner = get(m)
        old = owner.__dict__
        fresh = dict(old)
        if "bias" in fresh:
            fresh["bias"] = 9.0
        else:
            fresh["_buffers"] = dict(fresh["_buffers"], shift=torch.full((3,), 5.0))
        owner.__dict__ = fresh

        def undo():
            owner.__dict__ = old

        return undo

    return change


def replace_modules(m):
    old = m.__dict__["_modules"]
    other = Inner()
    other.shift += 7
    m.__dict__["_modules"] = dict(old, inner=other)
    return lambda: m.__dict__.__setitem__("_modules", old)


def data(make):
    """`param.data = ...`: the object and its TensorImpl stay the same."""

    def change(m):
        old = m.inner.weight.data
        m.inner.weight.data = make(old)

        def undo():
            m.inner.weight.data = old

        return undo

    return change


def other_dtype(m):
    m.double()
    m.tensors[0] = m.tensors[0].double()

    def undo():
        m.float()
        m.tensors[0] = m.tensors[0].float()

    return undo


def resize_buffer(m):
    m.inner.shift.resize_(1)

    def undo():
        m.inner.shift.resize_(3)
        m.inner.shift.fill_(1)

    return undo


def set_buffer(m):
    old = m.inner.shift.clone()
    m.inner.shift.set_(torch.arange(6.0)[::2])
    return lambda: m.inner.shift.set_(old)


def swap(m):
    torch.utils.swap_tensors(m.inner.shift, other := torch.full((3,), 5.0))
    return lambda: torch.utils.swap_tensors(m.inner.shift, other)


def flip_requires_grad(m):
    m.inner.weight.requires_grad_(False)
    return lambda: m.inner.weight.requires_grad_(True)


def hook(m):
    return m.inner.register_forward_hook(lambda mod, args, out: out + 100).remove


def pre_hook_on_all(m):
    return torch.nn.modules.module.register_module_forward_pre_hook(lambda mod, args: (args[0] + 1,)).remove


def grow(m):
    m.tensors.append(torch.ones(3))
    return m.tensors.pop


def grow_far(m):
    """The list's items move in memory."""
    m.tensors.extend(torch.ones(3) for _ in range(100))

    def undo():
        del m.tensors[2:]

    return undo


def shrink(m):
    last = m.tensors.pop()
    return lambda: m.tensors.append(last)


def move_to_end(m):
    m.ordered.move_to_end("p")
    return lambda: m.ordered.move_to_end("q")


def other_class(m):
    class Other(Options):
        bias = property(lambda self: 40.0, lambda self, value: None)

    m.options.__class__ = Other

    def undo():
        m.options.__class__ = Options

    return undo


def base_class(m):
    torch.nn.Module.helper_of_tests = 1
    Inner.__bases__ = Inner.__bases__

    def undo():
        del torch.nn.Module.helper_of_tests

    return undo


CHANGES = {
    "attribute": assign(lambda m: m.options, "bias", 7.5),
    "attribute equal but another object": assign(lambda m: m.options, "bias", lambda old: float("1.5")),
    "attribute of another type": assign(lambda m: m.options, "bias", 7),
    "tuple replaced": assign(lambda m: m.options, "pair", (8, 2)),
    "slot": assign(lambda m: m.slotted, "value", 11),
    "object replaced": assign(lambda m: m, "slotted", Slotted(13)),
    "builtin replaced": assign(lambda m: m, "act", torch.sigmoid),
    "submodule": assign(lambda m: m, "inner", lambda old: Inner().requires_grad_(False)),
    "buffer": assign(lambda m: m.inner, "shift", torch.zeros(3)),
    "buffer none": assign(lambda m: m, "unused", torch.zeros(3)),
    "training": assign(lambda m: m, "training", False),
    "forward of the instance": own(lambda m: m.inner, "forward", lambda t: t * 100),
    "method shadowed": own(lambda m: m.inner, "helper", lambda t: t - 100),
    "class attribute shadowed": own(lambda m: m.inner, "scale", 31.0),
    "class attribute": class_attribute("scale", 5.0),
    "class dict": lambda m: put(lambda m: Inner.table, "k", 6)(m),
    "class tuple": class_attribute("shape", (9, 9)),
    "class method": class_attribute("helper", lambda self, t: t - 1),
    "class method added": class_attribute("__getattribute__", lambda self, n: object.__getattribute__(self, n)),
    "base class": base_class,
    "class of an instance": other_class,
    "dict item": put(lambda m: m.table, "a", 3.0),
    "nested dict item": put(lambda m: m.table["b"], "c", 9),
    "nested dict": put(lambda m: m.table, "b", {"c": 12}),
    "defaultdict item": put(lambda m: m.defaults, "n", 8),
    "ordered dict item": put(lambda m: m.ordered, "q", 5),
    "ordered dict order": move_to_end,
    "list item": put(lambda m: m.items, 0, 17),
    "list item of tensors": put(lambda m: m.tensors, 0, torch.full((3,), 4.0)),
    "tuple in a list": put(lambda m: m.items, 2, (4, 50)),
    "list appended": grow,
    "list moved": grow_far,
    "list popped": shrink,
    "list replaced": assign(lambda m: m, "tensors", lambda old: [torch.full((3,), 9.0)]),
    "instance dict": replace_dict(lambda m: m.options),
    "instance dict of a module": replace_dict(lambda m: m.inner),
    "modules dict": replace_modules,
    "parameter data": data(lambda old: old * 2),
    "parameter strides": data(lambda old: old.t().contiguous().t()),
    "parameter shape": data(lambda old: torch.ones(3, 1)),
    "dtype of everything": other_dtype,
    "buffer resized": resize_buffer,
    "buffer set": set_buffer,
    "tensors swapped": swap,
    "requires_grad": flip_requires_grad,
    "hook": hook,
    "hook of all modules": pre_hook_on_all,
}


def run(call):
    """The result of a call, or its exception."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", CHANGES)
def test_change_and_back(name):
    m = Model()
    compiled = stator.compile(m)
    settle(compiled, m, x)
    for _ in range(2):
        undo = CHANGES[name](m)
        given = x.double() if name.startswith("dtype") else x
        for _ in range(3):
            assert_same(run(lambda: compiled(given)), run(lambda: m(given)))  # noqa: B023
        undo()
        agrees(compiled, m, x)
    collect()
    settle(compiled, m, x)


def test_functions_and_their_parts():
    def inner(t, k=2, *, j=(3, 4)):
        return t * k + j[0]

    cell = [5]

    def outer(t):
        return inner(t) + cell[0]

    compiled = stator.compile(outer)
    settle(compiled, outer, x)
    defaults, kwdefaults, code = inner.__defaults__, inner.__kwdefaults__, inner.__code__
    for _ in range(2):
        inner.__defaults__ = None
        inner.__defaults__ = (9,)
        agrees(compiled, outer, x)
        inner.__defaults__ = defaults
        agrees(compiled, outer, x)
        inner.__kwdefaults__ = {"j": (7, 8)}
        agrees(compiled, outer, x)
        inner.__kwdefaults__ = kwdefaults
        agrees(compiled, outer, x)
        inner.__kwdefaults__["j"] = (6, 6)
        agrees(compiled, outer, x)
        inner.__kwdefaults__["j"] = (3, 4)
        agrees(compiled, outer, x)
        inner.__code__ = (lambda t, k=2, *, j=(3, 4): t - k - j[1]).__code__
        agrees(compiled, outer, x)
        inner.__code__ = code
        agrees(compiled, outer, x)
        cell[0] = 50
        agrees(compiled, outer, x)
        cell[0] = 5
        agrees(compiled, outer, x)


def test_closure_rewritten():
    factor, shift = 2.0, torch.ones(3)

    def f(t):
        return t * factor + shift

    def rewrite(a, b):
        nonlocal factor, shift
        factor, shift = a, b

    compiled = stator.compile(f)
    settle(compiled, f, x)
    for value in (3.0, 2.0, float("2.0"), 2, 2.0):
        rewrite(value, torch.ones(3))
        agrees(compiled, f, x)
    rewrite(2.0, torch.full((3,), 6.0))
    agrees(compiled, f, x)
    rewrite(2.0, torch.full((1,), 6.0))
    agrees(compiled, f, x)


def test_cell_emptied():
    def make():
        shift = torch.ones(3)

        def f(t):
            return t + shift

        def drop():
            nonlocal shift
            del shift

        return f, drop

    f, drop = make()
    compiled = stator.compile(f)
    settle(compiled, f, x)
    drop()
    with pytest.raises(NameError):
        compiled(x)


def test_bound_method_in_a_cell():
    class Adder:
        def __init__(self, n):
            self.n = n

        def add(self, t):
            return t + self.n

    method = Adder(1).add

    def f(t):
        return method(t)

    compiled = stator.compile(f)
    settle(compiled, f, x)
    method.__self__.n = 4
    agrees(compiled, f, x)
    method = Adder(9).add
    agrees(compiled, f, x)


def test_registration_with_an_abstract_class():
    class Abstract(ABC):  # noqa: B024
        pass

    class Plain:
        pass

    thing = Plain()

    def f(t):
        return t + 1 if isinstance(thing, Abstract) else t - 1

    compiled = stator.compile(f)
    settle(compiled, f, x)
    Abstract.register(Plain)
    agrees(compiled, f, x)


def test_function_attribute():
    def helper(t):
        return t + getattr(helper, "extra", 1)

    def f(t):
        return helper(t)

    compiled = stator.compile(f)
    settle(compiled, f, x)
    helper.extra = 20
    agrees(compiled, f, x)
    del helper.extra
    agrees(compiled, f, x)


def test_class_of_a_module_object():
    module = types.ModuleType("words_module")
    module.value = 2

    class Loud(types.ModuleType):
        def __getattribute__(self, name):
            return 70 if name == "value" else super().__getattribute__(name)

    def f(t):
        return t * module.value

    compiled = stator.compile(f)
    settle(compiled, f, x)
    module.__class__ = Loud
    agrees(compiled, f, x)
    module.__class__ = types.ModuleType
    agrees(compiled, f, x)


@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "instance", "float", "function", "tensor"])
def test_another_object_at_the_same_address(kind):
    """Replaces an item of a list by a new object, most likely at the address that became free."""
    make = {
        "list": lambda i: [i, i],
        "tuple": lambda i: (float(i), i),
        "dict": lambda i: {"k": i},
        "instance": Slotted,
        "float": lambda i: i * 0.5,
        "function": lambda i: types.FunctionType((lambda: i).__code__, globals(), "g", None, (types.CellType(i),)),
        "tensor": lambda i: torch.full((3,), float(i)),
    }[kind]
    read = {
        "list": lambda held: held[0],
        "tuple": lambda held: held[1],
        "dict": lambda held: held["k"],
        "instance": lambda held: held.value,
        "float": lambda held: held,
        "function": lambda held: held(),
        "tensor": lambda held: held,
    }[kind]
    box = [make(1)]

    def f(t):
        return t + read(box[0])

    compiled = stator.compile(f)
    with stator.config.patch(recompile_limit=64):
        settle(compiled, f, x)
        reused = 0
        for i in range(2, 20):
            old = id(box[0])
            box[0] = None
            box[0] = make(i)
            reused += id(box[0]) == old
            assert_same(compiled(x), f(x))
    assert reused or kind in (
        "float",
        "function",
        "tensor",
    )  # literals are kept alive, so their addresses are not reused


def test_another_dict_at_the_same_address():
    """Sets a new `__dict__` with the same keys, and new values at the addresses of the old ones."""

    class Thing:
        pass

    thing = Thing()
    thing.items = [1, 2]
    thing.pair = (1.0, 5.0)

    def f(t):
        return t + thing.items[1] + thing.pair[1]

    compiled = stator.compile(f)
    with stator.config.patch(recompile_limit=64):
        settle(compiled, f, x)
        for i in range(2, 12):
            del thing.items, thing.pair
            thing.items = [1, i]
            thing.pair = (1.0, i / 2)
            assert_same(compiled(x), f(x))


def test_dead_objects_are_not_examined():
    class Thing:
        def __init__(self, value):
            self.value = value
            self.items = [value]

    holder = {"thing": Thing(1)}

    def f(t):
        return t + holder["thing"].value + holder["thing"].items[0]

    compiled = stator.compile(f)
    with stator.config.patch(recompile_limit=64):
        settle(compiled, f, x)
        for i in range(2, 12):
            del holder["thing"]
            collect()
            junk = [[j] for j in range(100)]
            holder["thing"] = Thing(i)
            del junk
            assert_same(compiled(x), f(x))


def test_globals_of_a_function_argument_that_are_gone():
    def f(fn, t):
        return fn(t) * 2

    def make(n):
        scope = {"n": n}
        exec("def fn(t): return t + n", scope)
        return scope["fn"]

    compiled = stator.compile(f)
    with stator.config.patch(recompile_limit=64):
        for i in range(6):
            fn = make(i)
            agrees(compiled, f, fn, x)
            del fn
            collect()


def test_word_pass_keeps_nothing_alive():
    class Thing:
        pass

    m = Model()
    m.extra = Thing()
    compiled = stator.compile(m)
    settle(compiled, m, x)
    parts = [m, m.inner, m.inner.weight, m.inner.shift, m.options, m.ordered, m.tensors[0], m.extra]
    watched = [weakref.ref(part) for part in parts]
    del compiled, m, parts
    collect()
    assert [ref() for ref in watched] == [None] * len(watched)


def test_values_of_a_dict_are_not_kept_alive():
    class Thing:
        n = 2

    table = {"thing": Thing(), "tensor": torch.ones(3)}

    def f(t):
        return t * table["thing"].n + table["tensor"]

    compiled = stator.compile(f)
    settle(compiled, f, x)
    watched = [weakref.ref(value) for value in table.values()]
    table.update(thing=Thing(), tensor=torch.zeros(3))
    collect()
    assert [ref() for ref in watched] == [None, None]
    agrees(compiled, f, x)


def test_a_module_that_changes_in_each_call():
    """Writes in every call do not disable the word pass."""
    m = Model()
    compiled = stator.compile(m)
    settle(compiled, m, x)
    before = stator.counters()["guards"]
    for i in range(20):
        m.count = i + 1
        assert_same(compiled(x), m(x))
    after = stator.counters()["guards"]
    assert after["by_words"] - before["by_words"] == 20
    assert after["rearmed"] - before["rearmed"] >= 20
    assert stator.counters()["captures"]["total"] == 1


def test_a_buffer_replaced_in_each_call():
    m = Model()
    compiled = stator.compile(m)
    settle(compiled, m, x)
    for i in range(20):
        m.inner.shift = torch.full((3,), float(i))
        assert_same(compiled(x), m(x))
    m.inner.shift = torch.ones(1)
    agrees(compiled, m, x)


def test_a_buffer_that_is_another_module_parameter():
    """One object in two places, then two objects."""

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.ones(3))
            self.register_buffer("b", self.a)

        def forward(self, t):
            return t + self.a if self.a is self.b else t - self.b

    m = Two()
    compiled = stator.compile(m)
    settle(compiled, m, x)
    m.b = torch.full((3,), 4.0)
    agrees(compiled, m, x)
    m.a = m.b
    agrees(compiled, m, x)


def test_closures_that_share_an_entry():
    def make(shift):
        def f(t):
            return t + shift

        return f

    functions = [make(torch.full((3,), float(i))) for i in range(3)]
    compiled = [stator.compile(f) for f in functions]
    for _ in range(30):
        for fast, plain in zip(compiled, functions, strict=True):
            assert_same(fast(x), plain(x))
    assert stator.counters()["captures"]["total"] == 1


def test_entries_that_take_turns():
    m = Model()
    compiled = stator.compile(m)
    other = torch.ones(5, 3)
    for t in (x, other) * 4:
        assert_same(compiled(t), m(t))
    before = stator.counters()["guards"]
    for t in (x, other) * 10:
        assert_same(compiled(t), m(t))
    after = stator.counters()["guards"]
    assert after["by_words"] - before["by_words"] == 20
    assert after["in_full"] == before["in_full"]
