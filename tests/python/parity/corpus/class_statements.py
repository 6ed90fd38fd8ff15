"""Classes that the program itself makes: statements in functions, `type(...)`, metaclasses, decorators."""

import abc
import collections
import dataclasses
import functools
import typing

import torch

from tests.python.parity.corpus.registry import f, program

registered = []
T = typing.TypeVar("T")


class Registry:
    def __init_subclass__(cls, *, tag="none", **rest):
        super().__init_subclass__(**rest)
        cls.tag = tag
        registered.append(cls.__name__)


class Meta(type):
    def __new__(mcls, name, bases, names, **options):
        made = super().__new__(mcls, name, bases, {**names, "made_by": mcls.__name__})
        made.options = sorted(options)
        return made

    def __init__(cls, name, bases, names, **options):
        super().__init__(name, bases, names)
        cls.length = len(name)

    def __call__(cls, *args):
        made = super().__call__(*args)
        made.called = True
        return made

    def __contains__(cls, name):
        return name in cls.__dict__


class Prepared(type):
    @classmethod
    def __prepare__(mcls, name, bases, **options):
        return {"given": options.get("start", 0)}

    def __new__(mcls, name, bases, names, start=0):
        return super().__new__(mcls, name, bases, names)

    def __init__(cls, name, bases, names, start=0):
        super().__init__(name, bases, names)


class Field:
    def __init__(self, default):
        self.default = default

    def __set_name__(self, owner, name):
        self.name = "_" + name
        self.owner = owner.__name__

    def __get__(self, instance, owner):
        return self if instance is None else instance.__dict__.get(self.name, self.default)

    def __set__(self, instance, value):
        instance.__dict__[self.name] = value * 2


class Base:
    scale = 3

    def __init__(self, x):
        self.x = x

    def forward(self):
        return self.x * self.scale


@program((f(2), 1), (f(2), 2), (f(2), 1))
def a_plain_class(x, n):
    class Plain:
        """Says so."""

        kind = "plain"
        sizes = [n, n + 1]

        def __init__(self, x):
            self.x = x

        def scaled(self, by=2):
            return self.x * by + self.sizes[0]

    made = Plain(x)
    return made.scaled(), made.scaled(by=n), made.kind, Plain.__name__, Plain.__doc__, Plain.__qualname__, Plain.sizes


@program((f(2), 1), (f(2), 2), (f(2), 1))
def super_finds_the_base(x, n):
    class Derived(Base):
        scale = n

        def __init__(self, x):
            super().__init__(x + 1)

        def forward(self):
            return super().forward() - __class__.scale

    class Further(Derived):
        def forward(self):
            return super().forward() * 2

    made = Further(x)
    kinds = [isinstance(made, kind) for kind in (Base, Derived, Further, int)]
    return (
        made.forward(),
        Derived(x).forward(),
        kinds,
        issubclass(Further, Derived),
        [c.__name__ for c in Further.__mro__],
    )


@program((f(2), 1), (f(2), 2), (f(2), 1))
def instances_that_are_returned(x, n):
    class Held:
        shared = x + 1

        def __init__(self, n):
            self.n, self.x = n, x * n

        def total(self):
            return self.x.sum() + self.n + self.shared.sum()

    made = Held(n)
    made.friend = Held(n + 1)
    kind = type(made)
    made.total()
    return made.x, made.friend.x, kind is Held, vars(made).keys() == {"n", "x", "friend"}, made.total()


def made_outside(x, n):
    class Point:
        def __init__(self, u):
            self.u = u

        def moved(self, by):
            return Point(self.u + by)

        def __eq__(self, other):
            return type(other) is Point and torch.equal(self.u, other.u)

        __hash__ = None

    return Point, Point(x * n)


@program((f(2), 1), (f(2), 2), (f(2), 1))
def what_is_returned_works_outside(x, n):
    first, second = made_outside(x, n), made_outside(x, n)
    return first[1].moved(n).u, first[0] is second[0], type(first[1]) is first[0], first[0].__qualname__


@program((f(2), 1), (f(2), 2), (f(2), 1))
def told_to_the_base(x, n):
    class First(Registry, tag=f"t{n}"):
        pass

    class Second(First):
        pass

    return x * n, First.tag, Second.tag, list(registered), Second().tag


@program((f(2), 1), (f(2), 2), (f(2), 1))
def descriptors_that_are_told_their_names(x, n):
    class Owner:
        a = Field(n)
        b = Field(x)

    made = Owner()
    before = made.a, made.b
    made.a = 5
    made.b = x * 3
    return before, made.a, made.b, Owner.a.name, Owner.b.owner, sorted(vars(made))


@program((f(2), 1), (f(2), 2), (f(2), 1))
def properties_and_other_kinds_of_methods(x, n):
    class Kinds:
        count = n

        def __init__(self, x):
            self._x = x

        @property
        def x(self):
            return self._x + 1

        @x.setter
        def x(self, to):
            self._x = to * 2

        @staticmethod
        def twice(v):
            return v * 2

        @classmethod
        def of(cls, x):
            return cls(x + cls.count)

    made = Kinds.of(x)
    made.x = made.x + n
    return made.x, Kinds.twice(x), made.twice(n), type(made) is Kinds, type(Kinds.__dict__["twice"]).__name__


@program((f(2), 1), (f(2), 2), (f(2), 1))
def metaclasses(x, n):
    class First(metaclass=Meta, colour="red"):
        def __init__(self, n):
            self.n = n

    class Second(First):
        pass

    made = Second(n)
    return x * made.n, made.called, First.made_by, First.options, Second.length, type(Second).__name__, "n" in First


@program((f(2), 1), (f(2), 2), (f(2), 1))
def a_namespace_that_is_prepared(x, n):
    class Given(metaclass=Prepared, start=n):
        twice = given * 2  # noqa: F821

    return x * Given.given, Given.twice


@program((f(2), 1), (f(2), 2), (f(2), 1))
def dataclasses_made_inside(x, n):
    @dataclasses.dataclass
    class Point:
        u: torch.Tensor
        n: int = 4
        names: list = dataclasses.field(default_factory=list)

        def total(self):
            return self.u * self.n

    @dataclasses.dataclass(frozen=True, order=True)
    class Key:
        a: int
        b: int = n

    point = Point(x, n)
    point.names.append("a")
    fields = [field.name for field in dataclasses.fields(Point)]
    frozen = None
    try:
        Key(1).a = 3
    except dataclasses.FrozenInstanceError as error:
        frozen = str(error)
    return point.total(), Point(x).total(), point.names, fields, Key(1) < Key(2), Key(1, 2) == Key(1, 2), frozen


@program((f(2), 1), (f(2), 2), (f(2), 1))
def abstract_classes(x, n):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self):
            """How large it is."""

        def twice(self):
            return self.area() * 2

    class Square(Shape):
        def __init__(self, side):
            self.side = side

        def area(self):
            return self.side**2

    try:
        Shape()
        said = None
    except TypeError as error:
        said = str(error)
    return Square(x).twice(), isinstance(Square(x), Shape), sorted(Shape.__abstractmethods__), said


@program((f(2), 1), (f(2), 2), (f(2), 1))
def closures_and_names_in_a_body(x, n):
    scale = n + 1
    factors = [1, 2]

    class Outer:
        larger = scale * 10
        inner = [k * 2 for k in factors]
        for k in range(2):
            last = k
        del k

        class Inner:
            value = n

            def get(self):
                return scale, Outer.larger, self.value

        def get(self):
            return self.Inner().get()

    return x * Outer.larger, Outer().get(), Outer.inner, Outer.last, hasattr(Outer, "k"), Outer.Inner.__qualname__


@program((f(2), 1), (f(2), 2), (f(2), 1))
def classes_from_a_call(x, n):
    Made = type("Made", (Base,), {"scale": n, "shown": lambda self: self.x - self.scale})
    pair = collections.namedtuple("Pair", "a b", defaults=(n,))(x)
    made = Made(x)
    return made.forward(), made.shown(), Made.__name__, Made.__module__ == __name__, pair, pair._replace(a=1)


@program((f(2), 1), (f(2), 2), (f(2), 1))
def written_to_after_it_was_made(x, n):
    class Open:
        value = 1

    Open.value = n
    Open.double = lambda self: x * self.value
    Open.extra = [n]
    before = Open().double()
    Open.value += 1
    setattr(Open, f"name{n}", "set")
    del Open.extra
    return before, Open().double(), sorted(k for k in vars(Open) if not k.startswith("__"))


@program((f(2), 1), (f(2), 2), (f(2), 1))
def exceptions_of_its_own(x, n):
    class Bad(ValueError):
        def __init__(self, n):
            super().__init__(f"bad {n}")
            self.n = n

    class Worse(Bad):
        pass

    try:
        raise Worse(n)
    except Bad as error:
        said = str(error), error.n, type(error).__name__
    return x * n, said


@program((f(2), 1), (f(2), 2), (f(2), 1))
def subclasses_of_containers(x, n):
    class Bag(dict):
        def __missing__(self, key):
            return key * n

    class Row(list):
        def total(self):
            return sum(self)

    bag, row = Bag(a=x), Row([x, x])
    row.append(n)
    return bag["a"], bag[3], row.total(), isinstance(row, list), len(row)


@program((f(2), 1), (f(2), 2), (f(2), 1))
def modules_made_inside(x, n):
    class Scaled(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def forward(self, x):
            return torch.relu(x) * self.n

    return Scaled(n)(x), Scaled.__name__


@program((f(2), 1), (f(2), 2), (f(2), 1))
def typed_forms(x, n):
    class Pair(typing.NamedTuple):
        left: torch.Tensor
        right: int = 7

        def total(self):
            return self.left * self.right

    class Options(typing.TypedDict, total=False):
        size: int
        name: str

    class Box(typing.Generic[T]):
        def __init__(self, item: T):
            self.item = item

    options = Options(size=n)
    return Pair(x).total(), Pair(x, n), options, Box(x).item, Pair._fields, dict(Pair._field_defaults)


@program((f(2), 1), (f(2), 2), (f(2), 1))
def slots_and_order(x, n):
    @functools.total_ordering
    class Ranked:
        __slots__ = ("rank", "x")

        def __init__(self, rank):
            self.rank, self.x = rank, x

        def __eq__(self, other):
            return self.rank == other.rank

        def __lt__(self, other):
            return self.rank < other.rank

    try:
        Ranked(1).other = 2
        said = None
    except AttributeError as error:
        said = str(error)
    low, high = Ranked(n), Ranked(n + 1)
    return low.x * 2, low <= high, high > low, low >= high, said


@program((f(2), 1), (f(2), 2), (f(2), 1))
def classes_and_breaks(x, n):
    class Before:
        scale = n

        def forward(self, x):
            print("forward", self.scale)
            return x * self.scale

    made = Before()
    first = made.forward(x)

    class After(Before):
        scale = n + 1

    return first + After().forward(first), After.__mro__[1] is Before, type(made) is Before


@program((f(2), 1), (f(2), 2), (f(2), 1))
def keys_and_members(x, n):
    class A:
        pass

    class B(A):
        pass

    table = {A: x, B: x + n}
    return table[B], [table[kind] for kind in (A, B)], A in table, int in table, B in [A, B], A != B
