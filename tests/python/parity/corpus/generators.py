"""Generators: consumed fully or in part, sent to, closed, delegated to."""

import torch

from tests.python.parity.corpus.registry import f, program


def count_up(n):
    k = 0
    while k < n:
        yield k
        k += 1


def scaled(x, n):
    for k in count_up(n):
        yield x * k


def running_sum(start):
    total = start
    while True:
        value = yield total
        if value is None:
            return total
        total = total + value


@program((f(2), 3), (f(2), 4), (f(3), 2))
def for_over_generator(x, n):
    out = x
    for t in scaled(x, n):
        out = out + t
    return out


@program((f(2), 3), (f(2), 4))
def list_of_generator(x, n):
    return list(scaled(x, n)), tuple(count_up(n))


@program((f(2), 3), (f(2), 4))
def next_by_hand(x, n):
    gen = scaled(x, n)
    a = next(gen)
    c = next(gen)
    return a + c, next(gen, None), next(gen, "end")


@program((f(2), 2), (f(2), 3))
def stop_iteration_caught(x, n):
    gen = count_up(n)
    seen = []
    while True:
        try:
            seen.append(next(gen))
        except StopIteration:
            break
    return x * len(seen), seen


@program((f(2), f(2)), (f(3), f(3)))
def send_values(x, y):
    gen = running_sum(x)
    next(gen)
    a = gen.send(y)
    c = gen.send(y * 2)
    return a, c


@program((f(2), f(2)), (f(3), f(3)))
def return_value_of_generator(x, y):
    gen = running_sum(x)
    next(gen)
    gen.send(y)
    try:
        gen.send(None)
    except StopIteration as stop:
        return stop.value


@program((f(2), 2), (f(2), 3))
def yield_from_list(x, n):
    def inner():
        yield from [x, x + 1]
        yield from range(n)
        return "done"

    def outer():
        result = yield from inner()
        yield result

    return list(outer())


@program((f(2), 3), (f(2), 2))
def early_break(x, n):
    log = []

    def gen():
        try:
            for k in range(100):
                yield x * k
        finally:
            log.append("closed")

    total = x
    g = gen()
    for k, t in enumerate(g):
        if k == n:
            break
        total = total + t
    g.close()
    return total, log


@program((f(2), 3), (f(2), 2))
def close_runs_finally(x, n):
    log = []

    def gen():
        try:
            yield x + n
            log.append("not reached")
        finally:
            log.append("finally")

    g = gen()
    y = next(g)
    g.close()
    return y, log, next(g, None)


@program((f(2), 3), (f(2), 2))
def throw_into_generator(x, n):
    def gen():
        try:
            yield x
        except ValueError as error:
            yield x * n + len(str(error))

    g = gen()
    next(g)
    return g.throw(ValueError("four"))


@program((f(2), 5), (f(2), 6))
def pipeline_of_generators(x, n):
    def numbers():
        yield from range(n)

    def evens(source):
        for k in source:
            if k % 2 == 0:
                yield k

    def squares(source):
        for k in source:
            yield k * k

    return x * sum(squares(evens(numbers())))


@program((f(2), 3), (f(2), 4))
def zip_of_generators(x, n):
    return [a * c for a, c in zip(scaled(x, n), count_up(n + 1))]


@program((f(2), 3), (f(2), 4))
def enumerate_map_filter_over_generator(x, n):
    pairs = list(enumerate(count_up(n)))
    doubled = list(map(lambda k: k * 2, count_up(n)))
    odd = list(filter(lambda k: k % 2, count_up(n)))
    return x * sum(doubled), pairs, odd


@program((f(2), [1, [2, [3, 4]], 5]), (f(2), [[6]]))
def recursive_generator(x, tree):
    def walk(node):
        if isinstance(node, list):
            for child in node:
                yield from walk(child)
        else:
            yield node

    return [x * n for n in walk(tree)]


@program((f(4, 3), 2), (f(6, 3), 4))
def batches(x, size):
    def split(t):
        for start in range(0, t.shape[0], size):
            yield t[start : start + size]

    return torch.stack([part.sum() for part in split(x)])


@program((f(2), 3), (f(2), 3))
def generator_with_side_effects(x, n):
    seen = []

    def gen():
        for k in range(n):
            seen.append(k)
            yield x + k

    ys = list(gen())
    return ys, seen


@program((f(2), 3), (f(2), 2))
def generator_changes_nonlocal(x, n):
    total = 0

    def gen():
        nonlocal total
        for k in range(n):
            total += k
            yield total

    last = max(gen())
    return x * last, total


@program((f(2), 3), (f(2), 2))
def exception_out_of_generator(x, n):
    def gen():
        yield x
        raise KeyError("inside")

    out = []
    try:
        for t in gen():
            out.append(t * n)
    except KeyError as error:
        out.append(str(error))
    return out


@program((f(2), 3), (f(2), 4))
def returned_generator(x, n):
    y = x * 2
    return (y + k for k in range(n)), y


@program((f(2), 3), (f(2), 4))
def unpacked_generator(x, n):
    a, c, *rest = scaled(x, n)
    return a + c, rest, [*count_up(n)], {**{k: k for k in count_up(2)}}


@program((f(2), 2), (f(2), 3))
def infinite_generator_sliced(x, n):
    def fib():
        a, c = 0, 1
        while True:
            yield a
            a, c = c, a + c

    out = []
    for k in fib():
        if k > n * 5:
            break
        out.append(k)
    return x * sum(out), out


@program((f(2), 3), (f(2), 2))
def iterator_class(x, n):
    class Countdown:
        def __init__(self, start):
            self.k = start

        def __iter__(self):
            return self

        def __next__(self):
            if self.k == 0:
                raise StopIteration
            self.k -= 1
            return x * self.k

    return sum(Countdown(n)), list(Countdown(2))


class EndsWith:
    """Three numbers, and a value at the end."""

    def __init__(self, value):
        self.left, self.value = 3, value

    def __iter__(self):
        return self

    def __next__(self):
        if self.left == 0:
            raise StopIteration(self.value)
        self.left -= 1
        return self.left


@program((f(2), 7), (f(2), None), (f(2), "end"))
def yield_from_an_instance_that_ends_with_a_value(x, value):
    def items():
        yield (yield from EndsWith(value))

    return x + 1, list(items()), list(EndsWith(value))
