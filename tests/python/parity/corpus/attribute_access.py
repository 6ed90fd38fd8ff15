"""Attributes by other ways: dicts whose items are attributes, methods of methods, descriptors bound by hand."""

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
