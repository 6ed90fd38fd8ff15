"""Generators and iterators: when they take items, what they are sent, and how they end."""

import itertools

from tests.python.parity.programs import Programs, x

programs = Programs()


@programs((x,))
def sent_values(a):
    def running():
        total = a
        while True:
            got = yield total
            if got is None:
                return "end"
            total = total + got

    g = running()
    out = [next(g), g.send(1), g.send(a)]
    try:
        g.send(None)
    except StopIteration as stop:
        out.append(stop.value)
    return out


@programs((x,))
def thrown(a):
    log = []

    def gen():
        while True:
            try:
                yield len(log)
            except ValueError as error:
                log.append(str(error))

    g = gen()
    next(g)
    g.throw(ValueError("a"))
    g.throw(ValueError, "b") if False else g.throw(ValueError("b"))
    try:
        g.throw(KeyError("k"))
    except KeyError as error:
        log.append(repr(error))
    try:
        next(g)
    except StopIteration:
        log.append("stopped")
    return a + len(log), log


@programs((x,))
def closed(a):
    log = []

    def gen():
        try:
            yield 1
            yield 2
        except GeneratorExit:
            log.append("exit")
            raise
        finally:
            log.append("finally")

    g = gen()
    next(g)
    g.close()
    g.close()
    unstarted = gen()
    unstarted.close()
    return a + 1, log, list(g)


@programs((x,))
def early_end_runs_finally(a):
    log = []

    def gen():
        try:
            yield from range(5)
        finally:
            log.append("finally")

    for i in gen():
        log.append(i)
        if i == 1:
            break
    log.append("after")
    return a + 1, log


@programs((x,))
def delegation(a):
    def inner(n):
        got = yield n
        return (got, n)

    def outer():
        first = yield from inner(1)
        second = yield from [10, 20]
        third = yield from inner(3)
        return first, second, third

    g = outer()
    out = [next(g), g.send("s"), next(g), next(g)]
    try:
        g.send("t")
    except StopIteration as stop:
        out.append(stop.value)
    return a + 1, out


@programs((x,))
def throw_through_delegation(a):
    log = []

    def inner():
        try:
            yield 1
        except ValueError as error:
            log.append(str(error))
            return "handled"

    def outer():
        result = yield from inner()
        log.append(result)
        yield 2

    g = outer()
    next(g)
    log.append(g.throw(ValueError("in")))
    return a + 1, log


@programs((x,))
def stop_inside_is_an_error(a):
    def gen():
        yield 1
        raise StopIteration("x")

    try:
        list(gen())
    except RuntimeError as error:
        return a + 1, str(error), type(error.__cause__).__name__, error.__cause__.value


@programs((x,))
def laziness(a):
    log = []

    def source():
        for i in range(10):
            log.append(i)
            yield i

    g = source()
    first = list(itertools.islice(g, 2))
    log.append("next")
    second = next(g)
    pairs = list(zip([1, 2], g))
    chosen = [v for v in itertools.takewhile(lambda v: v < 8, g)]
    p, q = itertools.count(5), None
    b, c = (next(p), next(p))
    return a + 1, log, first, second, pairs, chosen, b, c, q


@programs((x,))
def unpack_takes_one_more(a):
    log = []

    def source():
        for i in range(9):
            log.append(i)
            yield i

    try:
        p, q = source()
    except ValueError as error:
        log.append(str(error))
    return a + 1, log


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


class ByIndex:
    def __getitem__(self, i):
        if i > 2:
            raise IndexError
        return i * 10


class Sized:
    def __len__(self):
        return 3

    def __getitem__(self, i):
        return "abc"[i]


@programs((x,))
def iterator_classes(a):
    total = a
    for i in Countdown(3):
        total = total + i
    it = iter(Countdown(2))
    return (
        total,
        list(Countdown(3)),
        list(ByIndex()),
        10 in ByIndex(),
        next(it),
        next(it, "none"),
        next(it, "none"),
        list(reversed(Sized())),
        list(iter(iter([1, 2]).__next__, 2)),
    )


@programs((x,))
def itertools_all(a):
    return (
        list(itertools.accumulate([1, 2, 3])),
        list(itertools.accumulate([1, 2, 3], lambda p, q: p * q, initial=2)),
        list(itertools.chain.from_iterable([[1], (2, 3)])),
        list(itertools.compress("abcd", [1, 0, 1, 0])),
        list(itertools.dropwhile(lambda v: v < 2, [1, 2, 1])),
        list(itertools.filterfalse(None, [0, 1, 2])),
        [(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 3, 3], key=lambda v: v)],
        list(itertools.islice("abcdef", 1, 5, 2)),
        list(itertools.pairwise([1, 2, 3])),
        list(itertools.starmap(pow, [(2, 3), (3, 2)])),
        [list(t) for t in itertools.tee([1, 2])],
        list(itertools.zip_longest([1, 2], [3], fillvalue=0)),
        list(itertools.product([1, 2], "ab")),
        list(itertools.product([0, 1], repeat=2)),
        list(itertools.permutations([1, 2, 3], 2)),
        list(itertools.combinations([1, 2, 3], 2)),
        list(itertools.combinations_with_replacement([1, 2], 2)),
        list(itertools.islice(itertools.cycle([1, 2]), 5)),
        list(itertools.repeat(a.shape[0], 2)),
        a + sum(itertools.islice(itertools.count(1, 2), 3)),
    )


@programs((x,))
def tensors_through_iterators(a):
    rows = [r * 2 for r in a]
    pairs = list(zip(rows, a.unbind(0)))
    grouped = {k: [v + 1 for v in g] for k, g in itertools.groupby(rows, key=lambda t: t.shape)}
    acc = list(itertools.accumulate(rows))
    return rows, pairs, list(grouped.values()), acc, sum(rows), max(len(r) for r in rows)


@programs((x,))
def nested_comprehensions(a):
    n = 3
    table = [[i * j + n for j in range(i + 1) if (k := i + j) % 2 == 0] for i in range(n)]
    flat = {i: {j for j in row} for i, row in enumerate(table)}
    gen = (t + n for t in (a, a * 2) if t.dim() == 2)
    return table, flat, k, list(gen)


@programs((x,))
def list_changes_while_iterated(a):
    xs, seen = [1, 2, 3], []
    for v in xs:
        seen.append(v)
        if v < 3 and len(xs) < 6:
            xs.append(v + 10)
        if v == 2:
            xs.remove(1)
    return a + len(seen), xs, seen


@programs((x,))
def generator_state(a):
    def gen():
        nonlocal_list.append(1)
        yield
        nonlocal_list.append(2)

    nonlocal_list = []
    g = gen()
    before = list(nonlocal_list)
    next(g)
    try:
        g.send("x")
    except StopIteration:
        pass
    fresh = gen()
    try:
        fresh.send(1)
    except TypeError as error:
        return a + 1, before, nonlocal_list, str(error)


test_program = programs.tests()
