"""Programs that break at every instruction, cold and warm, behave as plain Python."""

from __future__ import annotations

import importlib.util
import sys
import traceback
import warnings
from pathlib import Path

import pytest

import stator
from tests.python.parity import break_programs

_spec = importlib.util.spec_from_file_location(
    "resume_programs", Path(__file__).parents[2] / "pycompat" / "programs.py"
)
programs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(programs)

# The number of instructions after which each capture breaks.
# -1: before every instruction, so that each is executed concretely.
FUELS = [-1, *range(1, 41), 47, 53, 61, 74, 89, 107, 150, 0]


def outcome(function, args, kwargs, log, name):
    """Everything a caller can observe."""
    try:
        result = ("value", repr(function(*args, **kwargs)))
    except BaseException as error:
        chain, seen = [], error
        while seen is not None:
            chain.append((type(seen).__name__, repr(seen.args)))
            seen = seen.__context__
        lines = [
            (entry.name, entry.lineno, entry.colno)
            for entry in traceback.extract_tb(error.__traceback__)
            if entry.name == name
        ]
        result = ("raised", chain, lines)
    return result, repr(log), repr(sys.exc_info()[1])


@pytest.mark.parametrize("program", programs.PROGRAMS + break_programs.PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("handling", [False, True], ids=["plain", "handling"])
def test_broken_everywhere(program, handling):
    def run(wrap):
        function, args, kwargs, log = program()
        compiled = wrap(function)
        if not handling:
            return outcome(compiled, args, kwargs, log, function.__name__)
        try:
            raise OSError("the caller handles this one")
        except OSError:
            return outcome(compiled, args, kwargs, log, function.__name__)

    want = run(lambda function: function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for fuel in FUELS:
            stator.reset()
            with stator.config.patch(break_after=fuel):
                for attempt in range(3):
                    assert run(stator.compile) == want, f"broken after {fuel} instructions, call {attempt}"
            assert stator.counters["captures"] or not fuel


# Statements after which the rest of the frame runs in Python: they raise, or prepare to.
LEFT = {"imports": "IMPORT_FROM", "class_and_names": "LOAD_GLOBAL"}
LEFT |= {name: "PREP_RERAISE_STAR" for name in ("star_handlers", "star_handlers_leave_some", "star_reraises_itself")}


@pytest.mark.parametrize("program", programs.PROGRAMS + break_programs.PROGRAMS, ids=lambda p: p.__name__)
def test_every_instruction_can_be_done_for_real(program):
    function, args, kwargs, log = program()
    stator.reset()
    with stator.config.patch(break_after=-1):
        outcome(stator.compile(function), args, kwargs, log, function.__name__)
    left = LEFT.get(program.__name__)
    assert list(stator.counters.get("leaves", ())) == ([left] if left else [])
    assert stator.counters["captures"]
