"""User classes: special methods, properties, inheritance, attributes that appear and change."""

import copy

import torch

from tests.python.parity.corpus.registry import call, f, factory, program


class Vector:
    def __init__(self, data):
        self.data = data

    def __add__(self, other):
        return Vector(self.data + (other.data if isinstance(other, Vector) else other))

    __radd__ = __add__

    def __mul__(self, k):
        return Vector(self.data * k)

    def __neg__(self):
        return Vector(-self.data)

    def __len__(self):
        return self.data.shape[0]

    def __getitem__(self, key):
        return self.data[key]

    def __setitem__(self, key, value):
        self.data = self.data.clone()
        self.data[key] = value

    def __iter__(self):
        return iter([self.data[k] for k in range(len(self))])

    def __contains__(self, n):
        return n == len(self)

    def __call__(self, x):
        return self.data * x

    def __eq__(self, other):
        return isinstance(other, Vector) and len(self) == len(other)

    def __hash__(self):
        return len(self)

    def __bool__(self):
        return len(self) > 2

    def __repr__(self):
        return f"Vector({len(self)})"


class Base:
    kind = "base"
    instances = 0

    def __init__(self, n):
        self.n = n
        type(self).instances += 1

    def compute(self, x):
        return x * self.n

    def describe(self):
        return f"{self.kind} {self.n}"


class Child(Base):
    kind = "child"

    def __init__(self, n, extra):
        super().__init__(n)
        self.extra = extra

    def compute(self, x):
        return super().compute(x) + self.extra


class Left(Base):
    def compute(self, x):
        return super().compute(x) + 1


class Right(Base):
    def compute(self, x):
        return super().compute(x) * 2


class Diamond(Left, Right):
    pass


class Lazy:
    def __init__(self):
        self.asked = []

    def __getattr__(self, name):
        if name.startswith("n"):
            self.asked.append(name)
            return int(name[1:])
        raise AttributeError(name)


class Temperature:
    def __init__(self, celsius):
        self._celsius = celsius

    @property
    def fahrenheit(self):
        return self._celsius * 1.8 + 32

    @fahrenheit.setter
    def fahrenheit(self, value):
        self._celsius = (value - 32) / 1.8


class Slotted:
    __slots__ = ("n", "x")

    def __init__(self, x, n):
        self.x, self.n = x, n


@program((f(3), f(3)), (f(2), f(2)))
def arithmetic_methods(x, y):
    v = Vector(x) + Vector(y) * 2 + 1
    return (-v).data, (1 + v).data


@program((f(3), 1), (f(4), 2))
def container_methods(x, k):
    v = Vector(x)
    v[k] = 5.0
    return v[k] + v[0], len(v), 3 in v, [t * 2 for t in v], v.data


@program(f(3), f(2))
def truth_call_and_repr(x):
    v = Vector(x)
    return v(2) if v else v(3), repr(v), f"{v}", str(v)


@program((f(3), f(3)), (f(3), f(2)))
def equality_and_hash(x, y):
    a, c = Vector(x), Vector(y)
    return x.sum() * (a == c), a != c, a == 3, {a: 1}.get(c), hash(a)


@program((Vector(f(3)), 2), (Vector(f(2)), 3))
def object_taken_and_changed(v, k):
    v.data = v.data * k
    v.label = k
    return v.data.sum()


@program((f(2), 3), (f(2), 4))
def inheritance_and_super(x, n):
    c = Child(n, extra=x)
    return c.compute(x), c.describe(), isinstance(c, Base), issubclass(Child, Base)


@program((f(2), 3), (f(2), 4))
def diamond(x, n):
    return Diamond(n).compute(x), [k.__name__ for k in Diamond.__mro__]


@program((f(2), Child(2, 3)), (f(2), Base(5)), (f(2), Diamond(2)))
def polymorphic_argument(x, obj):
    return obj.compute(x), obj.kind


@program(f(2), f(2), f(2))
def class_attribute_counts(x):
    b = Base(2)
    return b.compute(x) * Base.instances


@program((f(2), Lazy()), (f(2), Lazy()))
def getattr_hook(x, lazy):
    y = x * lazy.n12 + lazy.n3
    try:
        return lazy.other
    except AttributeError as error:
        return y, str(error), hasattr(lazy, "q"), lazy.asked


@program((f(2), Temperature(20.0)), (f(2), Temperature(-5.0)))
def property_with_setter(x, t):
    y = x * t.fahrenheit
    t.fahrenheit = 212
    return y, t._celsius


@program((f(2), 3), (f(2), 4))
def slots(x, n):
    s = Slotted(x, n)
    s.n += 1
    try:
        s.other = 1
    except AttributeError as error:
        return s.x * s.n, str(error), s


@program(Slotted(f(2), 3), Slotted(f(2), 4))
def slots_taken(s):
    s.x = s.x * s.n
    s.n = s.n + 1
    return s.x


@program((Base(2), f(2)), (Base(3), f(2)))
def setattr_delattr_hasattr(obj, x):
    setattr(obj, "extra", x * obj.n)
    found = hasattr(obj, "extra"), hasattr(obj, "gone"), getattr(obj, "gone", 7)
    del obj.n
    delattr(obj, "extra") if False else None
    return obj.extra, found, sorted(vars(obj))


@program((f(2), 3), (f(2), 4))
def defined_inside(x, n):
    class Local(Base):
        bonus = 10

        def compute(self, t):
            return super().compute(t) + self.bonus

    return Local(n).compute(x), Local.__name__


class Registry:
    items = {}

    @classmethod
    def add(cls, name, fn):
        cls.items[name] = fn
        return fn

    @staticmethod
    def names():
        return sorted(Registry.items)


@program((f(2), "a"), (f(2), "b"))
def class_level_registry(x, name):
    Registry.add(name, torch.relu)
    return Registry.items[name](x), Registry.names()


class Chain:
    def __init__(self, x):
        self.x = x

    def add(self, n):
        self.x = self.x + n
        return self

    def mul(self, n):
        self.x = self.x * n
        return self


@program((f(2), 3), (f(2), 4))
def fluent_interface(x, n):
    return Chain(x).add(n).mul(2).add(1).x


@program((Base(2), f(2)), (Base(3), f(2)))
def copies(obj, x):
    other = copy.copy(obj)
    other.n = 10
    deep = copy.deepcopy(obj)
    return obj.compute(x) + other.compute(x), deep.n, other.__dict__


@program(f(2), call(f(2), before=lambda t: setattr(Base, "kind", "changed")), f(2))
def class_attribute_changes_between_calls(x):
    return x * len(Base.kind)


def doubled(self, x):
    return x * self.n * 2


@program((Base(3), f(2)), call(Base(3), f(2), before=lambda t: setattr(Base, "compute", doubled)))
def method_replaced_between_calls(obj, x):
    return obj.compute(x)


@program((Base(3), f(2)), (Base(3), f(2)))
def method_shadowed_by_instance(obj, x):
    a = obj.compute(x)
    obj.compute = lambda t: t - 1
    return a, obj.compute(x)


@factory(f(2), f(2), f(2))
def stateful_object_as_closure():
    acc = Chain(torch.zeros(2))

    def step(x):
        acc.add(x).mul(2)
        return acc.x

    return step


@program((f(2), 2), (f(2), 3))
def comparison_methods(x, n):
    class Version:
        def __init__(self, k):
            self.k = k

        def __lt__(self, other):
            return self.k < other.k

        def __ge__(self, other):
            return not self < other

    a, c = Version(n), Version(3)
    return x * (a < c), a >= c, a > c, max([a, c]).k, sorted([c, a])[0].k


class Answers:
    """Its special methods give what they are told to."""


class Unsure:
    def __init__(self, answer):
        self.answer = answer

    def __bool__(self):
        return self.answer

    def __len__(self):
        return self.answer

    def __float__(self):
        return self.answer

    def __complex__(self):
        return self.answer


class Sized:
    def __init__(self, answer):
        self.answer = answer

    def __len__(self):
        return self.answer


@program((f(2), 1.5), (f(2), 1), (f(2), None), (f(2), True), (f(2), False))
def truth_must_be_a_bool(x, answer):
    return x + 1 if Answers(answer) else x - 1


@program((f(2), 1), (f(2), -1), (f(2), 1.0), (f(2), 2**70), (f(2), "a"), (f(2), True), (f(2), 0))
def length_must_be_an_index(x, answer):
    return x + 1, len(Sized(answer))


@program((f(2), 1), (f(2), -1), (f(2), 1.0), (f(2), 2**70), (f(2), "a"), (f(2), True), (f(2), 0))
def length_as_truth(x, answer):
    return x + 1 if Sized(answer) else x - 1


@program((f(2), 1), (f(2), 1.5), (f(2), 2j), (f(2), True))
def conversion_gives_another_number(x, answer):
    try:
        return x + 1, float(Answers(answer))
    except TypeError as error:
        return x - 1, str(error)


@program((f(2), 1), (f(2), 1.5), (f(2), 2j))
def complex_of_an_instance(x, answer):
    try:
        return x + 1, complex(Answers(answer))
    except TypeError as error:
        return x - 1, str(error)


class Hidden:
    """Fields that its class does not let anybody set, but for their place in the instance's dict."""

    def __init__(self, value):
        self.before = 1
        self.__dict__["field"] = value
        self.after = value
        vars(self)["counted"] = 0

    field = property(lambda self: self.__dict__["field"])

    @property
    def counted(self):
        return self.__dict__["counted"]

    @counted.setter
    def counted(self, value):
        self.__dict__["counted"] += value


@program((f(2), 1), (f(2), 2))
def fields_behind_properties(x, n):
    made = Hidden(x * n)
    made.counted = n
    made.counted = n
    return made.field + 1, made, list(vars(made))


class Never:
    __bool__ = None


class Long:
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


class Falsy(type):
    def __bool__(cls):
        return cls.__name__ != "Empty"


class Empty(metaclass=Falsy):
    pass


class Full(metaclass=Falsy):
    pass


def said_of(value):
    try:
        return "true" if value else "false"
    except (TypeError, ValueError) as error:
        return type(error).__name__, str(error)


@program((f(2), 1), (f(2), 0))
def truth_as_the_class_tells_it(x, n):
    values = [Unsure(True), Unsure(n), Unsure(None), Never(), Long(n), Long(-1), Empty, Full]
    return x + n, [said_of(value) for value in values]


class Keyed:
    def __init__(self, *parts):
        self.parts = parts

    def __hash__(self):
        return hash(self.parts)

    def __eq__(self, other):
        return self.parts == other.parts


class Minus:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        return self.n


@program((f(2), 1, "a"), (f(2), 2, "a"))
def hashes_as_the_program_sees_them(x, n, name):
    wide = hash(Keyed(n, name)) == hash((n, name))
    return x * n, wide, hash(Minus(-1)), hash(Minus(2**61 + n)), hash(Minus(2**70 + n)), hash(Minus(-(2**63)))


class Disguised:
    @property
    def __class__(self):
        return int


@program((f(2), Disguised), (f(2), int))
def an_instance_that_says_it_is_another(x, kind):
    made = kind()
    return x + 1, isinstance(made, int), isinstance(made, str)


class Checked(type):
    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance) or isinstance(instance, str)

    def __subclasscheck__(cls, other):
        return type.__subclasscheck__(cls, other) or other is str


class Wordy(metaclass=Checked):
    pass


@program((f(2), "a"), (f(2), Wordy()), (f(2), 1))
def checks_by_the_metaclass(x, v):
    parts = torch.nn.Parameter(torch.ones(2)), torch.ones(2), 3
    kinds = [isinstance(part, torch.nn.Parameter) for part in parts]
    return x + isinstance(v, Wordy), type.__instancecheck__(Wordy, v), issubclass(type(v), Wordy), kinds
