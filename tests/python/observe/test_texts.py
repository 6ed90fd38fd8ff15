"""Names and texts that UTF-8 cannot express: those of files whose names are other bytes, for one."""

from __future__ import annotations

import json
import sys
import types
import warnings

import pytest
import torch

import stator
from stator import debug, html, trace
from stator.files import write_whole
from tests.python.helpers import captures, run_program

ODD = "\udcff"
SHOWN = "\\udcff"


def made(source, name="f", file=f"/tmp/{ODD}.py", **more):
    names = {"torch": torch, "stator": stator, **more}
    exec(compile(source, file, "exec"), names)
    return names[name]


def outcome(function, *args):
    try:
        return repr(function(*args))
    except Exception as error:
        return type(error), str(error)


def with_name(name):
    function = made("def f(x):\n    print(end='')\n    return x * 3")
    function.__name__ = function.__qualname__ = function.__module__ = name
    return lambda x: function(x) + 1


class Named:
    pass


HELPER = made("def h(x):\n    print(end='')\n    return x * 3", "h")
PROGRAMS = {
    "file": made("def f(x):\n    return x + 1"),
    "warning": made("import warnings\ndef f(x):\n    warnings.warn('hi')\n    return x + 1"),
    "inlined": lambda x: HELPER(x) + 1,
    "error": made("def f(x):\n    raise ValueError(1)"),
    "break": made("def f(x):\n    y = x + 1\n    assert y.sum() > 0\n    return y"),
    "names": with_name(ODD),
    "disabled": lambda x: stator.disable(lambda y: y + 1, reason=ODD)(x),
    "graph_break": lambda x: (torch._dynamo.graph_break(msg=ODD), x + 1)[1],
    "keyword": lambda x: (lambda y: x)(**{ODD: 1}),
    "no attribute": lambda x: getattr(Named(), ODD),
    "no attribute of a module": lambda x: getattr(types, ODD),
    "no attribute of a tensor": lambda x: getattr(x, ODD),
    "import": lambda x: x + __import__(f"os{ODD}").foo,
    "not a name": made("def f(x):\n    return x + missing"),
    "file of a range": made("def f(x):\n    with torch.profiler.record_function('\\udcff'):\n        return x + 1"),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:hi")
def test_program(name):
    x = torch.ones(2)
    compiled = stator.compile(PROGRAMS[name])
    for _ in range(2):
        assert outcome(compiled, x) == outcome(PROGRAMS[name], x)


def test_attributes_of_a_function_are_told_apart():
    def f(x):
        def inner():
            pass

        setattr(inner, ODD, 1)
        setattr(inner, SHOWN, 2)
        setattr(inner, "?", 3)
        return x + 1, getattr(inner, ODD), getattr(inner, SHOWN), getattr(inner, "?")

    assert stator.compile(f)(torch.ones(1))[1:] == f(torch.ones(1))[1:] == (1, 2, 3)


def test_everything_that_is_written(tmp_path, capsys):
    """A capture of a file with such a name, with all files on, in a directory with such a name."""
    odd = tmp_path / ODD
    program = made("def f(x):\n    y = x.sin()\n    print(end='')\n    return y + 1")
    stator.config.debug_dir = str(odd / "debug")
    assert stator.config.debug_dir == str(odd / "debug")
    path = trace.start(odd / "trace")
    stator.set_logs("all")
    try:
        with stator.log_file(tmp_path / "log"), stator.events.recording(), warnings.catch_warnings():
            warnings.simplefilter("error")
            stator.events.instant(ODD, {ODD: ODD})
            trace.artifact(ODD, ODD, more=ODD)
            for size in (2, 3):
                assert torch.equal(stator.compile(program)(torch.ones(size)), torch.ones(size).sin() + 1)
    finally:
        trace.stop()
        stator.set_logs("")
        stator.config.debug_dir = ""
    assert captures() >= 2 and SHOWN in (tmp_path / "log").read_text() and "Traceback" not in capsys.readouterr().err
    folders = [file.parent for file in (odd / "debug").rglob("break.txt")]
    assert folders and all(SHOWN in (folder / "capture.log").read_text() for folder in folders)
    kinds = [record["kind"] for record in trace.read(path)]
    assert kinds.count("artifact") == 1 and kinds.count("graph") >= 2
    assert html.write_report(odd / "trace", tmp_path / "report.html")
    assert trace.to_torch(path, tmp_path / "torch.log") and SHOWN in (tmp_path / "torch.log").read_text()
    stator.events.export(tmp_path / "events.json")
    assert any(event["name"] == SHOWN for event in json.loads((tmp_path / "events.json").read_text())["traceEvents"])
    stator.events.clear()


def test_files(tmp_path):
    write_whole(tmp_path / "whole", ODD)
    folder = debug.Folder(tmp_path)
    folder.put("part", [ODD])
    folder.say(ODD)
    folder.close(ValueError(ODD))
    assert (tmp_path / "whole").read_text() == SHOWN and (tmp_path / "part").read_text() == SHOWN + "\n"
    assert (tmp_path / "capture.log").read_text().count(SHOWN) == 2


def test_a_failed_capture_is_recorded(tmp_path):
    program = made("def f(x):\n    print(x)\n    return x")
    with stator.record_failures(tmp_path), pytest.raises(stator.Unsupported) as caught:
        stator.compile(program, fullgraph=True)(torch.ones(1))
    assert caught.value.record is not None
    with pytest.raises(stator.Unsupported):
        stator.replay(caught.value.record, trust=True)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes")
def test_a_script_in_such_a_folder(tmp_path):
    folder = tmp_path / ODD
    folder.mkdir()
    (folder / "helper.py").write_text("def h(x):\n    print(end='')\n    return x * 2\n")
    source = "import os, sys, torch, stator\nsys.path.insert(0, os.environ['FOLDER'])\nimport helper\n"
    source += "print(stator.compile(lambda x: helper.h(x) + 1)(torch.ones(1)).item())\n"
    assert run_program(source, FOLDER=str(folder)) == "3.0"


def test_counts_and_records():
    stator._C.count(ODD, 2)
    assert stator._C.count_of(ODD) == 2 == stator._C.count_of(SHOWN)
    stator._C.reset_counts("")
    with pytest.raises(TypeError):
        stator._C.count(3)
