"""A kind that lacks one of its functions does not compile: rows are added to a copy of the tables."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[3] / "src"
GUARDS, SOURCES = "capture/values/guard_kinds.def", "capture/values/source_kinds.def"
STEPS, VALUES = "capture/call/plan_steps.def", "capture/values/value_kinds.def"

GUARD = "STATOR_GUARD(Extra, {stage}, {traits}, {unwanted}, {check}, {words}, {describe}, {saw})"
GUARD_PARTS = {
    "stage": "Contents",
    "traits": "kNone",
    "unwanted": "Drop",
    "check": "check_identity",
    "words": "no_words",
    "describe": "describe_identity",
    "saw": "saw_object",
}
SOURCE = 'STATOR_SOURCE(Extra, {missing}, {per_call}, {load}, {words}, "{text}")'
SOURCE_PARTS = {
    "missing": "Never",
    "per_call": "No",
    "load": "load_type",
    "words": "no_words",
    "text": "{parent}.extra",
}
STEP = 'STATOR_STEP(Extra, {make}, "extra", {a}, None, {observes})'
STEP_PARTS = {"make": "make_tuple", "a": "None", "observes": "never"}


def compile_with(folder: Path, table: str, row: str, source: Path) -> str:
    """What the compiler says of a source with one more row in a table; empty if it compiles."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    assert compiler, "no C++ compiler"
    changed = folder / table
    changed.parent.mkdir(parents=True, exist_ok=True)
    changed.write_text((SRC / table).read_text() + row + "\n")
    includes = [f"-I{folder}", f"-I{SRC}", "-isystem", sysconfig.get_paths()["include"]]
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"]
    flags += ["-Wno-missing-field-initializers"]
    result = subprocess.run([compiler, *flags, *includes, source], capture_output=True, text=True, check=False)
    return result.stderr if result.returncode else ""


def row_of(form: str, parts: dict[str, str], **changed: str) -> str:
    return form.format(**{**parts, **changed})


@pytest.mark.parametrize(
    ("table", "row", "source"),
    [
        (GUARDS, row_of(GUARD, GUARD_PARTS), "guards/word_kinds.cpp"),
        (SOURCES, row_of(SOURCE, SOURCE_PARTS), "values/source.cpp"),
        (STEPS, row_of(STEP, STEP_PARTS), "call/prepare.cpp"),
    ],
)
def test_a_complete_row_compiles(tmp_path: Path, table: str, row: str, source: str) -> None:
    assert compile_with(tmp_path, table, row, SRC / "capture" / source) == ""


@pytest.mark.parametrize(
    ("column", "source"),
    [
        ("stage", "guards/check_array_builder.cpp"),
        ("traits", "guards/check_array_builder.cpp"),
        ("unwanted", "guards/filter.cpp"),
        ("check", "guards/fact_checks.cpp"),
        ("words", "guards/word_kinds.cpp"),
        ("describe", "guards/fact_text.cpp"),
        ("saw", "guards/fact_text.cpp"),
    ],
)
def test_a_guard_kind_needs_each_column(tmp_path: Path, column: str, source: str) -> None:
    row = row_of(GUARD, GUARD_PARTS, **{column: "not_there"})
    assert "not_there" in compile_with(tmp_path, GUARDS, row, SRC / "capture" / source)


@pytest.mark.parametrize(
    ("column", "source"),
    [
        ("missing", "values/source.cpp"),
        ("per_call", "values/source.cpp"),
        ("load", "guards/loads.cpp"),
        ("words", "guards/word_kinds.cpp"),
    ],
)
def test_a_source_kind_needs_each_column(tmp_path: Path, column: str, source: str) -> None:
    row = row_of(SOURCE, SOURCE_PARTS, **{column: "not_there"})
    assert "not_there" in compile_with(tmp_path, SOURCES, row, SRC / "capture" / source)


def test_the_text_of_a_source_names_its_parts(tmp_path: Path) -> None:
    row = row_of(SOURCE, SOURCE_PARTS, text="{elsewhere}.extra")
    assert "is_valid_text" in compile_with(tmp_path, SOURCES, row, SRC / "capture/values/source.cpp")


@pytest.mark.parametrize(
    ("column", "source"), [("make", "make_steps.cpp"), ("a", "plan_text.cpp"), ("observes", "prepare.cpp")]
)
def test_a_plan_step_needs_each_column(tmp_path: Path, column: str, source: str) -> None:
    row = row_of(STEP, STEP_PARTS, **{column: "not_there"})
    assert "not_there" in compile_with(tmp_path, STEPS, row, SRC / "capture/call" / source)


def test_a_value_kind_needs_its_case(tmp_path: Path) -> None:
    """`visit` must be given a case for each kind; a row needs its class."""
    program = tmp_path / "program.cpp"
    cases = "[](const SliceValue&) { return 1; }{rest}"
    text = '#include "capture/values/value.h"\nusing namespace stator::capture;\n'
    text += "int of(const Value& value) { return visit(value, Cases{" + cases + "}); }\n"
    program.write_text(text.replace("{rest}", ""))
    assert "NullValue" in compile_with(tmp_path, VALUES, "", program)
    program.write_text(text.replace("{rest}", ", [](const Value&) { return 2; }"))
    assert compile_with(tmp_path, VALUES, "", program) == ""
    assert "ExtraValue" in compile_with(tmp_path, VALUES, "STATOR_VALUE(Extra, ExtraValue)", program)
