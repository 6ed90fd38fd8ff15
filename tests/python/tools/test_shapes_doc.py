"""The programs of docs/shapes.md run."""

import re
from pathlib import Path

import pytest

import stator

TEXT = (Path(__file__).resolve().parents[3] / "docs/shapes.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_program(program, tmp_path):
    stator.reset()
    file = tmp_path / "program.py"  # a capture needs the lines
    file.write_text(program)
    exec(compile(program, str(file), "exec"), {"__name__": "program"})


def test_the_operators_that_take_no_symbols():
    """The list names exactly the rows with the trait."""
    folder = Path(__file__).resolve().parents[3] / "src/core/ops"
    rows = [line for path in folder.glob("*.def") for line in path.read_text().splitlines()]
    named = {re.search(r'"([^"]+)"', line)[1] for line in rows if line.startswith("STATOR_") and "PlainSizes" in line}
    paragraph = TEXT[TEXT.index("- These operators take no symbolic sizes") :].split("\n- ")[1 - 1]
    assert set(re.findall(r"`(\w+)`", paragraph.split("Some kernels")[0])) == named
