"""Misses past the recompile limit: they are cheap, and entries that fit again are used again."""

import contextlib
import time
import warnings

import pytest
import torch

import stator
from tests.python.helpers import captures, run_program


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def increment(x):
    return x + 1


def sized(n):
    return torch.ones(n)


def hits():
    return stator.counters()["cache"]["hits"]


def fill(compiled, limit=8):
    for n in range(1, limit + 1):
        compiled(sized(n))


def test_results_are_right_in_every_phase():
    compiled = stator.compile(increment)
    for n in range(1, 300):
        assert torch.equal(compiled(sized(n)), sized(n) + 1)


def test_entries_that_fit_keep_being_used():
    compiled = stator.compile(increment)
    fill(compiled)
    before = hits()
    for n in range(100, 160):
        compiled(sized(n))
        compiled(sized(3))
    assert hits() >= before + 60
    assert captures() <= 8 + 2, "an entry is evicted now and then"


def test_entries_are_found_again_after_many_misses():
    with stator.config.patch(recompile_limit=4):
        compiled = stator.compile(increment)
        fill(compiled, 4)
        for n in range(100, 125):  # too few misses to evict an entry
            compiled(sized(n))
        before = hits()
        for _ in range(17):  # a call of so many looks at the entries
            compiled(sized(2))
        assert hits() > before
        before = hits()
        for n in (1, 2, 3, 4) * 3:
            compiled(sized(n))
        assert hits() == before + 12, "every call looks at the entries again"


def test_captured_again_after_many_misses():
    compiled = stator.compile(increment)
    fill(compiled)
    for _ in range(200):
        compiled(sized(50))
    before = hits()
    for _ in range(20):
        compiled(sized(50))
    assert hits() == before + 20, "the size that is used now has an entry"


def test_limit_can_be_raised_later():
    compiled = stator.compile(increment)
    fill(compiled)
    for n in range(100, 125):
        compiled(sized(n))
    with stator.config.patch(recompile_limit=64):
        for _ in range(64):
            compiled(sized(70))
        before = hits()
        compiled(sized(70))
        assert hits() == before + 1


def test_errors_are_raised_in_each_call():
    tolerant = stator.compile(increment)
    fill(tolerant)
    for n in range(100, 125):
        tolerant(sized(n))
    strict = stator.compile(increment, fullgraph=True)
    for _ in range(3):
        with pytest.raises(stator.RecompileLimitExceeded):
            strict(sized(99))
    with stator.config.patch(fail_on_recompile_limit_hit=True):
        for _ in range(3):
            with pytest.raises(stator.RecompileLimitExceeded):
                tolerant(sized(99))
    with stator.set_stance("fail_on_recompile"):
        for _ in range(3):
            with pytest.raises(stator.StatorError):
                tolerant(sized(99))


def test_reasons_are_told_to_those_who_ask():
    told = []
    compiled = stator.compile(increment, guard_fail_fn=told.append)
    fill(compiled)
    seen = len(told)
    for n in range(100, 105):
        compiled(sized(n))
    assert len(told) >= seen + 5 * 8
    for n in range(105, 145):
        seen = len(told)
        compiled(sized(n))
        assert len(told) >= seen + 8


def test_reset_ends_it():
    compiled = stator.compile(increment)
    for n in range(1, 30):
        compiled(sized(n))
    stator.reset()
    compiled(sized(5))
    assert captures() == 1


def test_behind_a_break():
    def f(x):
        y = x + 1
        with contextlib.suppress(ValueError):
            print(end="")
        return y * 2

    compiled = stator.compile(f)
    for n in range(1, 200):
        assert torch.equal(compiled(sized(n)), f(sized(n)))


def test_miss_names_what_changed_in_a_class():
    text = run_program(
        """
        import logging, torch, stator
        from torch import nn
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=__import__("sys").stdout)
        model = nn.Sequential(nn.Linear(2, 2))
        compiled = stator.compile(model)
        compiled(torch.ones(1, 2))
        nn.Linear.forward = lambda self, x: x
        compiled(torch.ones(1, 2))
        """,
        STATOR_LOGS="",
    )
    assert "Linear.forward" in text


def test_a_miss_costs_microseconds():
    """A broad bound: the benchmarks measure it. Texts of reasons alone took longer."""
    with stator.config.patch(recompile_limit=64):
        compiled = stator.compile(increment)
        fill(compiled, 64)
        given = [sized(n) for n in range(100, 400)]
        for x in given[:40]:
            compiled(x)
        times = []
        for x in given[40:]:
            start = time.perf_counter()
            compiled(x)
            middle = time.perf_counter()
            increment(x)
            times.append((middle - start) - (time.perf_counter() - middle))
        assert sorted(times)[len(times) // 2] < 10e-6
