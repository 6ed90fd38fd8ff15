"""A bounded, deterministic run of the fuzzer; `make fuzz` runs longer."""

import hypothesis
import pytest

import stator
from tests.fuzz.cases import case_of
from tests.fuzz.execute import Tally, compare
from tests.fuzz.grammar import SIZES, Inputs, cases, random_case, random_case_of_sizes
from tests.fuzz.numbers import random_case_of_numbers
from tests.fuzz.reduce import reduced
from tests.fuzz.rows import PRELUDE

pytestmark = pytest.mark.usefixtures("one_thread")


@hypothesis.settings(
    max_examples=120,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(cases())
def test_drawn_programs(case):
    source, calls = case
    found = compare(source, calls)
    assert found is None, f"{found}\n{source[len(PRELUDE) :]}\n{calls}"


@pytest.mark.parametrize("first", range(0, 240, 60))
def test_seeded_programs(first):
    tally = Tally()
    for seed in range(first, first + 60):
        source, calls = random_case(seed)
        with tally:
            found = compare(source, calls)
        assert found is None, f"seed {seed}: {found}\n{source[len(PRELUDE) :]}\n{calls}"
    assert tally.captured > 10, "hardly any program is captured: the comparison says little"


@pytest.mark.parametrize("first", range(0, 60, 15))
@pytest.mark.parametrize("make", [random_case_of_sizes, random_case_of_numbers], ids=["sizes", "numbers"])
def test_seeded_programs_with_other_sizes(make, first):
    tally = Tally()
    for seed in range(first, first + 15):
        source, rounds = make(seed)
        assert all(len({call.size for call in calls}) >= 4 for calls in rounds)
        for calls in rounds:
            with tally:
                found = compare(source, calls)
            assert found is None, f"seed {seed}, {calls[0].sizes}: {found}\n{source[len(PRELUDE) :]}\n{calls}"
    assert tally.captured > 10, "hardly any program is captured: the comparison says little"


def test_every_program_of_a_campaign_has_several_sizes():
    for number in range(8):
        source, rounds = case_of(number)
        sizes = {way: {call.size for calls in rounds if calls[0].sizes == way for call in calls} for way in SIZES}
        assert all(len(found) >= 4 for found in sizes.values()), number
        assert random_case(number)[0] == source or number % 4 == 3


def test_seeded_programs_under_the_oracle():
    """Each call thrice, so that there are hits for the oracle to check."""
    with stator.config.patch(oracle=True):
        for seed in range(1000, 1060):
            source, calls = random_case(seed)
            found = compare(source, [call for call in calls for _ in range(3)])
            assert found is None, f"seed {seed}: {found}\n{source[len(PRELUDE) :]}\n{calls}"


CALLS = [Inputs(seed, 1, seed % 2 == 0, False, (1, 2), False) for seed in range(3)]


def wrong_compiler(target):
    """A wrong compiler: drops the third value of a result."""

    def call(*args):
        first, second, _, *rest = target(*args)
        return first, second, [], *rest

    return call


def test_a_difference_is_seen():
    source = PRELUDE + "\ndef program(x, y, n, flag, xs, ns, d, obj):\n    return x, n, xs\n"
    assert compare(source, CALLS, lambda target: target) is None
    assert "result" in compare(source, CALLS, wrong_compiler)


def test_failing_programs_are_made_small():
    body = """
def program(x, y, n, flag, xs, ns, d, obj):
    v1 = x + 1
    for i in range(2):
        if flag:
            v1 = v1 * 2
        xs.append(v1)
    try:
        ns.append(3)
    finally:
        log.append(1)
    return x, n, xs
"""
    small = reduced(PRELUDE + body, lambda source: "result" in (compare(source, CALLS, wrong_compiler) or ""))
    assert small[small.index("def program") :].splitlines()[1:] == ["    return (x, n, xs)"]
