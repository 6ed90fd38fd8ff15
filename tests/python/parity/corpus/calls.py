"""Calling convention: defaults, keywords, star arguments, lambdas, methods, partials, decorators, wrong calls."""

import functools

import torch

from tests.python.parity.corpus.registry import call, f, factory, program


def affine(x, scale=2.0, *, bias=1.0):
    return x * scale + bias


def collect(*args, **kwargs):
    return len(args), sorted(kwargs), sum(args), sum(kwargs.values())


def only_positional(a, b, /, c):
    return a * b + c


def only_keyword(*, a, b=2):
    return a * b


class Layer:
    def __init__(self, width):
        self.width = width

    def forward(self, x, y=1):
        return x * self.width + y

    @classmethod
    def make(cls, width):
        return cls(width * 2)

    @staticmethod
    def scale(x, by):
        return x * by

    def __call__(self, x):
        return self.forward(x, y=2)


@program(f(3), f(3), f(2))
def defaults_and_keywords(x):
    return affine(x), affine(x, 3.0), affine(x, bias=0.5), affine(bias=2.0, scale=1.0, x=x)


@program((f(3), f(3)), (f(2), f(2)))
def star_arguments(x, y):
    args = [x, y]
    return collect(*args, x, k=y), collect(x, *(y, x)), collect(*args, **{"a": x, "b": y})


@program(f(3), f(2))
def positional_only(x):
    return only_positional(x, 2, 3), only_positional(x, 2, c=x)


@program(f(3), f(2))
def keyword_only(x):
    return only_keyword(a=x), only_keyword(b=3, a=x)


@program(call(f(3)), call(f(3), 3), call(f(3), 3, flag=True), call(f(3), n=2))
def called_in_several_ways(x, n=1, flag=False):
    return x * n + flag


@program(call(f(3)), call(f(3), f(3)), call(f(3), f(3), f(3), extra=2))
def takes_anything(*args, **kwargs):
    total = sum(args)
    for value in kwargs.values():
        total = total * value
    return total, len(args), list(kwargs)


@program(f(3), f(2))
def wrong_arguments(x):
    out = []
    for attempt in (
        lambda: affine(),
        lambda: affine(x, 1, 2),
        lambda: affine(x, other=1),
        lambda: affine(x, x=1),
        lambda: only_keyword(),
        lambda: only_positional(a=x, b=1, c=2),
    ):
        try:
            attempt()
        except TypeError as error:
            out.append(str(error))
    return x + 1, out


@program((f(3), 2), (f(3), 3))
def immediate_lambda(x, n):
    return (lambda t, k=n: t * k)(x), (lambda *ts: sum(ts))(x, x)


@program((f(3), 2), (f(3), 3))
def methods(x, n):
    layer = Layer(n)
    bound = layer.forward
    return layer(x), bound(x), Layer.forward(layer, x, y=0), Layer.scale(x, n), layer.scale(x, 2)


@program((f(3), 2), (f(3), 3))
def classmethod_constructor(x, n):
    return Layer.make(n)(x), Layer(1).make(n).width


@program(f(3), f(2))
def partials(x):
    double = functools.partial(affine, scale=2.0, bias=0.0)
    nested = functools.partial(double, bias=3.0)
    return double(x), nested(x), nested(x, scale=1.0), double.keywords


def traced(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs) * 2

    return wrapper


def repeated(times):
    def decorate(fn):
        @functools.wraps(fn)
        def wrapper(x):
            for _ in range(times):
                x = fn(x)
            return x

        return wrapper

    return decorate


@traced
@repeated(3)
def grow(x):
    return x + 1


@program(f(3), f(2))
def decorated(x):
    return grow(x), grow.__name__


@program(f(3), f(2))
def decorated_inside(x):
    @repeated(2)
    @traced
    def shrink(t):
        return t / 2

    return shrink(x)


@program((f(3), "relu"), (f(3), "neg"))
def function_table(x, name):
    table = {"relu": torch.relu, "neg": lambda t: -t, "affine": affine}
    return table[name](x), table["affine"](x)


@program((f(3), affine), (f(3), torch.sigmoid), (f(3), len))
def function_as_argument(x, fn):
    return fn(x)


@program((f(2), 3), (f(2), 5))
def functions_returning_functions(x, n):
    def adder(k):
        def add(t):
            return t + k

        return add

    add_n = adder(n)
    return add_n(x), adder(1)(add_n(x))


def accumulate(item, into=[]):
    into.append(item)
    return len(into)


@program(f(2), f(2), f(2))
def mutable_default(x):
    return x * accumulate(1)


@program(f(2), f(3))
def argument_order_of_evaluation(x):
    log = []

    def note(name, value):
        log.append(name)
        return value

    y = affine(note("x", x), bias=note("bias", 1), scale=note("scale", 3))
    return y, log


@factory(f(3), f(3), f(4))
def bound_method_target():
    return Layer(3).forward


@factory(f(3), f(2))
def partial_target():
    return functools.partial(affine, bias=4.0)


@factory(f(3), f(2))
def callable_object_target():
    return Layer(5)


@program((f(2), (1, 2)), (f(2), (3, 4)))
def star_in_the_middle(x, t):
    def g(a, b, c, d):
        return x * a + b - c * d

    return g(0, *t, 5), g(*t, *t), g(*t, c=1, d=2), g(*t, **{"c": 3}, **{"d": 4})


@program((f(2), None), (f(2), 3))
def getattr_call(x, n):
    method = getattr(x, "add" if n else "neg")
    return method(n) if n else method()
