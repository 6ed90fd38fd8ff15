"""Descriptors, __getattribute__, __setattr__, metaclasses, __init_subclass__, __class_getitem__, abstract classes."""

import abc
import functools

from tests.python.parity.corpus.registry import call, f, program

log = []


class Positive:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, owner=None):
        return self if obj is None else getattr(obj, self.name)

    def __set__(self, obj, value):
        if value <= 0:
            raise ValueError(f"{self.name} must be positive")
        setattr(obj, self.name, value)


class Box:
    width = Positive()

    def __init__(self, width):
        self.width = width


class Computed:
    """A non-data descriptor: the instance's own attribute wins."""

    def __get__(self, obj, owner=None):
        return 7


class Holder:
    value = Computed()


class Model:
    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def weights(self):
        log.append("computed")
        return [k * self.n for k in range(3)]


class Logged:
    def __init__(self, n):
        self.n = n

    def __setattr__(self, name, value):
        log.append((name, value))
        super().__setattr__(name, value)

    def __delattr__(self, name):
        log.append(("del", name))
        object.__delattr__(self, name)


class Intercepted:
    def __init__(self, n):
        self.n = n

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        return value * 2 if name == "n" else value


class Meta(type):
    registry = {}

    def __new__(mcs, name, bases, namespace):
        cls = super().__new__(mcs, name, bases, namespace)
        mcs.registry[name] = cls
        return cls

    @property
    def shout(cls):
        return cls.__name__.upper()

    def __len__(cls):
        return 3

    def __contains__(cls, item):
        return item == "in"

    def __iter__(cls):
        return iter([1, 2])


class Made(metaclass=Meta):
    k = 4


class Singleton(type):
    _instances = {}

    def __call__(cls, *args):
        if cls not in cls._instances:
            cls._instances[cls] = super().__call__(*args)
        return cls._instances[cls]


class Shared(metaclass=Singleton):
    def __init__(self, n):
        self.n = n


class Plugin:
    plugins = []

    def __init_subclass__(cls, priority=0, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.priority = priority
        Plugin.plugins.append(cls.__name__)


class Fast(Plugin, priority=2):
    pass


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self, x): ...

    def double(self, x):
        return self.area(x) * 2


class Square(Shape):
    def area(self, x):
        return x * x


class Generic:
    def __class_getitem__(cls, item):
        return (cls.__name__, item)


class New:
    def __new__(cls, n):
        self = super().__new__(cls)
        self.made = n * 2
        return self

    def __init__(self, n):
        self.n = n


class Immutable(tuple):
    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))

    @property
    def total(self):
        return self[0] + self[1]


@program((f(2), 3), (f(2), 4))
def data_descriptor(x, n):
    box = Box(n)
    box.width = box.width + 1
    try:
        box.width = -1
    except ValueError as error:
        return x * box.width, str(error)


@program((f(2), Box(3)), (f(2), Box(4)))
def data_descriptor_taken(x, box):
    box.width += 2
    return x * box.width, type(Box.width).__name__


@program((f(2), Holder()), (f(2), Holder()))
def non_data_descriptor(x, holder):
    a = x * holder.value
    holder.value = 2
    return a, x * holder.value


@program((f(2), Model(2)), (f(2), Model(3)))
def cached_property(x, model):
    return x * model.weights[1] + model.weights[2]


@program((f(2), 3), (f(2), 4))
def setattr_hook(x, n):
    obj = Logged(n)
    obj.n = 5
    obj.y = x * 2
    del obj.n
    return obj.y


@program((f(2), Intercepted(3)), (f(2), Intercepted(4)))
def getattribute_hook(x, obj):
    return x * obj.n


@program(f(2), f(3))
def metaclass_attributes(x):
    return x * Made.k, Made.shout, len(Made), "in" in Made, list(Made), type(Made).__name__


@program((f(2), 3), (f(2), 4))
def metaclass_instance(x, n):
    m = Made()
    m.k = n
    return x * m.k + Made.k, isinstance(Made, Meta)


@program((f(2), 3), (f(2), 4))
def singleton(x, n):
    a, c = Shared(n), Shared(99)
    return x * c.n, a is c


@program(f(2), f(3))
def init_subclass(x):
    return x * Fast.priority, Plugin.plugins


@program((f(2), 3), (f(2), 4))
def subclass_made_inside(x, n):
    class Inner(Plugin, priority=n):
        pass

    return x * Inner.priority


@program(f(2), f(3))
def abstract_class(x):
    try:
        Shape()
    except TypeError as error:
        return Square().double(x), str(error)[:30]


@program((f(2), Square()), (f(2), Square()))
def abstract_class_taken(x, shape):
    return shape.double(x) if isinstance(shape, Shape) else x


@program(f(2), f(3))
def class_getitem(x):
    return x * len(Generic[int]), Generic["k"], list[int] is not None


@program((f(2), 3), (f(2), 4))
def new_and_init(x, n):
    obj = New(n)
    return x * obj.made + obj.n, obj


@program((f(2), 3), (f(2), 4))
def tuple_subclass(x, n):
    t = Immutable(n, 2)
    return x * t.total, t, t[0], len(t)


@program((f(2), 3), (f(2), 4))
def type_called_with_three(x, n):
    cls = type("Dynamic", (Box,), {"extra": n, "apply": lambda self, t: t * self.width + self.extra})
    return cls(2).apply(x), cls.__name__


@program((f(2), Box(3)), (f(2), Holder()))
def type_of_argument(x, obj):
    if type(obj) is Box:
        return x * 2
    return x, type(obj).__name__, obj.__class__ is Holder


class Operator:
    def __matmul__(self, other):
        return other @ other.t()

    def __rmatmul__(self, other):
        return other.t() @ other

    def __index__(self):
        return 1

    def __getitem__(self, key):
        return key

    def __format__(self, spec):
        return f"<{spec}>"


@program(f(2, 3), f(3, 2))
def unusual_operators(x):
    op = Operator()
    return op @ x, [x, x * 2][op], op[1:2, ...], f"{op:>5}"


@program((f(2), Model(2)), call(f(2), Model(2), before=lambda t: setattr(Model, "extra", property(lambda s: s.n * 9))))
def property_added_between_calls(x, model):
    return x * (model.extra if hasattr(Model, "extra") else 1)


class Weird:
    def __eq__(self, other):
        log.append("eq")
        return True

    __hash__ = None


@program((f(2), Weird()), (f(2), Weird()))
def eq_with_effects(x, w):
    return x + 1 if w == 5 else x, w != 3, w in [1]


class Sums:
    """Says what a store does, and nothing about reading."""

    def __set__(self, instance, value):
        vars(instance)["total"] = vars(instance).get("total", 0) + value


class Account:
    total = Sums()


@program((f(2), Account()), (f(2), Account()))
def descriptor_that_only_writes(x, account):
    empty = type(account.total).__name__
    account.total = 2
    account.total = x
    made = Account()
    made.total = 3
    return account.total, made.total, made, empty
