"""Built-in functions and constants."""

import builtins

import torch

from tests.python.parity.corpus.registry import call, f, program


class Shape:
    def __init__(self, *sizes):
        self.sizes = sizes

    def __len__(self):
        return len(self.sizes)

    def __iter__(self):
        return iter(self.sizes)

    def __reversed__(self):
        return iter(self.sizes[::-1])


@program((f(2), [3, 1, 2]), (f(2), [9]))
def min_max_sum(x, ns):
    by_key = max(ns, key=lambda n: -n)
    return x * max(ns), min(ns), sum(ns), sum(ns, 10), by_key, max([], default=0), min(4, 2), max("ab")


@program(([f(2), f(2)],), ([f(3)],))
def sum_of_tensors(xs):
    return sum(xs), sum(xs, xs[0])


@program((f(2), [1, 0]), (f(2), [1, 2]))
def any_all(x, ns):
    return x * any(ns), all(ns), any([]), all([]), any(n > 1 for n in ns)


@program((f(2), 5, 2), (f(2), 9, 3))
def ranges(x, n, step):
    r = range(1, n, step)
    return x * len(r), list(r), r[0], r[-1], n in r, list(reversed(r)), r.start, r[1:], r == range(1, n, step), sum(r)


@program(([f(2), f(2)], [1, 2]), ([f(3)], [4]))
def zips(xs, ns):
    pairs = list(zip(xs, ns))
    first, second = zip(*[(1, "a"), (2, "b")])
    return [t * n for t, n in zip(xs, ns, strict=True)], len(pairs), first, second


@program((f(2), [1, 2]), (f(2), [1, 2, 3]))
def strict_zip_error(x, ns):
    try:
        return x, list(zip(ns, [1, 2], strict=True))
    except ValueError as error:
        return x * 2, str(error)


@program((f(2), [1, 2, 3]), (f(2), [4]))
def map_and_filter(x, ns):
    ys = list(map(lambda n: x * n, ns))
    sums = list(map(lambda a, c: a + c, ns, ns[::-1]))
    return ys, sums, list(filter(None, [0, 1, 2])), list(filter(lambda n: n > 1, ns)), tuple(map(str, ns))


@program((f(2), ["a", "b"]), (f(2), ["c"]))
def enumerates(x, names):
    return {name: x * k for k, name in enumerate(names, start=1)}, list(enumerate(names))


@program((f(2), 3), (f(2), "text"), (f(2), None))
def isinstance_checks(x, value):
    if isinstance(value, int):
        return x * value
    if isinstance(value, (str, bytes)):
        return x * len(value)
    return x if value is None else -x


@program((f(2), 3), (f(2), 2.0), (f(2), f(2)))
def types(x, value):
    kinds = isinstance(value, torch.Tensor), isinstance(value, float | int)
    return x * value, type(value) is int, type(value).__name__, kinds


@program((f(2), 3), (f(2), 4))
def callable_and_ids(x, n):
    y = x
    return x * n, callable(torch.relu), callable(n), id(x) == id(y), x is y, hasattr(n, "real")


@program((f(2), [3, 1, 2]), (f(2), ["b", "a"]))
def sorting(x, values):
    return x * len(values), sorted(values), sorted(values, reverse=True), list(reversed(values))


@program((f(2), [1, 2, 3]), (f(2), [5]))
def iter_and_next(x, ns):
    it = iter(ns)
    a = next(it)
    c = next(it, 0)
    values = iter([3, 2, 0, 9])
    return x * a + c, list(it), list(iter(lambda: next(values), 0))


@program((f(2), Shape(2, 3)), (f(2), Shape(4)))
def protocols_of_objects(x, s):
    return x * len(s), list(s), list(reversed(s)), sum(s), bool(s), tuple(s), max(s)


@program((f(2), "2 + 3"), (f(2), "10"))
def eval_of_text(x, text):
    return x * eval(text)


@program((f(2), 2), (f(2), 3))
def exec_of_text(x, n):
    space = {}
    exec("def g(t):\n    return t + 1", space)
    return space["g"](x) * n


@program((f(2), [1, [2, 3]]), (f(2), []))
def conversions(x, values):
    made = list("ab"), tuple([1, 2]), set([1, 1]), dict([("a", 1)]), frozenset([2]), bytes(2), str(b"a", "ascii")
    return x * len(tuple(values)), made


@program((f(2), 10), (f(2), 255))
def number_functions(x, n):
    return x * abs(-n), divmod(n, 7), pow(n, 2), pow(n, 3, 7), round(n / 3, 2), bin(n), hex(n), oct(n), chr(n % 128)


@program((f(2), slice(0, 1)), (f(2), slice(None, None, 2)))
def slices(x, s):
    return x[s], s.start, s.indices(5), [1, 2, 3][s], slice(1, 2) == slice(1, 2)


@program((f(2), 3), (f(2), 4))
def vars_and_dir(x, n):
    class Thing:
        pass

    thing = Thing()
    thing.a = n
    return x * vars(thing)["a"], "a" in dir(thing), sorted(vars(thing))


@program(
    call(f(2), 3, before=lambda t: vars(builtins).pop("corpus_extra", None)),
    call(f(2), 3, before=lambda t: setattr(builtins, "corpus_extra", 5)),
)
def builtin_added_between_calls(x, n):
    try:
        return x * corpus_extra  # noqa: F821
    except NameError:
        return x * n


@program((f(2), 3), (f(2), 4))
def ellipsis_and_notimplemented(x, n):
    return x[..., None] * n, ..., NotImplemented, None is None


@program((f(2), "hello"), (f(2), "x"))
def printing(x, text):
    y = x + 1
    print(text, len(text), sep="-", end="!\n")
    return y * 2


@program((f(2), 1), (f(2), 2))
def globals_function(x, n):
    return x * n, "globals_function" in globals(), __name__.rsplit(".", 1)[1]


@program((f(2), memoryview(b"abc")), (f(2), memoryview(b"z")))
def memory_views_and_bytearrays(x, view):
    buffer = bytearray(b"xyz")
    buffer[0] = 65
    return x * len(view), view[0], bytes(buffer), bytes(view)
