"""User classes: special methods, descriptors, slots, metaclasses, and external instances that change."""

import abc
import collections
import copy
import dataclasses
import enum
import functools
import types
import typing

from tests.python.parity.programs import Programs, x, y

programs = Programs()


class Vector:
    __match_args__ = ("u", "v")

    def __init__(self, u, v):
        self.u, self.v = u, v

    def __repr__(self):
        return f"Vector({self.u}, {self.v})"

    def __eq__(self, other):
        return isinstance(other, Vector) and (self.u, self.v) == (other.u, other.v)

    def __hash__(self):
        return hash((self.u, self.v))

    def __add__(self, other):
        if isinstance(other, (int, float)):
            return Vector(self.u + other, self.v + other)
        if not isinstance(other, Vector):
            return NotImplemented
        return Vector(self.u + other.u, self.v + other.v)

    def __radd__(self, other):
        return Vector(other + self.u, other + self.v)

    def __iadd__(self, other):
        self.u += other
        return self

    def __neg__(self):
        return Vector(-self.u, -self.v)

    def __abs__(self):
        return (self.u**2 + self.v**2) ** 0.5

    def __bool__(self):
        return bool(self.u or self.v)

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return (self.u, self.v)[i]

    def __setitem__(self, i, value):
        if i == 0:
            self.u = value
        else:
            self.v = value

    def __delitem__(self, i):
        self[i] = None

    def __contains__(self, item):
        return item == self.u

    def __iter__(self):
        yield self.u
        yield self.v

    def __call__(self, k, *, by=1):
        return self.u * k * by

    def __lt__(self, other):
        return self.u < other.u

    def __format__(self, spec):
        return f"{self.u:{spec}}|{self.v:{spec}}" if spec else str(self)

    def __int__(self):
        return int(self.u)

    def __float__(self):
        return float(self.v)

    def __index__(self):
        return int(self.u)

    def __matmul__(self, other):
        return self.u * other.u

    def __divmod__(self, other):
        return "divmod", other

    def __reversed__(self):
        return [self.v, self.u]

    def __round__(self, n=None):
        return ("round", n)


@programs((x, 2, 3), (x, 0, 0))
def every_operator(a, p, q):
    u, w = Vector(p, q), Vector(q, p)
    w += 5
    u[0] = p + 1
    del w[1]
    return (
        a + u[0],
        u + 1,
        1 + u,
        sum([u, Vector(1, 1)]),
        -u,
        abs(Vector(3, 4)),
        bool(u),
        len(u),
        list(u),
        p + 1 in u,
        u(2, by=3),
        sorted([Vector(3, 1), Vector(1, 2)]),
        f"{u:>4}",
        f"{u}",
        f"{u!r}",
        "%s %r" % (u, u),
        "{:03d}".format(Vector(1, 2)) if False else format(u, ""),
        int(u),
        float(u),
        [10, 20, 30, 40][Vector(1, 0)],
        u @ w,
        u == Vector(p + 1, q),
        u != w,
        {u: 1}[Vector(p + 1, q)],
        reversed(u),
        round(u),
        round(u, 2),
        w,
    )


@programs((x, y))
def with_tensors(a, b):
    u = Vector(a, b)
    w = u + Vector(b, a)
    match w:
        case Vector(p, q):
            total = p + q
    return w.u, total, -u.u, (a + u).v if False else (u + 2).u


class Reflected:
    def __rsub__(self, other):
        return ("rsub", other)

    def __rmul__(self, other):
        return NotImplemented


class Child(Vector):
    def __radd__(self, other):
        return "child first"


@programs((x,))
def reflected(a):
    out = [5 - Reflected(), Vector(1, 2) + Child(3, 4)]
    for make in (lambda: 2 * Reflected(), lambda: Reflected() + 1, lambda: Reflected() < Reflected()):
        try:
            out.append(make())
        except TypeError as error:
            out.append(str(error))
    return a + 1, out


class Lazy:
    def __init__(self):
        self.known = 1

    def __getattr__(self, name):
        if name.startswith("no"):
            raise AttributeError(f"never {name}")
        return f"made {name}"

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if name != "log":
            self.__dict__.setdefault("log", []).append(name)

    def __delattr__(self, name):
        self.log.append("del " + name)
        object.__delattr__(self, name)


@programs((x,))
def attribute_hooks(a):
    o = Lazy()
    o.extra = 5
    del o.extra
    try:
        o.nothing
    except AttributeError as error:
        text = str(error)
    return a + o.known, o.other, o.log, text, getattr(o, "nope", 3), hasattr(o, "nix"), vars(o)["known"]


class Typed:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name, 0)

    def __set__(self, instance, value):
        setattr(instance, self.name, value * 2)

    def __delete__(self, instance):
        setattr(instance, self.name, -1)


class Computed:
    def __init__(self, fn):
        self.fn = fn

    def __get__(self, instance, owner=None):
        return self.fn(instance) if instance is not None else "class"


class Described:
    width = Typed()

    def __init__(self, w):
        self.width = w
        self._h = 3

    @Computed
    def area(self):
        return self.width * self._h

    @property
    def h(self):
        return self._h

    @h.setter
    def h(self, value):
        self._h = value

    @h.deleter
    def h(self):
        self._h = None

    @functools.cached_property
    def slow(self):
        return self._h + 100

    @classmethod
    def unit(cls):
        return cls(1)

    @staticmethod
    def twice(v):
        return v * 2


@programs((x, 4), (x, 5))
def descriptors(a, n):
    d = Described(n)
    area = d.area
    d.h = 7
    slow = d.slow
    d._h = 0
    del d.width
    out = [area, d.h, slow, d.slow, d.width, Described.unit().width, Described.twice(a), Described.area, d.__dict__]
    del d.h
    try:
        Described(1).area = 9
        del Described(1).slow
    except AttributeError as error:
        out.append(str(error))
    return a + area, out, d.h


class Slotted:
    __slots__ = ("p", "q")

    def __init__(self, p):
        self.p = p

    def __eq__(self, other):
        return self.p == other.p and getattr(self, "q", None) == getattr(other, "q", None)

    __hash__ = None


@programs((x, Slotted(3)), (x, Slotted(4)))
def slots(a, given):
    s = Slotted(a)
    out = [s.p + given.p, hasattr(s, "q"), hasattr(given, "q")]
    s.q = 1
    given.q = 5
    try:
        s.r = 2
    except AttributeError as error:
        out.append(str(error))
    try:
        Slotted(1).q
    except AttributeError as error:
        out.append(type(error).__name__)
    return out, s.q, given.q


class Registry(type):
    made: typing.ClassVar[list] = []

    def __call__(cls, *args):
        instance = super().__call__(*args)
        instance.tagged = cls.tag
        return instance

    def __contains__(cls, item):
        return item == cls.tag

    def __len__(cls):
        return 7

    def __getitem__(cls, i):
        return (cls.__name__, i)

    def __iter__(cls):
        return iter([cls.tag])

    @property
    def label(cls):
        return cls.tag.upper()


class Tagged(metaclass=Registry):
    tag = "t"

    def __init__(self, v):
        self.v = v

    def __class_getitem__(cls, item):
        return item


class Generic:
    def __class_getitem__(cls, item):
        return f"{cls.__name__}[{item}]"


@programs((x,))
def metaclasses(a):
    t = Tagged(a)
    return (
        t.v + 1,
        t.tagged,
        "t" in Tagged,
        len(Tagged),
        Tagged[3],
        list(Tagged),
        Tagged.label,
        type(Tagged).__name__,
        Generic[5],
    )


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    def __init_subclass__(cls, **kwargs):
        cls.sides = kwargs.get("sides", 0)


class Square(Shape, sides=4):
    def __init__(self, s):
        self.s = s

    def area(self):
        return self.s * self.s


class Mixin:
    def area(self):
        return super().area() + 1


class Odd(Mixin, Square):
    pass


@programs((x,))
def inheritance(a):
    o = Odd(a)
    try:
        Shape()
    except TypeError as error:
        text = str(error)
    return (
        o.area(),
        Odd.sides,
        text,
        isinstance(o, Shape),
        issubclass(Odd, Mixin),
        [c.__name__ for c in Odd.__mro__][:3],
    )


@dataclasses.dataclass
class Config:
    n: int
    name: str = "c"
    parts: list = dataclasses.field(default_factory=list)
    hidden: int = dataclasses.field(default=1, repr=False, compare=False)

    def __post_init__(self):
        self.n += 1


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    b: str = "b"


@dataclasses.dataclass(slots=True, kw_only=True)
class Keyed:
    v: typing.Any
    w: int = 3


@programs((x,), (y,))
def dataclass_features(a):
    c = Config(1)
    c.parts.append(a)
    other = dataclasses.replace(c, name="d")
    f = Frozen(2)
    try:
        f.a = 3
    except dataclasses.FrozenInstanceError as error:
        text = str(error)
    k = Keyed(v=a)
    return (
        c.parts[0] + c.n,
        other.n,
        repr(Frozen(1)),
        text,
        f < Frozen(3),
        f == Frozen(2),
        {f: 1}[Frozen(2)],
        k.v * k.w,
        dataclasses.asdict(Frozen(5)),
        dataclasses.astuple(Frozen(5)),
        [fd.name for fd in dataclasses.fields(c)],
        dataclasses.is_dataclass(c),
    )


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    def describe(self):
        return f"{self.name}={self.value}"

    @property
    def double(self):
        return self.value * 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Perm(enum.Flag):
    R = enum.auto()
    W = enum.auto()


@programs((x, Color.RED), (x, Color.BLUE))
def enums(a, c):
    table = {Color.RED: a, Color.BLUE: a * 2}
    return (
        table[c],
        c.describe(),
        c.double,
        Color(1),
        Color["BLUE"],
        [m.name for m in Color],
        c is Color.RED,
        len(Color),
        Level.HIGH > 3,
        Level.LOW + 1,
        (Perm.R | Perm.W).value,
        Perm.R in (Perm.R | Perm.W),
        c in (Color.RED,),
        f"{Level.LOW}",
        isinstance(c, Color),
    )


Point = collections.namedtuple("Point", "x y", defaults=[9])


class Named(typing.NamedTuple):
    t: typing.Any
    n: int = 1

    def scaled(self):
        return self.t * self.n


@programs((x,))
def named_tuples(a):
    p = Point(a)
    q = p._replace(y=2)
    n = Named(a, n=3)
    u, v = n
    return (
        p,
        q.y,
        p._asdict()["y"],
        n.scaled(),
        u + v,
        Point._fields,
        p[1],
        len(p),
        Point._make([1, 2]),
        n == (a, 3) if False else 1,
    )


class Tree:
    def __init__(self, value, left=None, right=None):
        self.value, self.left, self.right = value, left, right

    def total(self):
        out = self.value
        for child in (self.left, self.right):
            if child is not None:
                out = out + child.total()
        return out


@programs((x,))
def recursive_objects(a):
    t = Tree(a, Tree(a * 2), Tree(a * 3, Tree(a)))
    t.parent = t
    return t.total(), t.parent is t


@programs((x,))
def copies(a):
    c = Config(3)
    c.parts.append([1])
    shallow, deep = copy.copy(c), copy.deepcopy(c)
    deep.parts[0].append(2)
    shallow.name = "s"
    ns = types.SimpleNamespace(k=1, t=a)
    ns.k += 1
    return c.parts, deep.parts, shallow.parts is c.parts, c.name, ns.k, ns.t + 1, copy.copy([a])[0] is a


class Outside:
    shared: typing.ClassVar[int] = 3

    def __init__(self, n):
        self.n = n
        self.items = [n]

    def bump(self):
        self.n += 1
        self.items.append(self.n)
        return self.n

    def __eq__(self, other):
        return self.__dict__ == other.__dict__

    __hash__ = None


@programs((x, Outside(1)), (x, Outside(1)), (x, Outside(5)))
def outside_instances(a, o):
    o.bump()
    o.new = a.shape[0]
    o.__dict__["direct"] = 4
    del o.items[0]
    return a * o.n + o.new + o.direct, o.shared, vars(o)["n"], sorted(o.__dict__)


class DictLike(dict):
    def __missing__(self, key):
        return key * 2

    def total(self):
        return sum(self.values())


class ListLike(list):
    def first(self):
        return self[0]


class TupleLike(tuple):
    def second(self):
        return self[1]


@programs((x, DictLike(a=1)), (x, DictLike(a=2, b=3)))
def builtin_subclasses(a, given):
    d = DictLike(p=1)
    d["q"] = 5
    given["new"] = 7
    xs = ListLike([a, 2])
    xs.append(3)
    t = TupleLike([1, a])
    return (
        d["zz"],
        d.total(),
        given.total(),
        xs.first() + xs[-1],
        len(xs),
        t.second() * t[0],
        given["missing"],
        "q" in d,
    )


def singledispatched():
    @functools.singledispatch
    def show(v):
        return "other"

    @show.register
    def _(v: int):
        return f"int {v}"

    @show.register(list)
    def _(v):
        return f"list of {len(v)}"

    return show


show = singledispatched()


@programs((x, 3), (x, [1]), (x, "s"), (x, True))
def single_dispatch(a, v):
    return a + 1, show(v)


@functools.total_ordering
class Ordered:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n

    __hash__ = None


@programs((x,))
def total_ordering(a):
    p, q = Ordered(1), Ordered(2)
    return a + 1, p <= q, p > q, p >= q, max(p, q).n, sorted([q, p], reverse=True)[0].n


class Box:
    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, held=0):
        self.held = held


class Slim:
    __slots__ = ("held",)
    __class_getitem__ = classmethod(types.GenericAlias)

    def __init__(self, held):
        self.held = held


@programs((x, 2), (x, 3))
def aliases_that_are_called(a, n):
    d = dict[str, int](a=n)
    boxed, slim = Box[int](held=n), Slim[float](n)
    shown = boxed.__orig_class__, hasattr(slim, "__orig_class__"), vars(boxed)
    return a * boxed.held + slim.held, list[int]((n, 1)), tuple[int, ...]([n]), d, set[int](), shown


test_program = programs.tests()
