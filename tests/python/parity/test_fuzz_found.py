"""Programs that the fuzzer found to differ, made small; they stay as tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.execute import compare
from tests.fuzz.grammar import Inputs
from tests.fuzz.rows import PRELUDE

ROOT = Path(__file__).resolve().parents[3]
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
# Programs that still differ, or end the process, and how; the latter run in a process of their own.
WRONG: dict[str, str] = {}
CRASHES: dict[str, str] = {}


def text_of(name):
    lines = [line[4:] for line in FOUND[name].splitlines()]
    return (
        PRELUDE + "\n\ndef program(x, y, n, flag, xs, ns, d, obj):\n    global g_count, g_tensor\n" + "\n".join(lines)
    )


def cases():
    for name in FOUND:
        marks = [pytest.mark.xfail(strict=True, reason=table[name]) for table in (WRONG, CRASHES) if name in table]
        yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", cases())
def test_found(name, tmp_path):
    if name not in CRASHES:
        found = compare(text_of(name), CALLS)
        assert found is None, found
        return
    notes = tmp_path / "program.json"
    notes.write_text(json.dumps({"source": text_of(name), "calls": [vars(call) for call in CALLS]}))
    command = [sys.executable, "-m", "tests.fuzz", "--replay", str(notes)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[-1])["found"] is None, done.stderr[-300:]
