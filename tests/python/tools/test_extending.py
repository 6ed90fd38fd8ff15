"""docs/extending.md is true: its places exist, its examples are in the tree, its programs run."""

import re
from pathlib import Path

import pytest

from stator import backends

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/extending.md").read_text()
SECTIONS = {part.split("\n", 1)[0]: part for part in PAGE.split("\n## ")[1:]}
BLOCK = re.compile(r"(?:^`(?P<path>[\w./]+)`\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
PATH = re.compile(r"`((?:src|tests|python|tools)/[\w./]+)`")
EXAMPLES = [
    pytest.param(match["path"], match["text"], id=f"{title}: {match['path']}")
    for title, section in SECTIONS.items()
    for match in BLOCK.finditer(section)
    if match["path"]
]
PROGRAMS = [
    pytest.param(match["text"], id=title)
    for title, section in SECTIONS.items()
    for match in BLOCK.finditer(section)
    if not match["path"]
]


def lines_of(text):
    return [line.strip() for line in text.strip().splitlines()]


def test_sections():
    kinds = {"A guard kind", "A source kind", "A plan step"}
    assert kinds | {"An operator", "A model of a built-in", "An opcode", "A backend"} <= SECTIONS.keys()
    assert len(EXAMPLES) + len(PROGRAMS) >= len(SECTIONS)


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_names_places_and_tests(title):
    section = SECTIONS[title]
    assert "\nPlaces:\n1. " in section
    assert "\nTests: " in section
    paths = PATH.findall(section)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize(("path", "text"), EXAMPLES)
def test_an_example_is_in_the_tree(path, text):
    wanted, present = lines_of(text), lines_of((ROOT / path).read_text())
    starts = [i for i, line in enumerate(present) if line == wanted[0]]
    assert any(present[i : i + len(wanted)] == wanted for i in starts), f"{path} does not contain:\n{text}"


@pytest.mark.parametrize("text", PROGRAMS)
def test_a_program_runs(text, monkeypatch):
    monkeypatch.setattr(backends, "_registry", {})
    exec(compile(text, "docs/extending.md", "exec"), {})
