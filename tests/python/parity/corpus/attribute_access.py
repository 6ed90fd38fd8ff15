"""Other attribute access: dicts whose items are attributes, methods of methods, explicit `__get__` calls."""

import collections
import operator
import types

import torch

from tests.python.parity.corpus.registry import call, f, program


class Items(dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class Careful(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value


class Both(dict):
    def __getattr__(self, name):
        try:
            return object.__getattribute__(self, name)
        except AttributeError:
            if name in self:
                return self[name]
            raise

    def __setattr__(self, name, value):
        try:
            object.__getattribute__(self, name)
        except AttributeError:
            self[name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name):
        del self[name]


class Shared(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


def changed(x, options):
    options.scale = options.inner.k + 1
    options["shift"] = options.scale * 2
    options.update(extra=options.shift + 1)
    del options.gone
    return x * options["scale"] + options.shift, options.extra, sorted(options), options.get("none"), "gone" in options


def options_of(kind):
    return kind(gone=1, inner=kind(k=2))


@program(f(3), f(2))
def items_as_attributes(x):
    return changed(x, options_of(Items))


@program(f(3), f(2))
def careful_attributes(x):
    options = options_of(Careful)
    return changed(x, Both(options)), hasattr(options, "nowhere"), getattr(options, "nowhere", 4)


@program(*(call(f(size), Both(gone=1, inner=Careful(k=2))) for size in (3, 2)))
def attributes_of_an_argument(x, options):
    return changed(x, options), hasattr(options, "nowhere"), list(options)


@program(f(3), f(2))
def own_dict_made_inside(x):
    return changed(x, options_of(Shared))


shared = Shared(a=1, b=2)


@program(f(3), f(2))
def own_dict_from_outside(x):
    shared.a = shared["b"] + 1
    first = shared["a"], vars(shared)["a"], vars(shared) is shared
    shared["b"] = shared.a - 1
    return x * shared.a + shared.b, first, sorted(shared)


class Frozen:
    def __init__(self, a, b):
        put = bind(self)
        put("a", a)
        put("b", b)

    def __setattr__(self, name, value):
        raise AttributeError(name)


bind = object.__setattr__.__get__


@program(f(3), f(2))
def fields_of_frozen_instances(x):
    made = Frozen(x * 2, 3)
    try:
        made.a = 1
    except AttributeError as error:
        return made.a + made.b, error.args


@program(f(3), f(2))
def bound_by_hand(x):
    add = list.append.__get__(kept := [])
    add(x)
    twice = (lambda self, y: y * self).__get__(2)
    return twice(x), kept, str.upper.__get__("a")(), int.__add__.__get__(3)(4), torch.Tensor.sin.__get__(x)()


class Counter:
    count = 3

    def more(self, *args, **kwargs):
        return self.count, args, sorted(kwargs)


one, other = Counter(), Counter()
other.count = 5


@program(f(3), f(2))
def methods_of_methods(x):
    method, text, found = one.more, "abc".upper, len
    return (
        (method.__call__(1, k=2), method.__get__(other)(5), method.__class__.__name__, method.__name__),
        (method.__self__ is one, method.__func__ is Counter.more, hasattr([].append, "__func__")),
        (text.__call__(), found.__call__([1]), dict.fromkeys.__call__("ab"), (3).__add__.__call__(4)),
        (Counter.more.__call__(one, 1), (lambda *args, **kwargs: (args, kwargs)).__call__(1, b=2), x + 1),
        ([].append.__class__.__name__, (3).__add__.__class__.__name__, "a".join.__self__),
    )


@program(f(3), f(2))
def attributes_by_name(x):
    options = options_of(Careful)
    for name, value in {"a": 1, "b": x}.items():
        setattr(options, name, value)
    found = [getattr(options, name, None) for name in ("a", "b", "c")]
    return found, operator.attrgetter("inner.k", "a")(options), options.b * 2


class Defaults(dict):
    def __missing__(self, name):
        made = self[name] = Defaults()
        return made

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


@program(f(3), f(2))
def attributes_that_appear(x):
    tree = Defaults()
    tree["left"].value = x
    tree["left"]["deep"]["value"] = x + 1
    return tree.left.value * 2, sorted(tree), sorted(tree.left), tree["left"].deep.value


class Ordered(collections.OrderedDict):
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]


@program(f(3), f(2))
def ordered_attributes(x):
    made = Ordered(b=x, a=2)
    made.move_to_end("b")
    return made.b * made.a, list(made), hasattr(made, "_none")


class Rows(list):
    def __getattr__(self, name):
        return [getattr(item, name) for item in self]


@program(f(3), f(2))
def attributes_of_all_items(x):
    rows = Rows([types.SimpleNamespace(a=x, b=1), types.SimpleNamespace(a=x + 1, b=2)])
    rows.append(types.SimpleNamespace(a=x * 2, b=3))
    return sum(rows.a), rows.b, len(rows)


class Number(float):
    def __getattr__(self, name):
        return name, self * 2


@program(f(3), f(2))
def attributes_of_numbers(x):
    half = Number(0.5)
    return x * half, half.nothing, half.real


@program(f(3), f(2))
def namespaces(x):
    space = types.SimpleNamespace(a=1, **{"b": x})
    space.c = space.b * 2
    del space.a
    vars(space)["d"] = 4
    return space.c + space.d, sorted(vars(space)), hasattr(space, "a"), space.__dict__["d"]


class Recorded:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append(name)
        super().__setattr__(name, value)

    def __delattr__(self, name):
        self.log.append("-" + name)
        super().__delattr__(name)

    def __getattribute__(self, name):
        if name != "log":
            object.__getattribute__(self, "log").append("?" + name)
        return super().__getattribute__(name)


@program(f(3), f(2))
def recorded_attributes(x):
    made = Recorded()
    made.a = x
    made.a += 1
    made.b = made.a * 2
    del made.a
    return made.b, made.log
