"""Containers that contain themselves, and methods that change a container while it is searched."""

import collections
import heapq

import pytest

from tests.python.parity.programs import Programs, x

programs = Programs()


class Clearing:
    """Its `__eq__` empties a list and returns NotImplemented."""

    def __init__(self, victim, answer=NotImplemented):
        self.victim, self.answer = victim, answer

    def __eq__(self, other):
        self.victim.clear()
        return self.answer

    __hash__ = object.__hash__


@programs((x,))
def compared_lists_that_empty_each_other(a):
    first, second, third = [], [], []
    first.append(Clearing(second))
    second.append(Clearing(first))
    third.append(Clearing(third))
    return a + 1, first == second, third == [1], len(first), len(second), len(third)


@programs((x,))
def searched_lists_that_empty_themselves(a):
    found = []
    for _ in range(2):
        items = []
        items.extend(Clearing(items, False) for _ in range(50))
        found.append((None in items, len(items)))
        items.extend(Clearing(items, False) for _ in range(50))
        found.append((items.count(None), len(items)))
    return a + 1, found


@programs((x,))
def index_in_a_list_that_empties_itself(a):
    items = []
    items.extend(Clearing(items, False) for _ in range(50))
    try:
        items.index(None)
    except ValueError as error:
        return a + 1, str(error)


class Shrinking:
    def __init__(self, victim, at):
        self.victim, self.at = victim, at

    def __index__(self):
        del self.victim[1:]
        return self.at


@programs((x,))
def indices_that_shrink_the_list(a):
    items = [1, 2, 3, 4]
    popped = items.pop(Shrinking(items, 0))
    items = [1, 2, 3, 4]
    items.insert(Shrinking(items, 3), 9)
    return a + 1, popped, items


@programs((x,))
def key_that_changes_the_list_it_sorts(a):
    items = [3, 1, 2]

    def key(item):
        items.append(item)
        return item

    try:
        items.sort(key=key)
    except ValueError as error:
        return a + 1, str(error), items


@programs((x,))
def key_that_looks_at_the_list_it_sorts(a):
    items, seen = [3, 1, 2], []

    def key(item):
        seen.append(len(items))
        return item

    items.sort(key=key)
    return a + 1, items, seen


@programs((x,))
def sort_that_stops_half_way(a):
    items = [5, 4, 3, 2, 1, "a", 0]
    try:
        items.sort()
    except TypeError:
        return a + 1, items


@programs((x,))
def list_that_holds_itself_as_text(a):
    items = [0, 1]
    items.append(items)
    return a + 1, str(items), repr({"k": items})


@programs((x,), breaks="unknown_object")
def equal_lists_that_hold_themselves(a):
    first, second = [], []
    first.append(first)
    second.append(second)
    try:
        return a, first == second
    except RecursionError:
        return a + 1, None


@pytest.mark.parametrize("depth", [200, 5000])
def test_deeply_nested(depth):
    import stator

    def fn(a):
        items = []
        for _ in range(depth):
            items = [items]
        return a + 1, items

    def depth_of(items):
        count = 0
        while items:
            items, count = items[0], count + 1
        return count

    assert depth_of(stator.compile(fn)(x)[1]) == depth


@programs((x,), breaks="unknown_object")
def repeated_beyond_memory(a):
    items = [1, 2]
    try:
        items * (2**62)
    except (MemoryError, OverflowError):
        return a + 1


@programs((x,))
def truth_that_is_no_truth(a):
    class Odd:
        def __init__(self, answer):
            self.answer = answer

        def __bool__(self):
            return self.answer

    class Negative:
        def __len__(self):
            return -1

    texts = []
    for odd in (Odd(1), Odd(None), Negative()):
        try:
            texts.append(bool(odd))
        except (TypeError, ValueError) as error:
            texts.append((type(error), str(error)))
    return a + 1, texts


@programs((x, (1, 2)), (x, ()), (x, (x, 1)))
def tuples_that_stay_the_same(a, given):
    made = tuple([a, *given])
    empty = tuple([])
    return a + 1, [
        made * 1 is made,
        tuple(made) is made,
        made[:] is made,
        made + () is made,
        () + made is made,
        made[:0] is empty,
        made * 0 is empty,
        tuple(given) is given,
        given + () is given,
        made[1:] is made,
    ]


@programs((x,))
def unbound_variables(a):
    def cell_of_its_own():
        def inner():
            return late

        try:
            late
        except NameError as error:
            kinds.append((type(error), str(error)))
        try:
            inner()
        except NameError as error:
            kinds.append((type(error), str(error)))
        late = 1
        return late

    kinds = []
    cell_of_its_own()
    return a + 1, kinds


@programs((x, [0]), (x, [0, 1]))
def lists_that_grow_as_they_are_looked_at(a, given):
    items = [1]
    items.extend(len(items) for _ in range(3))
    items += (len(items) for _ in range(2))
    given.extend(map(lambda _: len(given), range(2)))
    return a + 1, items


def three_then_error(pairs=False):
    for i in range(3):
        yield (i, -i) if pairs else i
    raise KeyError("stop")


@programs((x, [7], {7}))
def what_was_added_before_an_error_stays(a, items, elements):
    inner, queue = [1], collections.deque([7])
    for container in (items, inner):
        try:
            container.extend(three_then_error())
        except KeyError:
            container.append("error")
    try:
        elements.update(three_then_error())
    except KeyError:
        pass
    try:
        queue.extend(three_then_error())
    except KeyError:
        queue.append("error")
    return a + 1, inner, queue


@programs((x, {7: 8}))
def pairs_that_were_put_before_an_error_stay(a, table):
    try:
        table.update(three_then_error(True))
    except KeyError:
        table["error"] = True
    return a + 1


@programs((x, {7: 8}))
def keys_that_were_put_before_one_without_a_hash_stay(a, table):
    try:
        table.update([(1, 2), ([], 3)])
    except TypeError as error:
        return a + 1, str(error)


@programs((x,))
def set_that_changes_in_its_last_round(a):
    seen, elements = [], {1}
    try:
        for element in elements:
            seen.append(element)
            elements.add(2)
    except RuntimeError as error:
        seen.append(str(error))
    return a + 1, seen


@programs((x,))
def iterators_that_have_ended(a):
    table, elements = {1: 2}, {1}
    over_table, over_elements = iter(table), iter(elements)
    ended = [list(over_table), list(over_elements)]
    table[3] = 4
    elements.add(5)
    return a + 1, ended, next(over_table, None), next(over_elements, None)


@programs((x,))
def functions_that_end_an_iteration(a):
    def until_two(item):
        if item > 2:
            raise StopIteration("enough")
        return item

    def counting(state=[0]):
        state[0] += 1
        return until_two(state[0])

    try:
        next(map(until_two, [5]))
    except StopIteration as error:
        value = error.value
    return a + 1, list(map(until_two, range(9))), list(filter(until_two, range(9))), list(iter(counting, 9)), value


class Ending:
    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration("own")


@programs((x,))
def own_stop_iteration(a):
    try:
        next(Ending())
    except StopIteration as error:
        return a + 1, error.args, list(Ending()), next(Ending(), 3)


@programs((x, float("nan")))
def sentinel_that_is_not_equal_to_itself(a, nan):
    return a + 1, list(iter(lambda: nan, nan))


@programs((x,))
def sets_are_looked_for_as_frozensets(a):
    elements = {frozenset({1, 2}), frozenset()}
    found = [{1, 2} in elements, set() in elements, {3} in elements]
    elements.discard({1, 2})
    try:
        elements.remove({5})
    except KeyError as error:
        found.append(error.args)
    return a + 1, found, elements


@programs((x,))
def first_of_many(a):
    for number in range(10**12):
        if number == 3:
            break
    return a + number, next(iter(range(10**12)))


@programs((x,), breaks="raises")
def heap_of_what_has_no_order(a):
    heap = [1, 3]
    try:
        heapq.heappush(heap, "text")
    except TypeError:
        pass
    return a + 1, heap


@programs((x,))
def heap_of_equal_numbers(a):
    heap = [1]
    popped = heapq.heapreplace(heap, True)
    return a + 1, popped, heap


@programs((x,))
def deque_that_turns_while_it_is_iterated(a):
    queue, seen = collections.deque([1, 2, 3]), []
    try:
        for item in queue:
            seen.append(item)
            queue.rotate(1)
    except RuntimeError as error:
        seen.append(str(error))
    return a + 1, seen


test_changing_containers = programs.tests()
