"""The debug folder: the files that captures write there, and no other effects."""

import logging
import os

import pytest
import torch

import stator
from tests.python.helpers import run_program


@pytest.fixture
def folder(tmp_path):
    stator.config.debug_dir = str(tmp_path / "debug")
    return tmp_path / "debug"


@pytest.fixture
def handlers():
    """The handlers of all of Stator's loggers."""

    def read():
        names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "stator"]
        return {name: list(logging.getLogger(name).handlers) for name in ["", "stator", *names]}

    return read


def f(x, scale=2):
    return x.sin() * scale


def run_of(folder):
    """The folder of this process."""
    (run,) = folder.iterdir()
    assert run.name.startswith("run_") and run.name.endswith(f"-pid_{os.getpid()}")
    return run


def text(path):
    return path.read_text(encoding="utf-8")


def test_one_folder_for_each_capture(folder, K):
    compiled = stator.compile(f, backend=K)
    compiled(torch.ones(3))
    compiled(torch.ones(3))
    compiled(torch.ones(3, dtype=torch.float64))
    assert sorted(path.name for path in run_of(folder).iterdir()) == ["0_0", "0_1"]
    first = run_of(folder) / "0_0"
    assert "sin" in text(first / "graph.txt") and "sin" in text(first / "graph.py")
    assert any(line.startswith("x ") for line in text(first / "guards.txt").splitlines())
    assert "= output 0" in text(first / "plan.txt") and "return %" in text(first / "plan.txt")
    assert not (first / "break.txt").exists()
    log = text(first / "capture.log")
    assert "capture of f (" in log and "captured as 0/0: 2 ops" in log
    assert "again because 0/0: x" in text(run_of(folder) / "0_1" / "capture.log")


def test_breaks_are_logged(folder):
    def parts(x):
        y = x.sin()
        stator.graph_break()
        return [y.cos(), f(y)]

    stator.compile(parts)(torch.ones(3))
    first, second = sorted(run_of(folder).iterdir())
    assert "[user]" in text(first / "break.txt") and "test_debug_folder.py" in text(first / "break.txt")
    assert "resume the frame at offset" in text(first / "plan.txt")
    assert "= list (%" in text(second / "plan.txt")


def test_handlers_are_as_before(folder, handlers):
    before = handlers()
    stator.compile(f)(torch.ones(3))
    assert handlers() == before


def test_a_capture_that_fails(folder, handlers):
    def bad(gm, example_inputs):
        raise ValueError("no such thing")

    before = handlers()
    with pytest.raises(stator.BackendCompilerFailed):
        stator.compile(f, backend=bad)(torch.ones(3))
    assert handlers() == before
    assert "ValueError: no such thing" in text(run_of(folder) / "0_0" / "capture.log")
    assert "sin" in text(run_of(folder) / "0_0" / "graph.py")


def test_an_error_that_is_suppressed(folder):
    def bad(gm, example_inputs):
        raise ValueError("no such thing")

    with stator.config.patch(suppress_errors=True), pytest.warns(RuntimeWarning, match="plain Python"):
        stator.compile(f, backend=bad)(torch.ones(3))
    assert "ValueError: no such thing" in text(run_of(folder) / "0_0" / "capture.log")


def test_captures_inside_of_captures(folder, handlers):
    inner = stator.compile(lambda x: x + 1)

    def nested(gm, example_inputs):
        inner(example_inputs[0])
        return gm.forward

    before = handlers()
    stator.compile(f, backend=nested)(torch.ones(3))
    assert handlers() == before
    found = {path.name: "add" in text(path / "graph.txt") for path in run_of(folder).iterdir()}
    assert found == {"0_0": False, "1_0": True}


def test_messages_of_loggers_are_included(folder):
    def logging_backend(gm, example_inputs):
        logging.getLogger("stator.mine").warning("from the backend")
        return gm.forward

    stator.compile(f, backend=logging_backend)(torch.ones(3))
    assert "stator.mine: from the backend" in text(run_of(folder) / "0_0" / "capture.log")


def test_nothing_is_written_twice(folder):
    for _ in range(2):
        stator.compile(f)(torch.ones(3))
        stator.reset()
    assert sorted(path.name for path in run_of(folder).iterdir()) == ["0_0", "0_0.1"]


def test_one_folder_for_each_run_and_setting(folder, tmp_path):
    assert not folder.exists()
    stator.compile(f)(torch.ones(3))
    stator.compile(lambda x: x + 1)(torch.ones(3))
    assert len(list(run_of(folder).iterdir())) == 2
    stator.config.debug_dir = str(tmp_path / "other")
    assert not (tmp_path / "other").exists()
    stator.compile(lambda x: x + 2)(torch.ones(3))
    assert run_of(tmp_path / "other").name != run_of(folder).name


def test_no_colours(folder):
    def colourful(gm, example_inputs):
        logging.getLogger("stator.mine").warning("\x1b[31mred\x1b[0m")
        return gm.forward

    stator.compile(f, backend=colourful)(torch.ones(3))
    log = text(run_of(folder) / "0_0" / "capture.log")
    assert "stator.mine: red\n" in log and "\x1b" not in log


class TestLogFile:
    def test_every_logger_writes_to_it(self, tmp_path, handlers):
        before = handlers()
        stator.set_logs("graph,breaks")
        try:
            active = handlers()
            with stator.log_file(tmp_path / "log.txt"):
                stator.compile(f)(torch.ones(3))
                logging.getLogger("stator").warning("of the root")
            assert handlers() == active
            logging.getLogger("stator.graph").info("too late")
        finally:
            stator.set_logs("")
        assert handlers() == before
        log = text(tmp_path / "log.txt")
        assert log.count("aten::sin") == 1 and log.count("[stator] of the root") == 1 and "too late" not in log

    def test_a_file_that_cannot_be_opened(self, tmp_path, handlers):
        before = handlers()
        with pytest.raises(OSError), stator.log_file(tmp_path / "none" / "log.txt"):
            pass
        assert handlers() == before


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    stator.config.debug_dir = str(tmp_path / "file")
    with pytest.warns(RuntimeWarning, match="debug_dir"):
        result = stator.compile(f)(torch.ones(3))
    assert torch.equal(result, f(torch.ones(3)))


def test_off_again(folder):
    stator.config.debug_dir = ""
    stator.compile(f)(torch.ones(3))
    assert not folder.exists()


def test_named_by_the_environment(tmp_path):
    shown = run_program(
        """
        import torch, stator
        stator.compile(lambda x: x.sin())(torch.ones(3))
        print(stator.config.debug_dir)
        """,
        STATOR_DEBUG_DIR=str(tmp_path / "named"),
    )
    assert shown == str(tmp_path / "named")
    assert "sin" in text(next((tmp_path / "named").iterdir()) / "0_0" / "graph.txt")
