"""The programs of docs/make_fx.md run."""

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).resolve().parents[3] / "docs/make_fx.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_program(program):
    exec(compile(program, "make_fx.md", "exec"), {"__name__": "program"})
