"""Compares graph, guards and plan of small programs with the text in tests/golden.

A difference is a change of a capture or of its text form. `make golden` rewrites the files; their diff shows
the change for review.
"""

import difflib

import pytest

from tests.python.captured import FOLDER, HINT, ROOT, Golden, Table
from tests.python.golden import language, modules, tensors  # noqa: F401 - they register their programs
from tests.python.golden.registry import TOPICS

pytestmark = pytest.mark.usefixtures("one_thread")

PROGRAMS = [(topic, name) for topic, programs in TOPICS.items() for name in programs]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("topic", "name"), PROGRAMS, ids=[f"{topic}.{name}" for topic, name in PROGRAMS])
def test_text(topic, name, renew):
    if not FOLDER.exists() and not renew:
        pytest.skip(f"there is no {FOLDER}")
    found = TOPICS[topic][name].text(name)
    golden = Golden(topic)
    if renew:
        return golden.put(name, found)
    expected = golden.parts().get(name, "")
    lines = difflib.unified_diff(
        expected.splitlines(), found.splitlines(), "tests/golden", "captured", lineterm="", n=2
    )
    assert found == expected, "\n".join([HINT, *lines])


def test_every_section_is_a_program(renew):
    for topic, programs in TOPICS.items():
        Golden(topic).check_names(set(programs), renew)
    assert len(PROGRAMS) >= 60


@pytest.mark.parametrize("module", ["test_guards", "test_call_forms"])
def test_every_line_of_a_table_is_a_test(module):
    source = (ROOT / "tests" / "python" / "parity" / f"{module}.py").read_text(encoding="utf-8")
    gone = [name for name in Table(module).parts() if f"def {name.split('[')[0]}(" not in source]
    assert not gone, f"{Table(module).path} tells of tests that are gone: {gone}"


def test_the_text_is_the_same_in_every_run():
    """The text does not depend on addresses or on the order of a set."""
    for name in ("makes_containers", "writes_a_cell"):
        programs = next(programs for programs in TOPICS.values() if name in programs)
        assert len({programs[name].text(name) for _ in range(3)}) == 1


def test_a_lost_capture_is_noticed(monkeypatch):
    table = Table("example")
    monkeypatch.setattr(Table, "parts", lambda self: {"program": "graphs 1 ops 2"})
    monkeypatch.setattr("tests.python.captured.FOLDER", ROOT)
    record = {"graph": "graph", "ops": 2, "break_reason": None}
    table.check("program", [record], renew=False)
    for records in ([], [record | {"ops": 1}], [record | {"break_reason": {"id": "unknown_call"}}]):
        with pytest.raises(AssertionError, match="captured: "):
            table.check("program", records, renew=False)
