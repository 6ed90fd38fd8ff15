"""Lists and tuples: methods, slices, comparison, sorting, mutation, aliasing."""

import torch

from tests.python.parity.corpus.registry import f, program

shared = []


@program((f(2), f(2)), (f(3), f(3)))
def built_and_returned(x, y):
    xs = [x, y]
    xs.append(x + y)
    xs.extend([x * 2, y * 2])
    xs.insert(1, x - y)
    return xs


@program(([f(2), f(2)],), ([f(2)],))
def input_is_mutated(xs):
    xs.append(xs[0] * 2)
    xs[0] = xs[0] + 1
    return len(xs)


@program(([f(2), f(2), f(2)],), ([f(2), f(2)],))
def input_pop_and_delete(xs):
    last = xs.pop()
    first = xs.pop(0)
    return last + first, len(xs)


@program((f(2), [3, 1, 2]), (f(2), [5, 4]))
def sorted_input_in_place(x, ns):
    ns.sort()
    return x * ns[0]


@program((f(2), [3, 1, 2]), (f(2), [5, 4]))
def sort_with_key_and_reverse(x, ns):
    a = sorted(ns, reverse=True)
    c = sorted(ns, key=lambda n: -n % 4)
    pairs = sorted((n % 2, n) for n in ns)
    return x * a[0], a, c, pairs


@program((f(2), [4, 2, 4]), (f(2), [4]))
def searching(x, ns):
    return x * ns.index(4), ns.count(4), 2 in ns, 9 not in ns


@program((f(2), list(range(8))), (f(2), list(range(5))))
def slices(x, ns):
    return x * sum(ns[1:4]), ns[::2], ns[::-1], ns[-3:], ns[:-2], ns[slice(1, None, 3)]


@program((f(2), list(range(8))), (f(2), list(range(6))))
def slice_assignment(x, ns):
    ns[1:3] = [10, 11, 12]
    ns[::2] = [0] * len(ns[::2])
    del ns[-1]
    del ns[0:2]
    return x * sum(ns), ns


@program((f(2), [1, 2]), (f(2), [3]))
def concatenation_and_repetition(x, ns):
    a = ns + [9]
    c = ns * 2
    ns += (7,)
    ns *= 2
    return x * len(a), a, c, ns


@program((f(2), [1, 2]), (f(2), [2, 1]))
def comparison(x, ns):
    return x * (ns == [1, 2]), ns < [1, 3], ns != [2, 1], (1, 2) <= tuple(ns), [] < ns


@program((f(2), [1, 2]), (f(2), [3]))
def copy_is_not_the_input(x, ns):
    copy = ns.copy()
    copy.append(5)
    other = list(ns)
    other.clear()
    return x * len(copy), ns is copy, copy, other


@program(f(2), f(2), f(2))
def module_level_list_grows(x):
    shared.append(len(shared))
    return x * len(shared)


@program((f(2), 3), (f(2), 4))
def nested_lists_share(x, n):
    row = [0] * n
    grid = [row] * 2
    grid[0][1] = x
    return grid, grid[0] is grid[1]


@program((f(2), 3), (f(2), 4))
def list_holds_itself(x, n):
    xs = [x, n]
    xs.append(xs)
    return xs[2][2][0] * n, xs


@program((f(2), (1, 2, 3)), (f(2), (4, 5, 6)))
def tuples(x, t):
    a, b, c = t
    return x * a, t + (b,), t[::-1], t.index(c), t.count(a), t * 2, len(t), hash(t) == hash((a, b, c))


@program((f(2), 5), (f(2), 3))
def reverse_and_reversed(x, n):
    ns = list(range(n))
    ns.reverse()
    return x * ns[0], list(reversed(ns)), ns


@program((f(2), [1, 2, 3, 4]), (f(2), [2, 2]))
def changed_while_iterated(x, ns):
    seen = []
    for n in ns:
        seen.append(n)
        if n == 2 and len(ns) < 6:
            ns.append(9)
    return x * len(seen), seen


@program((f(2), [1, 2, 3]), (f(2), [1]))
def remove_and_error(x, ns):
    ns.remove(1)
    try:
        ns.remove(99)
    except ValueError as error:
        return x * len(ns), str(error)


@program(([f(2), f(2)], 3), ([f(3), f(3)], 2))
def stack_as_memory(xs, n):
    stack = []
    for k in range(n):
        stack.append(xs[k % 2] * k)
    total = 0
    while stack:
        total = total + stack.pop()
    return total


@program((f(2), [[3, "c"], [1, "a"]]), (f(2), [[2, "b"]]))
def nested_unpack_in_loop(x, pairs):
    names = []
    for number, name in pairs:
        x = x * number
        names.append(name)
    return x, "".join(sorted(names))


@program(([f(2), f(3)],), ([f(4), f(1)],))
def tensors_sorted_by_size(xs):
    xs.sort(key=len)
    return torch.cat(xs), max(xs, key=len).shape[0]


@program(((f(2), [f(2), {"k": f(2)}]),), ((f(3), [f(3), {"k": f(3)}]),))
def nested_structure(tree):
    a, (c, d) = tree
    d["new"] = a + c
    return a + c + d["k"], (a, [c, d])


@program((f(2), [1, 2]), (f(2), [1, 2, 3]))
def same_list_returned(x, ns):
    ns.append(0)
    return x + len(ns), ns


@program((f(2), [1, 2, 3]), (f(2), [4, 5]))
def iterator_by_hand(x, ns):
    it = iter(ns)
    first = next(it)
    rest = list(it)
    return x * first, rest, next(it, -1)


@program((f(2), 2), (f(2), -1), (f(2), 2**70), (f(2), True))
def repeated_so_often(x, n):
    return x + 1, [x, 1] * n, n * (2, 3)


def looking(into, items):
    for item in items:
        yield item + len(into)
    raise KeyError(len(into))


@program((f(2), [1.0]), (f(2), [1.0, 2.0]))
def items_before_an_error_stay(x, outside):
    own = [0.5]
    for target in (outside, own):
        try:
            target.extend(looking(target, [1, 2, 3]))
        except KeyError as error:
            x = x * error.args[0]
    try:
        own += looking(own, [4])
    except KeyError:
        x = x + sum(own)
    return x, own, outside


@program((f(2), 3), (f(2), 1))
def an_empty_list_many_times(x, n):
    return x * n, [] * 10**15, [n] * 0, () * 10**15


@program((f(2), [1, 2]), (f(2), [3]))
def calls_that_do_not_fit(x, items):
    def inner(a, b=1, *, c, d=2):
        return a

    wrong = [
        lambda: items.append(),
        lambda: items.insert(1),
        lambda: items.index(),
        lambda: items.__contains__(1, 2),
        lambda: items.sort(1),
        lambda: {}.get(),
        lambda: {}.setdefault(1, 2, 3),
        lambda: dict.fromkeys(),
        lambda: {1}.add(),
        lambda: {1}.isdisjoint(1, 2),
        lambda: items.pop(key=1),
        lambda: inner(),
        lambda: inner(1, 2, 3),
        lambda: inner(1),
        lambda: inner(1, c=1, e=3),
        lambda: inner(1, a=2, c=3),
        lambda: (lambda: 0)(1),
    ]
    texts = []
    for attempt in wrong:
        try:
            attempt()
        except TypeError as error:
            texts.append(str(error))
            x = x + 1
    return x, texts


class Tired:
    """Says how long it is, and is its own iterator."""

    def __init__(self, n):
        self.n = n
        self.log = []

    def __iter__(self):
        self.log.append("iter")
        return self

    def __next__(self):
        self.log.append("next")
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n

    def __length_hint__(self):
        self.log.append("hint")
        return 4


@program((f(2), Tired(2)), (f(2), Tired(0)))
def an_iterator_is_asked_once(x, source):
    whole = list(source)
    source.n = 1
    more = [5]
    more.extend(source)
    source.n = 2
    return x * len(whole), whole, more, tuple(source), source.log


@program((f(2), [3, 1, 2]), (f(2), [1, 3, 2, 5]))
def what_a_sort_shows(x, items):
    seen = []

    def key(item):
        seen.append(list(items))
        return -item

    def adding(item):
        items.append(item)
        return item

    items.sort(key=key)
    errors = []
    mixed = [3, 1, 2, "a", 0]
    for attempt in (lambda: mixed.sort(), lambda: mixed.sort(reverse=True), lambda: items.sort(key=adding)):
        try:
            attempt()
        except (TypeError, ValueError) as error:
            errors.append(str(error))
    return x * items[0], items, seen, mixed, errors


@program((f(2), [1, "a"]), (f(2), []))
def a_list_that_holds_itself(x, items):
    items.append(items)
    text = repr(items)
    try:
        items == [*items[:-1], items]  # noqa: B015
        same = True
    except RecursionError:
        same = None
    items.pop()
    return x * len(text), text, same


@program((f(2), [1, 2]), (f(2), [5]))
def extend_reads_what_it_has_added(x, ns):
    ns.extend(map(lambda n: n + ns[-1], range(3)))
    ns += (n * ns[-1] for n in [2, 3])
    ns.__iadd__(ns[i] for i in range(2))
    return x * ns[-1], ns


@program((f(2), [1, 2]), (f(2), []))
def extend_keeps_what_came_before_an_exception(x, ns):
    def numbers():
        yield 7
        yield len(ns)
        raise ValueError("no more")

    try:
        ns.extend(numbers())
    except ValueError as error:
        return x + len(ns), ns, str(error)


@program((f(2), [1, 2]), (f(2), [3]))
def init_empties_the_list_first(x, ns):
    ns.__init__(len(ns) + n for n in range(3))
    return x * ns[-1], ns, list(ns.__reversed__()), ns.__imul__(2)
