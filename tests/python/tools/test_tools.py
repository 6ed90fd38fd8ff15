"""The checks of tools/ find what they are there to find."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("core/graph/a.cpp", '#include "capture/values/source.h"', "may not include capture/values"),
        ("capture/guards/a.cpp", '#include "capture/interpreter/interpreter.h"', "may not include"),
        ("core/fake/a.cpp", "#include <Python.h>", "core includes Python"),
        ("capture/call/a.cpp", "#if PY_VERSION_HEX > 0", "version conditional"),
        ("core/graph/a.cpp", "#include <torch/torch.h>", "too heavy"),
        ("elsewhere/a.cpp", "", "no layer has this folder"),
        ("core/base/a.cpp", "\n" * 1001, "more than 1000"),
    ],
)
def test_layer_rule(tmp_path, path, text, problem):
    check = load("check_includes")
    file = tmp_path / "src" / path
    file.parent.mkdir(parents=True)
    file.write_text(text + "\n")
    problems = check.check_file(tmp_path / "src", file)
    assert len(problems) == 1 and problem in problems[0]


def test_allowed_includes_pass(tmp_path):
    check = load("check_includes")
    file = tmp_path / "src" / "capture" / "pycompat" / "a.h"
    file.parent.mkdir(parents=True)
    file.write_text('#include <Python.h>\n#include "core/base/check.h"\n#if PY_VERSION_HEX > 0\n#endif\n')
    assert check.check_file(tmp_path / "src", file) == []
    assert check.find_cycle() is None


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"title": "t"}, "neither"),
        ({"tests": ["tests/python/tools/test_tools.py::test_layer_rule"]}, "no title"),
        ({"title": "t", "tests": ["tests/nowhere.py::test"]}, "does not exist"),
        ({"title": "t", "tests": ["tests/python/tools/test_tools.py::test_absent"]}, "has no test"),
        ({"title": "t", "answered": "docs/absent.md"}, "does not exist"),
        ({"title": "t", "open": "x", "extra": 1}, "unknown keys"),
    ],
)
def test_row_table(row, problem):
    (found,) = load("check_rows").check_row("F01", row)
    assert problem in found


@pytest.mark.parametrize("tool", ["check_includes", "check_rows", "check_docs"])
def test_the_tree_passes(tool):
    done = subprocess.run([sys.executable, f"tools/{tool}.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
