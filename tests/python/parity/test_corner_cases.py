"""Corner cases of the language: overridden lookups, methods that are None, errors that built-in classes raise."""

import collections
import copy
import functools
import itertools
import sys
import types

import pytest
import torch

import stator
from tests.python.helpers import assert_same
from tests.python.parity.programs import Programs, x

programs = Programs()


class Slotted:
    __slots__ = ("a",)


class Setting:
    """A descriptor with `__set__` only; reading uses the instance."""

    def __set__(self, instance, value):
        instance.__dict__["field"] = value


class Stored:
    field = Setting()


@programs((x,))
def instances_without_a_dict(a):
    return a + 1, [hasattr(made, "__dict__") for made in (object(), Slotted(), Stored())]


@programs((x,))
def descriptor_that_only_sets(a):
    made = Stored()
    before = made.field is Stored.__dict__["field"]
    made.field = 3
    return a + made.field, before


class Base:
    def __new__(cls):
        return object.__new__(Derived)


class Derived(Base):
    def __init__(self):
        self.made_by = "derived"


@programs((x,))
def instance_of_a_subclass(a):
    return a + 1, Base().made_by


class Blocked:
    __bool__ = None
    __contains__ = None
    __len__ = None
    __add__ = None


@programs((x,))
def methods_that_are_none(a):
    texts = []
    for use in (bool, len, lambda b: 1 in b, lambda b: b + 1):
        try:
            texts.append(use(Blocked()))
        except TypeError as error:
            texts.append(str(error))
    return a + 1, texts


class Other:
    pass


@programs((x,))
def super_of_something_else(a):
    class Known(Other):
        def method(self):
            return super()

    texts = []
    for use in (lambda: super(Known, 42), lambda: Known.method(3), lambda: super(Known, Other())):
        try:
            texts.append(use())
        except TypeError as error:
            texts.append(str(error))
    return a + 1, texts


@programs((x,))
def read_only_fields(a):
    made = functools.partial(max, 1)
    try:
        made.func = min
    except AttributeError as error:
        return a + made(2), str(error)


class Returning:
    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(42)


@programs((x,), breaks="generator")
def value_that_an_iterator_ends_with(a):
    def outer():
        found.append((yield from Returning()))

    found = []
    return a + 1, list(outer()), found


class Ordered(collections.OrderedDict):
    pass


@programs(
    (x, Ordered(a=1, b=2), Ordered(b=2, a=1)),
    (x, collections.OrderedDict(a=1, b=2), Ordered(b=2, a=1)),
    (x, Ordered(a=1, b=2), dict(b=2, a=1)),
)
def order_of_ordered_dicts(a, first, second):
    return a + 1, first == second, first != second


class Queue(collections.deque):
    pass


@programs((x, Queue([1, 2]), Queue([1, 2])), (x, Queue([1, 2]), collections.deque([1, 3])), breaks="unknown_call")
def subclasses_of_deque(a, first, second):
    return a + 1, first == second, first != second, first == [1, 2]


@programs((x,))
def sets_that_views_make(a):
    keys, elements = {1: 2, 3: 4}.keys(), frozenset({1, 9})
    return a + 1, [keys & elements, elements & keys, elements | keys, keys - elements, elements - keys, elements ^ keys]


@programs((x,))
def steps_beyond_every_index(a):
    return a + 1, list(itertools.islice(itertools.count(), 1, 10, sys.maxsize))


@programs((x,), breaks="raises")
def counts_of_what_is_no_number(a):
    try:
        itertools.count("a")
    except TypeError as error:
        return a + 1, str(error)


@programs((x,))
def tuples_that_need_no_copy(a):
    plain, holding = (1, ("b", 2.0)), ([1],)
    return a + 1, copy.deepcopy(plain) is plain, copy.deepcopy(holding) is holding, copy.deepcopy(holding)


class Hiding:
    def __getattribute__(self, name):
        if name.startswith("__reduce"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)


@programs((x,), breaks="unknown_call")
def copies_that_are_refused(a):
    texts = []
    for copied in (copy.copy, copy.deepcopy):
        try:
            copied(Hiding())
        except copy.Error as error:
            texts.append(str(error)[:10])
    return a + 1, texts


@programs((x,))
def fields_of_exceptions_that_are_refused(a):
    texts = []
    for name in ("__traceback__", "__cause__", "__context__"):
        error = ValueError("kept")
        try:
            setattr(error, name, 5)
        except TypeError as refused:
            texts.append(str(refused))
    return a + 1, texts


@programs((x,))
def circle_of_contexts(a):
    first, second, third = ValueError(1), ValueError(2), ValueError(3)
    first.__context__, second.__context__, third.__context__ = second, third, second
    try:
        try:
            raise first
        except ValueError:
            raise KeyError("last")  # noqa: B904
    except KeyError:
        return a + 1


@programs((x, range(0)), (x, range(-10, -10)), (x, range(0, 5, 2)), (x, range(0, 6, 2)))
def bounds_of_ranges(a, given):
    return a + len(given), given.start, given.stop, given.step, repr(given)


@programs((x, frozenset({1})), (x, frozenset({True})), (x, frozenset({1.0})))
def classes_of_elements(a, given):
    return a + 1, [type(element) for element in given]


class Pair(tuple):
    pass


@programs((x, Pair((1, 2))), (x, Pair()), breaks="raises")
def parts_of_subclasses_of_tuple(a, given):
    made = given * 1, given[:], given + (), () + given
    return a + 1, [type(part) for part in made], [part is given for part in made]


class Lengthy:
    def __len__(self):
        return 3


@programs((x,))
def calls_that_built_in_functions_refuse(a):
    texts = []
    for use in (lambda: reversed(Lengthy()), lambda: iter(3, 4), lambda: sum([b"a"], b"")):
        try:
            texts.append(use())
        except TypeError as error:
            texts.append(str(error))
    return a + 1, texts


class CallsItself:
    pass


CallsItself.__call__ = CallsItself()


@programs((x,), breaks="unknown_object")
def call_of_a_call_of_a_call(a):
    try:
        CallsItself()()
    except RecursionError:
        return a + 1


@programs((x,))
def attributes_without_a_name(a):
    made = Other()
    made.__dict__[1] = 2
    made.__dict__[(3, 4)] = 5
    made.known = 6
    return a + made.known, len(made.__dict__), hasattr(made, "unknown")


class Window(types.ModuleType):
    scale = 3

    def twice(self):
        return 2 * self.base


module = Window("module")
module.base = 5


@programs((x,))
def module_of_a_class_of_its_own(a):
    return a * module.scale, hasattr(module, "nothing"), module.base


def ordered(**attributes):
    made = collections.OrderedDict(key=1)
    vars(made).update(attributes)
    return made


@programs((x, ordered()), (x, ordered(tag=3)), (x, ordered(keys=4)), (x, ordered()), breaks="unknown_call")
def attributes_of_an_ordered_dict(a, given):
    scale = given.tag if hasattr(given, "tag") else getattr(given, "other", 2)
    return a * scale, callable(given.keys), [vars(copied) for copied in (copy.copy(given), copy.deepcopy(given))]


@programs((x,), (x + 1,))
def attributes_that_a_dict_is_given(a):
    made = collections.OrderedDict(key=1)
    made.tags = collections.OrderedDict()
    if hasattr(made, "tags"):
        made.tags["here"] = a + 1
    return made, made.tags


def test_a_copy_of_a_tensor_with_attributes():
    def fn(given):
        return copy.deepcopy(given)

    compiled = stator.compile(fn)
    for attributes in ({}, {"tag": 1}, {}, {"tag": 2}):
        given = torch.ones(2)
        vars(given).update(attributes)
        assert vars(compiled(given)) == attributes


def test_states_of_modules():
    def fn():
        return torch.nn.Sequential(torch.nn.Linear(2, 2)).state_dict()

    expected = fn()
    made = stator.compile(fn)()
    assert list(made) == list(expected)
    assert made._metadata == expected._metadata


def test_traceback_that_an_exception_is_given():
    def fn():
        try:
            raise KeyError("first")
        except KeyError as error:
            kept = error.__traceback__
        try:
            raise IndexError("second").with_traceback(kept)
        except IndexError as error:
            return error.__traceback__.tb_next is kept

    for fuel in (0, 3, 9, 11):
        with stator.config.patch(break_after=fuel):
            assert stator.compile(fn)()
        stator.reset()


class WithProperty:
    @property
    def one(self):
        return 1


@pytest.mark.parametrize("arguments", [(None,), (None, None), (None, WithProperty), (WithProperty(),)])
def test_property_get(arguments):
    found = vars(WithProperty)["one"]

    def fn(a):
        try:
            return a + 1, found.__get__(*arguments)
        except TypeError as error:
            return a, str(error)

    assert_same(stator.compile(fn)(x), fn(x))


INDEX_LISTS = [
    [],
    [1],
    [1, 0],
    [1.0],
    [True, False, True],
    [[0, 1], [1, 0]],
    [[0, 1]],
    [[0, 1], 1],
    [None],
    [None, 1],
    [..., 0],
    [slice(0, 1), 1],
    [(0, 1), (1, 1)],
    [[0, 1]] * 32,
    ([[0, 1], [1, 0]],),
]


@pytest.mark.parametrize("index", INDEX_LISTS, ids=str)
def test_lists_as_indices(index):
    def read(t):
        return t[index]

    def write(t):
        t = t.clone()
        t[index] = 7.0
        return t

    def answer(fn, t):
        try:
            return fn(t)
        except (IndexError, TypeError, ValueError) as error:
            return type(error), str(error)

    for fn in (read, write):
        for t in (torch.arange(3.0), torch.arange(9.0).view(3, 3)):
            assert_same(answer(stator.compile(fn), t), answer(fn, t))


test_corner_cases = programs.tests()
