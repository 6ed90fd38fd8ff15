"""Programs of the golden files: the Python language."""

import dataclasses
import enum
import functools
from collections import OrderedDict, namedtuple

import torch

import stator
from tests.python.golden.registry import topic, x

# ---- straight code and calls

calls = topic("calls")


@calls()
def two_operators(t):
    return t.sin() + 1


@calls(lambda: (x(), 2), lambda: (x(), 3), lambda: (x(4), 3))
def captured_again(t, k):
    return t * k


@calls(lambda: (x(), x() + 1))
def defaults_and_keywords(a, b, *, scale=2.0):
    def inner(p, /, q, *rest, named=1, **more):
        return p * q + named + len(rest) + len(more)

    return inner(a, b, 1, 2, named=3, extra=4) * scale


@calls(lambda: (x(), 1), lambda: (x(), "one"), lambda: (x(), None))
def kinds_of_one_argument(t, what):
    if what is None:
        return t
    return t + 1 if isinstance(what, int) else t - len(what)


@calls()
def nested_functions(t):
    def outer(n):
        def inner(value):
            return value * n

        return inner

    return outer(2)(t) + outer(3)(t)


@calls(make=True)
def partial_of_a_function():
    def scaled(scale, t, shift=0):
        return t * scale + shift

    return functools.partial(scaled, 3, shift=2)


@calls()
def results_that_repeat_arguments(t):
    return t, [t, t + 1], {"t": t}, (t.view(-1),) * 2


# ---- loops and branches

loops = topic("loops")


@loops()
def unrolled(t):
    for i in range(3):
        t = t * i + 1
    return t


@loops(lambda: ([x(), x()],), lambda: ([x()],))
def over_a_list(ts):
    total = 0
    for i, t in enumerate(ts):
        total = total + t * i
    return total


@loops()
def while_with_break_and_else(t):
    n = 0
    while n < 5:
        n += 1
        if n == 3:
            break
    else:
        t = t - 100
    return t + n


@loops()
def break_inside_of_a_loop(t):
    for i in range(3):
        t = t + i
        stator.graph_break()
    return t


@loops()
def over_rows(t):
    return [row.sum() for row in t]


@loops(lambda: (x(), x() > 2))
def zipped_and_reversed(t, mask):
    return sum(a * b for a, b in zip(reversed(t), mask, strict=True))


branches = topic("branches")


@branches(lambda: (x(),), lambda: (-x(),))
def on_data(t):
    if t.sum() > 0:
        return t + 1
    return t - 1


@branches()
def one_arm_only_raises(t):
    if t.sum() < 0:
        raise ValueError("negative")
    return t.sqrt()


@branches(lambda: (x(), True), lambda: (x(), False))
def on_an_argument(t, flag):
    return t + 1 if flag else t - 1


@branches()
def on_shape_and_dtype(t):
    if t.shape[0] == 2 and t.dtype is torch.float32 and not t.requires_grad:
        return t * 2
    return t


@branches(lambda: ({"kind": "add", "by": 2}, x()), lambda: (("mul", 3), x()))
def match_statement(how, t):
    match how:
        case {"kind": "add", "by": int(n)}:
            return t + n
        case ("mul", n):
            return t * n
    return t


@branches()
def assertion_on_data(t):
    assert (t >= 0).all(), "negative"
    return t + 1


# ---- graph breaks, and captures after them

breaks = topic("breaks")


@breaks()
def explicit(t):
    y = t + 1
    stator.graph_break()
    return y * 2


@breaks()
def in_an_inlined_call(t):
    def inner(value):
        value = value + 1
        stator.graph_break()
        return value * 2

    return inner(t) - 1


@breaks()
def with_values_on_the_stack(t):
    def stops(value):
        stator.graph_break()
        return value

    return [t + 1, {"k": t * 2}, stops(t - 1)]


@breaks()
def inside_of_try(t):
    try:
        y = t + 1
        stator.graph_break()
        raise ValueError(y.shape)
    except ValueError as error:
        return t * 2, str(error)


@breaks()
def inside_of_with(t):
    with torch.no_grad():
        y = t + 1
        stator.graph_break()
        y = y * 2
    return y, torch.is_grad_enabled()


@breaks()
def prints(t):
    print(end="")
    return t + 1


@breaks()
def number_out_of_data(t):
    n = int(t.sum())
    return [0] * n, t + n


@breaks(make=True)
def disabled_function():
    hidden = stator.disable(lambda t: t + 1)

    def fn(t):
        return hidden(t * 2) * 3

    return fn


# ---- closures and globals

closures = topic("closures")
SCALE = 2
COUNT = 0


@closures(make=True)
def reads_cells():
    n, w = 3, torch.ones(3)
    return lambda t: t * n + w


@closures(lambda: (x(),), lambda: (x(),), make=True)
def writes_a_cell():
    n = 0

    def fn(t):
        nonlocal n
        n += 1
        return t * n

    return fn


@closures()
def reads_a_global(t):
    return t * SCALE


@closures()
def writes_a_global(t):
    global COUNT
    COUNT = 1
    return t + COUNT


@closures()
def gives_a_closure(t):
    y = t + 1

    def later(u):
        return u + y

    return later


# ---- generators and comprehensions

generators = topic("generators")


@generators()
def drained(t):
    def numbers():
        for i in range(3):
            yield t * i

    return sum(numbers())


@generators()
def sent_and_returned(t):
    def talk():
        got = yield t + 1
        got = yield got * 2
        return got

    def outer():
        result = yield from talk()
        yield result

    g = outer()
    return next(g), g.send(t), g.send(t - 1)


@generators()
def left_half_way(t):
    def numbers():
        yield t
        yield t + 1

    g = numbers()
    return next(g) * 2, g


@generators()
def comprehensions(t):
    rows = {i: row for i, row in enumerate(t)}
    return [rows[i] * i for i in rows if i], {i for i in range(3)}


# ---- exceptions

exceptions = topic("exceptions")


@exceptions()
def caught(t):
    try:
        raise KeyError("k")
    except (ValueError, KeyError) as error:
        return t + len(error.args)


@exceptions()
def from_an_operator(t):
    try:
        return t.view(7)
    except RuntimeError:
        return t.view(-1)


@exceptions()
def finally_runs(t):
    seen = []
    try:
        try:
            raise ValueError("first")
        finally:
            seen.append(1)
    except ValueError as error:
        seen.append(str(error))
    return t, seen


@exceptions()
def leaves_the_function(t):
    y = t + 1
    raise ValueError(y.shape)


@exceptions()
def missing_key_and_attribute(t):
    try:
        {}["k"]
    except KeyError:
        t = t + 1
    try:
        t.no_such_attribute
    except AttributeError:
        t = t + 2
    return t


# ---- containers and objects

containers = topic("containers")
Point = namedtuple("Point", "a b")


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Box:
    t: torch.Tensor
    n: int = 0


class Slotted:
    __slots__ = ("t",)


class Plain:
    def __init__(self, t):
        self.t = t

    @property
    def doubled(self):
        return self.t * 2

    def __add__(self, other):
        return Plain(self.t + other)


@containers(lambda: ({"a": x(), "b": 2},), lambda: ({"b": 2, "a": x()},))
def reads_a_dict(d):
    return d["a"] * d["b"] + len(d)


@containers()
def makes_containers(t):
    made = OrderedDict(a=t, b=[t + 1, (t, 2)])
    made["c"] = {"deep": made["a"]}
    return made, {1, 2}, Point(t, 3)


@containers(lambda: ([x()],))
def mutates_a_list(ts):
    ts.append(ts[0] + 1)
    ts[0] = ts[-1] * 2
    return len(ts)


@containers(lambda: ({"t": x()}, "new"))
def mutates_a_dict(d, key):
    d[key] = d.pop("t") + 1
    d.setdefault("n", 0)
    return sorted(d)


@containers(lambda: (Box(x()),), lambda: (Box(x(), 3),))
def dataclass_argument(box):
    box.n += 1
    return dataclasses.replace(box, t=box.t * box.n)


@containers(lambda: (x(), Colour.RED), lambda: (x(), Colour.BLUE))
def enum_argument(t, colour):
    return t + colour.value if colour is Colour.RED else t


@containers(lambda: (Plain(x()),))
def properties_and_operators(plain):
    made = plain + 1
    made.extra = plain.doubled
    return made


@containers()
def slots(t):
    made = Slotted()
    made.t = t + 1
    return made, hasattr(made, "other")


@containers()
def class_made_by_the_program(t):
    class Own(Plain):
        factor = 3

        def scaled(self):
            return self.t * self.factor

    return Own(t).scaled()


@containers(lambda: (x(), 3))
def text(t, n):
    return t, f"{n:>4} {t.shape}", "-".join(str(i) for i in range(n))
