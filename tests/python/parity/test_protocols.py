"""Protocols of classes and containers: class checks, order of calls, fields, finalization."""

import collections
import dataclasses
import typing
import weakref

import pytest
import torch

import stator
from tests.python.helpers import check_parity
from tests.python.parity.programs import Programs, any_number, x

programs = Programs()


# ---- isinstance with tuples and unions of classes


class SubclassMeta(type):
    def __subclasscheck__(cls, other):
        return other is int


class InstanceMeta(type):
    def __instancecheck__(cls, instance):
        return instance == 3


class BySubclass(metaclass=SubclassMeta):
    pass


class ByInstance(metaclass=InstanceMeta):
    pass


@programs((x, 3), (x, 4.0))
def unions_ask_in_two_ways(a, n):
    typed = isinstance(n, typing.Union[BySubclass, str]), isinstance(n, typing.Optional[ByInstance])
    plain = isinstance(n, BySubclass | str), isinstance(n, ByInstance | None)
    return a + 1, typed, plain


@programs((x, [1], None), (x, 3, (2,)))
def unions_of_aliases(a, n, m):
    kinds = typing.Union[typing.List, typing.Tuple], typing.Optional[typing.Sequence], typing.Sequence, int | None
    return a + 1, [(isinstance(n, kind), isinstance(m, kind)) for kind in kinds]


# ---- sum, max and min take items one by one


class Loud:
    def __init__(self, n, log):
        self.n = n
        self.log = log

    def __radd__(self, other):
        self.log.append(("add", self.n))
        return other + self.n

    def __gt__(self, other):
        self.log.append(("more", self.n))
        return self.n > other.n

    def __lt__(self, other):
        self.log.append(("less", self.n))
        return self.n < other.n


def made_one_by_one(log, *numbers):
    for n in numbers:
        log.append(("make", n))
        yield Loud(n, log)


@programs((x,))
def items_are_used_before_the_next_is_made(a):
    log = []
    total = sum(made_one_by_one(log, 1, 3, 2))
    most = max(made_one_by_one(log, 1, 3, 2)).n
    least = min(made_one_by_one(log, 1, 3, 2)).n
    return a + total, most, least, log


@programs((x,))
def first_item_that_does_not_add(a):
    log = []

    def items():
        for item in (1, 2.5, "three", 4):
            log.append(item)
            yield item

    for use in (sum, max):
        try:
            use(items())
        except TypeError:
            log.append("refused")
    return a + 1, log


@programs((x,))
def sums_of_numbers_and_tensors(a):
    items = [0.1] * 10
    return sum(items), sum([True, 2, 3.5]), sum([1, 10**30, 0.1, 0.2]), sum([0.1, a, 0.2]), sum([1j, 2], 0.5)


# ---- exceptions keep their arguments


@programs((x,), breaks="raises")
def written_args_leave_fields(a):
    stop, leave, missing = StopIteration(3), SystemExit(3), ImportError("text")
    for error in (stop, leave, missing):
        error.args = (5, 6)
    return a + 1, stop.value, leave.code, missing.msg, stop.args


@programs((x,))
def written_args_of_plain_exceptions(a):
    error, other = ValueError("before"), AttributeError("before")
    error.args = other.args = ("after", 1)
    return a + 1, str(error), str(other), error.args


class Quiet(StopIteration):
    def __init__(self, value):
        self.kept = value


@programs((x,), breaks="raises")
def field_that_an_init_does_not_set(a):
    return a + 1, Quiet(3).value, Quiet(3).kept


# ---- __hash__ of the program

calls = collections.deque()
scope = {"calls": calls}
exec("def loud_hash(self):\n    calls.append(1)\n    return 3\n", scope)  # noqa: S102


class Written:
    __hash__ = scope["loud_hash"]


@dataclasses.dataclass(frozen=True)
class Generated:
    n: int


def test_hash_of_code_without_a_file():
    """It is called as often as in the plain program; building the dict in the plan adds no call."""

    def fn(a):
        return a + 1, {Written(): 1}

    calls.clear()
    fn(x)
    wanted = len(calls)
    compiled = stator.compile(fn)
    for _ in range(3):
        calls.clear()
        _, made = compiled(x)
        assert len(calls) == wanted
        assert list(made.values()) == [1]


@programs((x,))
def hash_of_a_dataclass(a):
    return a + 1, {Generated(1): 2, Generated(3): 4}


# ---- weak references to objects that the program drops


class Held:
    pass


def drop_item(a, holder, reference):
    holder[0] = None
    return a + 1, reference() is None


def drop_all(a, holder, reference):
    before = reference() is None
    holder.clear()
    return a + 1, before, reference() is None


def drop_deeper(a, holder, reference):
    holder[0].own = None
    return a + 1, reference() is None


def drop_variable(a, holder, reference):
    last = holder.pop()
    before = reference() is None
    last = None
    return a + 1, before, reference() is None, last


def drop_another(a, holder, reference):
    holder.append(None)
    holder.pop()
    return a + 1, reference() is None


@pytest.mark.parametrize("fn", [drop_item, drop_all, drop_deeper, drop_variable, drop_another])
def test_weak_reference_sees_what_was_dropped(fn):
    def arguments():
        held = Held()
        held.own = Held()
        reference = weakref.ref(held.own if fn is drop_deeper else held)
        return x, [held], reference

    wanted = fn(*arguments())[1:]
    compiled = stator.compile(fn)
    for _ in range(3):
        assert compiled(*arguments())[1:] == wanted


kept = Held()
kept_reference = weakref.ref(kept)


@programs((x, [1]))
def weak_reference_beside_other_changes(a, others):
    others.append(2)
    return a + 1, kept_reference() is None


# ---- iterators of deques


def moves_of(n):
    """Methods that change a deque, with their arguments."""
    return {
        "append, pop": lambda d: (d.append(n), d.pop()),
        "left and back": lambda d: d.append(d.popleft()),
        "around": lambda d: d.rotate(len(d)),
        "reversed": lambda d: d.reverse(),
        "stored": lambda d: d.__setitem__(1, n),
        "nothing": lambda d: d.extend([]),
        "cleared": lambda d: d.clear(),
        "inserted": lambda d: d.insert(1, n),
        "removed": lambda d: d.remove(2),
    }


def after_moves(a, d, n):
    seen = []
    for name, move in moves_of(n).items():
        for start in (iter, reversed):
            for taken in (0, 1, 3):
                other = d.copy()
                items = start(other)
                for _ in range(taken):
                    seen.append(next(items))
                move(other)
                for _ in range(2):
                    try:
                        seen.append((name, next(items)))
                    except (RuntimeError, StopIteration) as error:
                        seen.append((name, type(error).__name__, str(error)))
    return a + 1, seen


@programs((x,))
def iterators_of_a_deque_that_moves(a):
    return after_moves(a, collections.deque([1, 2, 3]), 5)


@programs((x,))
def iterator_of_an_empty_deque(a):
    seen = []
    for d in (collections.deque(), collections.deque(maxlen=0)):
        for move in (lambda d: d.clear(), lambda d: d.extend([1, 2]), lambda d: d.append(1), lambda d: d.rotate(3)):
            items = iter(d)
            move(d)
            try:
                seen.append(next(items, "end"))
            except RuntimeError as error:
                seen.append(str(error))
            d.clear()
    return a + 1, seen


# ---- ranges of the profiler


@programs((x,))
def range_that_is_over(a):
    block = torch.profiler.record_function("part")
    before = block.record is None
    with block:
        made = a + 1
        inside = block.record is None
    return made, before, inside, block.record is None


def test_range_from_outside_is_over():
    def fn(a, block):
        with block:
            made = a * 2
        return made

    compiled = stator.compile(fn)
    for _ in range(2):
        block = torch.profiler.record_function("part")
        assert torch.equal(compiled(x, block), x * 2)
        assert type(block.record) is torch.ScriptObject


def test_range_around_a_break_ends():
    def fn(a):
        with torch.profiler.record_function("around"):
            made = a * 2
            stator.graph_break()
            made = made + 1
        return made + 1

    compiled = stator.compile(fn)
    compiled(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        compiled(x)
    assert [event.name for event in profile.events()].count("around") == 1
    check_parity(fn, (x,), (x,), graphs=any_number)


@programs((x,))
def range_that_was_never_entered(a):
    block = torch.profiler.record_function("part")
    try:
        block.__exit__(None, None, None)
    except AssertionError as error:
        return a + 1, str(error)


# ---- the warning about a limit


def test_limit_without_a_miss_names_none():
    def fn(a):
        made = a + 1
        stator.graph_break()
        return made * 2

    with (
        stator.config.patch(accumulated_recompile_limit=1),
        pytest.warns(RuntimeWarning, match="recompile_limit") as told,
    ):
        assert torch.equal(stator.compile(fn)(x), (x + 1) * 2)
    text = str(told[0].message)
    assert "what changed" not in text and len(text.splitlines()) == 1
    assert "captured 1 times (stator.config.accumulated_recompile_limit)" in text


test_programs = programs.tests()
