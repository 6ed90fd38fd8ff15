"""itertools, functools, and small helpers of the standard library."""

import bisect
import copy
import functools
import heapq
import inspect
import itertools
import operator
import types

import torch

from tests.python.parity.corpus.registry import call, f, factory, program

calls = []


@functools.lru_cache(maxsize=None)
def fib(n):
    calls.append(n)
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@functools.cache
def table(n):
    return tuple(k * k for k in range(n))


@functools.singledispatch
def describe(value):
    return "other"


@describe.register
def _(value: int):
    return f"int {value}"


@describe.register(list)
def _(value):
    return f"list of {len(value)}"


@program((f(2), [1, 2], [3]), (f(2), [], [4]))
def chain(x, a, c):
    return x * sum(itertools.chain(a, c)), list(itertools.chain.from_iterable([a, c]))


@program((f(2), 3), (f(2), 4))
def product_and_combinations(x, n):
    pairs = list(itertools.product(range(n), repeat=2))
    return x * len(pairs), list(itertools.combinations(range(n), 2)), list(itertools.permutations("ab"))


@program((f(2), [1, 2, 3, 4]), (f(2), [5, 6]))
def islice_and_count(x, ns):
    counted = list(itertools.islice(itertools.count(5, 2), 3)), list(zip("ab", itertools.count()))
    return x * sum(itertools.islice(ns, 1, 3)), counted


@program((f(2), 3), (f(2), 5))
def cycle_and_repeat(x, n):
    colours = [c for c, _ in zip(itertools.cycle("rg"), range(n))]
    return x * len(colours), colours, list(itertools.repeat(7, 2))


@program((f(2), [1, 2, 3]), (f(2), [4, 5]))
def accumulate_and_pairwise(x, ns):
    running = list(itertools.accumulate(ns))
    products = list(itertools.accumulate(ns, lambda a, c: a * c))
    return x * running[-1], products, list(itertools.pairwise(ns)), list(itertools.accumulate(ns, initial=10))


@program(([f(2), f(2), f(2)],), ([f(2), f(2)],))
def accumulate_tensors(xs):
    return list(itertools.accumulate(xs))


@program((f(2), ["aa", "ab", "b"]), (f(2), ["c"]))
def groupby(x, words):
    groups = {key: list(group) for key, group in itertools.groupby(words, key=lambda w: w[0])}
    return x * len(groups), groups


@program((f(2), [1, 5, 2, 6]), (f(2), [9]))
def takewhile_dropwhile(x, ns):
    small = list(itertools.takewhile(lambda n: n < 3, ns))
    rest = list(itertools.dropwhile(lambda n: n < 3, ns))
    even = list(itertools.filterfalse(lambda n: n % 2, ns))
    return x * (len(small) + 1), rest, even, list(itertools.compress("abc", [1, 0, 1]))


@program((f(2), [1, 2, 3]), (f(2), [1]))
def zip_longest_and_starmap(x, ns):
    powers = list(itertools.starmap(pow, [(2, 3), (3, 2)]))
    return x * len(ns), list(itertools.zip_longest(ns, "ab", fillvalue=0)), powers


@program((f(2), [1, 2, 3]), (f(2), [4, 5]))
def tee(x, ns):
    a, c = itertools.tee(ns)
    return x * next(a), list(a), list(c)


@program(([f(2), f(2), f(2)],), ([f(2)],))
def reduce_tensors(xs):
    return functools.reduce(lambda a, c: a * 2 + c, xs), functools.reduce(torch.add, xs, torch.ones(2))


@program((f(2), 3), (f(2), 4))
def partial_objects(x, n):
    scale = functools.partial(torch.mul, x)
    pad = functools.partial(torch.nn.functional.pad, pad=(n, 0))
    return scale(n), pad(x), pad(x, value=1.0), scale.func is torch.mul, pad.keywords


@program((f(2), 6), (f(2), 6), (f(2), 7))
def lru_cache(x, n):
    return x * fib(n), len(calls)


@program((f(2), 3), (f(2), 3))
def cached_table(x, n):
    return x * sum(table(n)), table(n) is table(n)


@program((f(2), 3), (f(2), [1, 2]), (f(2), "s"))
def single_dispatch(x, value):
    return x + 1, describe(value)


@factory(f(2), f(2))
def wraps_and_signature():
    def noisy(fn):
        @functools.wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs) + 1

        return wrapper

    @noisy
    def compute(x, k=2):
        """Doc."""
        return x * k

    def fn(x):
        return compute(x), compute.__name__, compute.__doc__, compute.__wrapped__ is not None

    return fn


@program(f(2), f(3))
def signature_inspection(x):
    def target(a, b=2, *args, c, **kw):
        return a

    parameters = inspect.signature(target).parameters
    return x * len(parameters), list(parameters), parameters["b"].default, inspect.isfunction(target)


@program((f(2), [3, 1, 2]), (f(2), [9, 8]))
def heaps_and_bisection(x, ns):
    heap = list(ns)
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    smallest = heapq.heappop(heap)
    ordered = sorted(ns)
    bisect.insort(ordered, 5)
    return x + smallest, ordered, bisect.bisect_left(ordered, 5), heapq.nlargest(1, ns)


@program((f(2), {"a": [1, 2]}), (f(2), {"a": [3]}))
def copies(x, d):
    shallow, deep = copy.copy(d), copy.deepcopy(d)
    d["a"].append(9)
    return x * len(shallow["a"]), shallow, deep


@program(({"a": f(2)},), ({"a": f(3)},))
def deepcopy_of_tensors(d):
    deep = copy.deepcopy(d)
    deep["a"] = deep["a"] + 1
    return deep, d["a"] * 2


@program((f(2), 3), (f(2), 4))
def simple_namespace(x, n):
    space = types.SimpleNamespace(a=n, b=x)
    space.c = space.a * 2
    return space.b * space.c, sorted(vars(space))


@program((f(2), [3, 1]), (f(2), [1, 2]))
def cmp_to_key_and_total_ordering(x, ns):
    @functools.total_ordering
    class Item:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

        def __lt__(self, other):
            return self.n < other.n

    by_size = sorted(ns, key=functools.cmp_to_key(lambda a, c: c - a))
    return x * by_size[0], Item(ns[0]) >= Item(ns[1])


@program(call(f(2), 1), call(f(2), 2), call(f(2), 2, flag=True))
def batched_by_hand(x, n, flag=False):
    it = iter(range(5))
    chunks = []
    while chunk := list(itertools.islice(it, n)):
        chunks.append(chunk)
    return x * len(chunks) if flag else x, chunks


@program((f(2), 1), (f(3), 2))
def iterators_are_returned(x, n):
    sums = itertools.accumulate([x, x + 1, x * n])
    powers = itertools.accumulate([2, 3], operator.mul, initial=n)
    kinds = itertools.takewhile(bool, [n, 0]), itertools.dropwhile(lambda k: k < 2, [n, 2, 0])
    sets = itertools.product([x, n], repeat=2), itertools.permutations([x, n, 3], 2), itertools.combinations("abc", n)
    return sums, powers, kinds, sets, itertools.repeat(x, n), itertools.count(n, 0.5), itertools.cycle([n, x])


@program((f(2), 1), (f(3), 2))
def iterators_are_returned_half_way(x, n):
    rows = [x, x + 1, x + 2, n, n + 1]
    made = [
        itertools.accumulate([1, n, 3], lambda a, b: a * 10 + b),
        itertools.accumulate([x, x], initial=x),
        itertools.chain(rows, [n]),
        itertools.chain([], [n], rows),
        itertools.chain.from_iterable([rows, [n]]),
        itertools.count(n, -2),
        itertools.cycle(rows),
        itertools.repeat(x, 3),
        itertools.islice(rows, n, None, 2),
        itertools.islice(itertools.count(), 2, 20, n + 1),
        itertools.takewhile(lambda row: row is not n, rows),
        itertools.filterfalse(None, [0, n, 0, 0]),
        itertools.starmap(torch.add, [(x, n), (x, 2), (x, 3)]),
        itertools.compress(rows, [1, 0, 1, 1, n]),
        itertools.zip_longest(rows, [1, 2], fillvalue=x),
        itertools.pairwise(rows),
        itertools.product([x, n], [1, 2]),
        itertools.combinations(rows, 2),
        itertools.combinations_with_replacement(rows, 2),
        reversed(range(n, 6)),
    ]
    return [next(each) for each in made], made


@program((f(2), 1), (f(3), 2))
def iterators_that_have_ended(x, n):
    made = [
        itertools.accumulate([x]),
        itertools.chain([x]),
        itertools.repeat(n, 1),
        itertools.islice([x, n, 3], 1),
        itertools.takewhile(lambda row: row is x, [x, n]),
        itertools.zip_longest([x]),
        itertools.pairwise([x, n]),
        itertools.permutations([n]),
    ]
    return [list(each) for each in made], made


@program((f(2), 1), (f(3), 2))
def iterators_across_a_break(x, n):
    sums, turns = itertools.accumulate([x, x + n, x * n]), itertools.cycle([1, 2, 3])
    pairs, every = itertools.product([n, 2], [x]), itertools.islice(itertools.count(), n, None, 3)
    first = [next(each) for each in (sums, turns, pairs, every)]
    print("between")
    return first, next(sums), [next(turns) for _ in range(4)], list(pairs), next(every), next(every)


@program((f(2), "abc", 3), (f(2), "", 0))
def iterators_of_literals_by_their_method(x, text, n):
    letters, numbers = text.__iter__(), range(n).__iter__()
    return x + sum(numbers), list(letters), numbers, list(b"xy".__iter__())


@program((f(2), 2), (f(2), 3))
def partial_of_a_partial(x, n):
    inner = functools.partial(lambda a, b, *rest, k=1: (a * b, rest, k), x, k=4)
    outer = functools.partial(inner, n, k=5)
    marked = functools.partial(inner)
    marked.note = "kept"
    around = functools.partial(marked, 7)
    return outer(3), len(outer.args), outer.keywords, around(1), around.args, around.func is marked


@program((f(2), [1, 2, 3]), (f(2), [4, 5]))
def iterators_that_leave(x, ns):
    started = itertools.cycle(ns)
    for _ in ns:
        next(started)
    next(started)
    chained = itertools.chain(ns, "ab")
    next(chained)
    sliced = itertools.islice(iter(range(20)), 2, 15, 3)
    next(sliced)
    counted = itertools.count(3, 2)
    next(counted)
    repeated = itertools.repeat(x, 3)
    next(repeated)
    return (
        chained,
        sliced,
        counted,
        repeated,
        started,
        itertools.compress(ns, [1, 0, 1]),
        itertools.takewhile(lambda n: n < 3, ns),
        itertools.dropwhile(lambda n: n < 3, ns),
        itertools.filterfalse(lambda n: n < 3, ns),
        itertools.starmap(pow, [(2, 3)]),
        itertools.zip_longest(ns, "a", fillvalue=0),
        itertools.pairwise(ns),
        itertools.accumulate(ns, initial=5),
    )
