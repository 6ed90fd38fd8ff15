"""State of the standard library is captured, and afterwards equals that of the plain program."""

import functools
import threading
import weakref

import pytest
import torch

import stator
from tests.python.helpers import collect
from tests.python.parity.corpus import run
from tests.python.parity.corpus.observe import difference

x = torch.arange(3.0)
# Programs with breaks: external counters and warning filters, dead referents, exceptions of cached functions.
BREAKS = {
    "cached_tensor",
    "cached_and_driven_out",
    "cached_by_type",
    "cached_call_fails",
    "reference_to_what_is_gone",
    "warnings_recorded",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in run.names("library_state") if n not in BREAKS])
def test_in_one_graph(name):
    expected = run.run("library_state", name)
    seen = run.run("library_state", name, lambda fn: stator.compile(fn, fullgraph=True))
    assert difference(seen, expected) is None
    assert stator.counters()["captures"]["total"] >= 1


@pytest.mark.parametrize("after", range(1, 30))
@pytest.mark.parametrize("name", ["cached_and_written", "thread_local_of_a_class", "warnings_and_an_exception"])
@pytest.mark.filterwarnings("ignore")
def test_cut_anywhere(name, after):
    expected = run.run("library_state", name)
    with stator.config.patch(break_after=after):
        assert difference(run.run("library_state", name, stator.compile), expected) is None


def test_each_thread_has_its_own():
    local = threading.local()
    local.scale = 2.0

    def scaled(a):
        local.uses = getattr(local, "uses", 0) + 1
        return a * local.scale

    compiled = stator.compile(scaled, fullgraph=True)
    assert torch.equal(compiled(x), x * 2) and torch.equal(compiled(x), x * 2)
    seen = []

    def other():
        local.scale = 5.0
        seen.extend([compiled(x), compiled(x), vars(local).copy()])

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert torch.equal(seen[0], x * 5) and torch.equal(seen[1], x * 5)
    assert seen[2] == {"scale": 5.0, "uses": 2} and vars(local) == {"scale": 2.0, "uses": 2}


def test_a_full_cache_keeps_the_last_used_entry():
    @functools.lru_cache(maxsize=2)
    def table(count):
        return torch.arange(float(count))

    def use(a, count):
        return a + table(count).sum()

    compiled = stator.compile(use, fullgraph=True)
    for count in (1, 2, 1, 3, 1, 2):
        assert torch.equal(compiled(x, count), x + sum(range(count)))
    plain = table.cache_info()
    assert (plain.hits, plain.misses, plain.currsize) == (2, 4, 2)


def test_process_state_is_queried_again():
    def threads(a):
        return a + torch.get_num_threads()

    compiled = stator.compile(threads, fullgraph=True)
    before = torch.get_num_threads()
    try:
        for count in (before, before + 1, before):
            torch.set_num_threads(count)
            assert torch.equal(compiled(x), x + count)
        assert stator.counters()["cache"]["hits"] == 1
    finally:
        torch.set_num_threads(before)


def _made_by(program, counts):
    """The number of classes alive after the calls, beyond those before."""
    compiled = stator.compile(program)
    alive = weakref.WeakSet()
    for _ in range(counts):
        alive.add(compiled(x))
    collect()
    return len(alive)


def test_names_of_a_class_keep_it_not():
    def program(a):
        class Made:
            field = property(lambda self: a)

            @staticmethod
            def plain(value):
                return value

        names = vars(Made)
        stator.graph_break()
        held = [key for key, value in names.items() if value is not None]
        stator.graph_break()
        names["plain"], names["field"], names["__dict__"], held
        stator.graph_break()
        return Made

    assert _made_by(program, 6) <= 1


def test_a_new_weak_reference_keeps_nothing_alive():
    class Node:
        pass

    def make(a):
        node = Node()
        node.value = a + 1
        return weakref.ref(node), node

    compiled = stator.compile(make, fullgraph=True)
    reference, node = compiled(x)
    reference, node = compiled(x)
    assert reference() is node
    del node
    assert reference() is None
