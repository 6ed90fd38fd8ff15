"""The checks in tools/ report what they are meant to report."""

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

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
        ("capture/guards/a.cpp", '#include "capture/interpreter/protocol/interpreter.h"', "may not include"),
        ("capture/interpreter/state/a.cpp", '#include "capture/interpreter/protocol/interpreter.h"', "may not include"),
        ("capture/interpreter/torch/a.cpp", '#include "capture/interpreter/containers/dicts.h"', "may not include"),
        ("capture/interpreter/calls/a.cpp", '#include "capture/interpreter/models/tables.h"', "may not include"),
        ("capture/interpreter/models/a.cpp", '#include "capture/interpreter/opcodes/match.h"', "may not include"),
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
    ("rows", "problem"),
    [
        (['STATOR_OPERATOR("b", None, b)', 'STATOR_OPERATOR("a", None, a)'], "a comes before b"),
        (['STATOR_OPERATOR("a_", None, a)', 'STATOR_OPERATOR("a.out", None, a)'], "a.out comes before a_"),
        (['STATOR_OPERATOR("aten::a", None, a)'], "not a row"),
        (['STATOR_OPERATOR("a", None)'], "not a row"),
    ],
)
def test_operator_rows(tmp_path, rows, problem):
    check = load("check_operators")
    (tmp_path / "a.def").write_text("// A comment.\n" + "\n".join(rows) + "\n")
    _, problems = check.check_rows(tmp_path / "a.def", check.ROW, 2)
    assert len(problems) == 1 and problem in problems[0]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('f("aten::a"); f("aten::b"); f("aten::c");', 0),
        ('f("aten::a"); f("aten::b"); f("aten::c"); f("aten::d");', 1),
        ('f("aten::a", "aten::a.out"); f("aten::b"); f("aten::c");  // and "aten::d"', 0),
        ('constexpr const char* kNames[] = {"a", "b_", "c.out", "d"};', 1),
        ('constexpr const char* kNames[] = {"a", "b", "c"};', 0),
        ('constexpr const char* kNames[] = {"a", "b", "c", "no operator"};', 0),
    ],
)
def test_operator_lists(text, problems):
    check = load("check_operators")
    assert len(check.find_lists(text, {"a", "b", "c", "d"})) == problems


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ('NAMES = frozenset({"a", "b", "c", "d"})', 1),
        ('NAMES = ("a", "b", "c", "d", "of the module")', 1),
        ('NAMES = ("a", "b", "c", "d", "no", "operator")', 0),
        ('NAMES = ["a", "b", "c"]  # "d"', 0),
        ('NAMES = "a b c d".split()', 1),
        ('NAMES = """a b\nc d""".split()', 1),
        ("f(torch.ops.aten.a, torch.ops.aten.b.out, ops.aten.c, ops.aten.d)", 1),
    ],
)
def test_operator_lists_of_the_package(text, problems):
    check = load("check_operators")
    assert len(check.find_lists(text, {"a", "b", "c", "d"}, is_python=True)) == problems


def test_operator_lists_that_are_exempt(monkeypatch, tmp_path):
    """A list is exempt by its first names, and a row without a list is a problem."""
    check = load("check_operators")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "SOURCES", ("package",))
    (tmp_path / "package").mkdir()
    (tmp_path / "package/one.py").write_text('A = {"a", "b", "c", "d"}\nB = {"b", "c", "d", "a"}\n')
    rows = tuple(check.Exempt("package/one.py", begins, "a reason") for begins in ("a, b", "c, d"))
    assert check.check_sources({"a", "b", "c", "d"}, rows) == [
        "package/one.py: a list of operators: b, c, d, a",
        "package/one.py: has no list 'c, d' that is exempt",
    ]


def test_operator_table():
    check = load("check_operators")
    names, problems = check.check_table()
    assert {"add", "gather", "linalg_eig"} <= names
    assert problems == []


def test_operators_of_the_passes_exist():
    """A row that names no operator of torch would never be found."""
    check = load("check_operators")

    def schema(name):
        base, _, overload = name.partition(".")
        return torch._C._get_schema(f"aten::{base}", overload)

    folder = ROOT / "src/core/passes"
    rows = [row for path in folder.rglob("*.def") for row in check.PASS_ROW.findall(path.read_text())]
    twins = [(name, rest.strip('"')) for kind, name, rest in rows if kind == "TWIN"]
    views = [name for kind, name, _ in rows if kind == "VIEW"]
    assert len(twins) > 5 and len(views) > 20
    assert [pair for pair in twins if [schema(name).is_mutable for name in pair] != [True, False]] == []
    assert [name for name in views if schema(name).is_mutable or len(schema(name).returns) != 1] == []


@pytest.mark.parametrize(
    ("path", "text", "problems"),
    [
        ("src/core/fake/a.h", "std::mutex mutex_;", 1),
        ("src/core/fake/a.cpp", "static std::once_flag once;", 1),
        ("src/compile/a.cpp", "pthread_atfork(nullptr, nullptr, renew);", 1),
        ("src/compile/a.cpp", "// unlike std::mutex", 0),
        ("src/core/base/fork_safe.h", "std::mutex mutex_;", 0),
        ("src/core/backend/a.cpp", "std::lock_guard lock(generator.mutex());", 0),
        ("python/stator/a.py", "_lock = threading.Lock()", 1),
        ("python/stator/fork_safe.py", "self._lock = threading.RLock()", 0),
    ],
)
def test_lock_rule(tmp_path, path, text, problems):
    check = load("check_names")
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(text + "\n")
    assert len(check.problems_of(tmp_path, file)) == problems


@pytest.mark.parametrize(
    ("path", "text", "problems"),
    [
        ("attributes/a.cpp", "PyObject* found = _PyType_Lookup(type, name);", 1),
        ("attributes/a.cpp", "PyDict_GetItemWithError(type->tp_dict, name);", 1),
        ("attributes/a.cpp", "PyObject* found = look_up(type, name);  // not _PyType_Lookup", 0),
        ("attributes/a.cpp", "if (type->tp_dictoffset) return;", 0),
        ("state/known_types.cpp", "PyObject* raw = _PyType_Lookup(type, name);", 0),
        ("classes/surrogates.cpp", "PyDict_Copy(prototype->tp_dict);", 0),
    ],
)
def test_lookups_on_classes_are_recorded(tmp_path, path, text, problems):
    check = load("check_names")
    file = tmp_path / "src" / "capture" / "interpreter" / path
    file.parent.mkdir(parents=True)
    file.write_text(text + "\n")
    assert len(check.problems_of(tmp_path, file)) == problems


def symbols_of(library, *options):
    command = ["nm", "--demangle", *options, ROOT / "python" / "stator" / library]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_core_has_no_guarded_statics():
    """The guard of a function-local static is a lock that another thread may hold when the process forks."""
    symbols = symbols_of("libstator_core.so")
    assert any("stator::" in line for line in symbols), "the library has no symbols"
    assert [line for line in symbols if "guard variable for stator::" in line] == []


def test_extension_has_no_guarded_statics():
    """There a guard variable is only a flag: the GIL orders the initialisers of statics."""
    library = "_C" + sysconfig.get_config_var("EXT_SUFFIX")
    imported = symbols_of(library, "--dynamic", "--undefined-only")
    assert any("PyObject_Call" in line for line in imported), "the library has no symbols"
    assert [line for line in imported if "__cxa_guard_" in line] == []
    # Those of headers that are used without the GIL must be in bindings/library_statics.cpp. The others need the GIL.
    of_headers = {line.split("guard variable for ")[1] for line in symbols_of(library) if "guard variable for" in line}
    known = ("stator::", "pybind11::", "c10::Dispatcher::singleton()")
    assert {name for name in of_headers if not name.startswith(known)} == set()


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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("// an outside object", ["outside object"]),
        ("class StandIn:", ["standin"]),
        ("int stand_in_of(int);", ["stand_in"]),
        ("frames that stand in a loop", []),
        ("bool ends_aloud(PyObject*);", ["aloud"]),
        ("the unwalked path", []),
        ("void pin_dtypes();", ["pin dtypes"]),
        ("tensor.pin_memory()", []),
    ],
)
def test_retired_words(text, found):
    problems = load("check_words").check_text("tools/a.h", text, load("check_words").RETIRED)
    assert [problem.split("'")[1] for problem in problems] == found


BODY = "  step();\n" * 3


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"void plain(int a) {{\n{BODY}}}\n", [("plain", 1, 5)]),
        (f"namespace n {{\nvoid inner() {{\n{BODY}}}\n}}\n", [("inner", 2, 5)]),
        (f"struct S final : Base {{\n public:\n  S() : a_(1) {{\n{BODY}  }}\n}};\n", [("S", 3, 5)]),
        (f"int two_lines(int a,\n              int b) const {{\n{BODY}}}\n", [("two_lines", 1, 6)]),
        ("bool operator==(const A& a) {\n  return true;\n}\n", [("operator==", 1, 3)]),
        ("auto f() {\n  auto g = [](int a) {\n    return a;\n  };\n}\n", [("f", 1, 5)]),
        ("struct StatorRow* make(void) {\n  return 0;\n}\n", [("make", 1, 3)]),
        ('const char* text() {\n  return "}{";  // }\n}\n', [("text", 1, 3)]),
        ('#define OPEN(a) {\nchar c = R"x(}})x";\nvoid f() {\n}\n', [("f", 3, 2)]),
        ("constexpr Row kRows[] = {\n  {f(1)},\n};\nenum class E { A };\nvoid f();\n", []),
    ],
)
def test_function_lengths(text, found):
    assert [tuple(function) for function in load("check_functions").functions_in(text)] == found


def test_long_functions_and_files(tmp_path):
    check = load("check_functions")
    file = tmp_path / "src" / "compile" / "pipeline.cpp"
    file.parent.mkdir(parents=True)
    file.write_text("void fits() {\n" + "  a();\n" * 78 + "}\n")
    assert check.check(tmp_path) == []
    file.write_text("void is_long() {\n" + "  a();\n" * 79 + "}\n" + "\n" * 100)
    problems = check.check(tmp_path)
    assert len(problems) == 2
    assert "pipeline.cpp:1: is_long has 81 lines" in problems[0]
    assert "more than 150" in problems[1]


def test_retired_words_are_in_the_glossary():
    check = load("check_words")
    row = check.Retired("old", "old", "new")
    assert check.missing_in_glossary("| old | new |\n", [row]) == []
    assert check.missing_in_glossary("| old | newer |\n", [row]) == ["docs/glossary.md: no row '| old | new |'"]


@pytest.mark.parametrize(
    "tool",
    [
        "check_includes",
        "check_functions",
        "check_names",
        "check_operators",
        "check_rows",
        "check_docs",
        "check_words",
    ],
)
def test_the_tree_passes(tool):
    done = subprocess.run([sys.executable, f"tools/{tool}.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_commands_for_clang():
    tidy = load("tidy")
    command = "/tools/cached.sh /usr/bin/c++ -DA -O2 -Winvalid-pch -include /b/cmake_pch.hxx -o a.o -c /s/a.cpp"
    assert tidy.clang_command(command) == "c++ -DA -O2 -o a.o -c /s/a.cpp"


def test_sources_for_clang_tidy(tmp_path):
    """A header is checked through its like-named source, or through the nearest source that includes it."""
    tidy = load("tidy")
    (tmp_path / "src").mkdir()
    texts = {
        "a.h": "",
        "a.cpp": '#include "a.h"',
        "b.h": "",
        "c.h": '#include "b.h"',
        "d.cpp": '#include "c.h"',
        "e.h": "",
    }
    for name, text in texts.items():
        (tmp_path / "src" / name).write_text(text + "\n")
    included_by = tidy.includers([f"src/{name}" for name in texts], tmp_path)
    sources = {"src/a.cpp", "src/d.cpp"}
    wanted = {"src/a.h": "src/a.cpp", "src/b.h": "src/d.cpp", "src/c.h": "src/d.cpp", "src/e.h": None}
    assert {header: tidy.source_of(header, sources, included_by) for header in wanted} == wanted
    # The largest change comes first; the lines of a header count for its source.
    lines = {"src/a.cpp": 3, "src/a.h": 1, "src/b.h": 5, "src/e.h": 90, "docs/a.md": 9}
    assert tidy.select(sources, lines, included_by) == ["src/d.cpp", "src/a.cpp"]
