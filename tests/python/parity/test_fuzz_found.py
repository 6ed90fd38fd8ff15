"""Shrunk programs for which the fuzzer found a difference."""

import pytest

from tests.fuzz.execute import compare
from tests.fuzz.grammar import Inputs
from tests.fuzz.rows import PRELUDE

CALLS = [
    Inputs(0, 3),
    Inputs(1, 3),
    Inputs(2, 1, flag=False, world=1),
    Inputs(3, 2, form="strided", number="bool"),
    Inputs(4, 0, grad=True, lengths=(0, 0)),
    Inputs(5, 3),
]

FOUND = {
    "dict_updated_in_place_after_an_effect": """
        log.append(1)
        d |= {}
    """,
    "operator_that_refuses_a_bool": """
        return n - x
    """,
    "operator_that_refuses_a_bool_in_a_call": """
        for t in [x, y]:
            log.append(decorated(t, n))
        x.zero_()
    """,
    "operator_that_raises_when_it_runs": """
        log.append(1)
        try:
            y.add_(y[0])
        except RuntimeError:
            return y * 2
    """,
    "view_of_no_grad_is_written_after_a_break": """
        with torch.no_grad():
            y = y.view(-1)
            print("inside")
        y[:] = x
    """,
    "generator_is_dropped_before_the_block_ends": """
        with Scope("s"):
            for k in counter(0):
                print("inside")
                return y + k
    """,
    "list_asks_for_the_length": """
        del obj.items
        return x + 1, list(obj)
    """,
    "count_from_a_bool": """
        return x + 1, list(itertools.islice(itertools.count(n), 2))
    """,
}


def text_of(name):
    lines = [line[4:] for line in FOUND[name].splitlines()]
    return (
        PRELUDE + "\n\ndef program(x, y, n, flag, xs, ns, d, obj):\n    global g_count, g_tensor\n" + "\n".join(lines)
    )


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    found = compare(text_of(name), CALLS)
    assert found is None, found
