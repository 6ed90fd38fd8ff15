"""Code that classes run implicitly: metaclasses, descriptors, hooks."""

import abc
import dataclasses
import functools

import stator
from tests.python.parity.corpus.registry import f, program

log = []


class SetsLoudly(type):
    def __setattr__(cls, name, value):
        log.append(("set", name))
        super().__setattr__(name, value)


class MissesLoudly(type):
    def __getattr__(cls, name):
        log.append(("missing", name))
        raise AttributeError(name)


class ReadsLoudly(type):
    def __getattribute__(cls, name):
        log.append(("read", name))
        return "shown" if name == "hidden" else super().__getattribute__(name)

    def __getattr__(cls, name):
        return name.upper()


class AbstractLoudly(abc.ABCMeta):
    def __setattr__(cls, name, value):
        log.append(("set", name))
        super().__setattr__(name, value)


class Orders(type):
    def mro(cls):
        log.append("mro")
        return super().mro()


class Fails(type):
    @property
    def value(cls):
        raise AttributeError("value")

    def __getattr__(cls, name):
        return "instead of " + name


class Read(metaclass=ReadsLoudly):
    kept = 3


class Failing(metaclass=Fails):
    pass


class Whole:
    """A field that keeps whole numbers."""

    def __init__(self, default):
        self.default = default

    def __set_name__(self, owner, name):
        log.append(("name", name))
        self.name = "_" + name

    def __get__(self, instance, owner):
        log.append(("get", instance is None))
        return self.default if instance is None else getattr(instance, self.name, self.default)

    def __set__(self, instance, value):
        log.append(("set", value))
        setattr(instance, self.name, int(value))


class Shown:
    def __init__(self, number):
        self.number = number

    def __repr__(self):
        log.append(("shown", self.number))
        return "Shown"


class Curious:
    def __getattr__(self, name):
        log.append(("asked", name))
        raise AttributeError(name)


class Walks(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        log.append((cls.__name__, other.__name__))
        return True if "walk" in vars(other) else NotImplemented


class Moves(abc.ABC):
    pass


class Flies(Moves):
    @classmethod
    def __subclasshook__(cls, other):
        log.append(("flies", other.__name__))
        return "fly" in vars(other)


class Walker:
    def walk(self):
        pass


class Stone:
    pass


class Substitute:
    def __mro_entries__(self, bases):
        log.append(len(bases))
        return (Walker,)


substitute = Substitute()


class Base:
    kind = "base"
    size = 1


class Derived(Base):
    kind = "derived"


class Tight:
    __slots__ = ()


@program((f(2), 1), (f(2), 2), (f(2), 2))
def a_dataclass_whose_metaclass_sets(x, n):
    @dataclasses.dataclass
    class Made(metaclass=SetsLoudly):
        a: int = n

    return x * Made().a, list(log)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def a_dataclass_whose_metaclass_misses(x, n):
    @dataclasses.dataclass
    class Made(metaclass=MissesLoudly):
        a: int = n

    return x * Made().a, list(log)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def an_order_whose_metaclass_sets(x, n):
    @functools.total_ordering
    class Made(metaclass=SetsLoudly):
        def __init__(self, v):
            self.v = v

        def __lt__(self, other):
            return self.v < other.v

    return x * n, Made(1) >= Made(n), list(log)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def an_abstract_class_whose_metaclass_sets(x, n):
    class Made(metaclass=AbstractLoudly):
        @abc.abstractmethod
        def a(self): ...

    class Done(Made):
        def a(self):
            return n

    return x * Done().a(), list(log)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def descriptors_as_fields_of_a_dataclass(x, n):
    @dataclasses.dataclass
    class Made:
        a: int = Whole(n)
        b: int = 4

    made = Made()
    return x * made.a, Made(7.5).a, made.b, list(log)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def a_default_that_is_shown_in_the_text(x, n):
    @dataclasses.dataclass
    class Made:
        a: Shown = Shown(n)
        b: Shown = dataclasses.field(default=Shown(5))

    return x + n, list(log), Made.__doc__


@program((f(2), 1), (f(2), 2), (f(2), 2))
def parts_of_an_abstract_class_are_asked(x, n):
    class Made(abc.ABC):
        a = Curious()

        def m(self):
            return n

    return x + Made().m(), list(log)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def what_a_base_wants_is_looked_for(x, n):
    class Wants(abc.ABC):
        @property
        @abc.abstractmethod
        def a(self): ...

    class Has(Wants):
        a = Whole(n)

    return x + Has().a, list(log), sorted(Wants.__abstractmethods__), sorted(Has.__abstractmethods__)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def hooks_are_asked_once_and_in_their_turn(x, n):
    log.append("before")
    first = isinstance(Walker(), Walks), isinstance(Stone(), Walks), issubclass(int, Walks)
    log.append("between")
    second = isinstance(Walker(), Walks), isinstance(Stone(), Walks), isinstance(n, Walks)
    return x * n, first, second, list(log)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def hooks_of_classes_below(x, n):
    log.append("before")
    return x * n, isinstance(Walker(), Moves), isinstance(Stone(), Moves), list(log)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def a_metaclass_that_orders_the_bases(x, n):
    class Made(metaclass=Orders):
        v = n

    class Below(Made):
        pass

    return x * Below.v, list(log), Below.__mro__[1] is Made


@program((f(2), 1), (f(2), 2), (f(2), 2))
def an_object_as_a_base(x, n):
    class Made(substitute):
        pass

    return x * n, list(log), Made.__bases__[0] is Walker, Made.__orig_bases__[0] is substitute


@program((f(2), 1), (f(2), 2), (f(2), 2))
def a_metaclass_that_reads(x, n):
    found = Read.kept, Read.hidden, Read.other, hasattr(Read, "whatever"), Read.__name__
    return x * n, found, list(log)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def a_property_of_a_metaclass_that_fails(x, n):
    return x * n, Failing.value, Failing.other


@program((f(2), 1), (f(2), 2), (f(2), 2))
def super_finds_what_was_written(x, n):
    class Below(Derived):
        def get(self):
            return super().size, super().kind

        @classmethod
        def of_class(cls):
            return super().size

    Base.size = n
    Derived.kind = n
    found = Below().get(), Below.of_class(), super(Derived, Derived()).size
    Base.size = n + 5
    return x + n, found, Below().get(), super(Derived, Derived()).size


@program((f(2), 1), (f(2), 2), (f(2), 2))
def what_was_written_cannot_be_hidden(x, n):
    tight = Tight()
    Tight.extra = n
    try:
        tight.extra = 3
    except AttributeError as error:
        return x * tight.extra, str(error)
    return None


@program((f(2), 1), (f(2), 2), (f(2), 2))
def descriptors_are_written_behind_a_break(x, n):
    class Made:
        pass

    stator.graph_break()
    Made.number = property(lambda self: n)
    Made.own = classmethod(lambda cls: cls)
    Made.plain = staticmethod(lambda: n + 1)
    Made.upper = str.upper
    made = Made()
    return x + made.number, made.own() is Made, made.plain(), Made.number.fget(made)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def a_metaclass_is_written_to(x, n):
    MissesLoudly.extra = n

    class Made(metaclass=MissesLoudly):
        pass

    return x * Made.extra, hasattr(Made(), "extra"), list(log)


@program((f(2), 1), (f(2), 2), (f(2), 2))
def properties_that_refuse(x, n):
    class Made:
        fixed = property(lambda self: n)
        other = fixed

    Made.late = property(lambda self: n)
    made, found = Made(), []
    for name in ("fixed", "other", "late"):
        try:
            setattr(made, name, 3)
        except AttributeError as error:
            found.append(str(error))
        try:
            delattr(made, name)
        except AttributeError as error:
            found.append(str(error))
    return x * made.late, found
