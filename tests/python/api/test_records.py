"""Failed captures that are recorded and captured again."""

import logging
import random

import pytest
import torch

import stator
from stator import records
from tests.python.helpers import captures, run_program

SCALE = 3


def helper(x):
    return x * SCALE


def failing(x, *rest, flag=True, **more):
    y = helper(x)
    if y.sum() > 0:
        y = y + 1
    return y, rest, flag, more


def record_of(directory, fn, *args, **kwargs):
    """The error of a failing call, and the file that records it."""
    with stator.record_failures(directory), pytest.raises(stator.StatorError) as caught:
        fn(*args, **kwargs)
    (file,) = directory.iterdir()
    return caught.value, file


def test_failed_capture_is_recorded_and_fails_again(tmp_path):
    x = torch.ones(3)
    error, file = record_of(tmp_path, stator.compile(failing, fullgraph=True), x, 1, flag=False, extra=[x])
    assert isinstance(error, stator.Unsupported) and file.name.startswith("failing_Unsupported_")
    assert str(file) in str(error)
    with pytest.raises(stator.Unsupported) as again:
        stator.replay(file, trust=True)
    assert again.value.reason["line"] == error.reason["line"] and again.value.code == error.code
    assert again.value.record is None, "a replay records nothing"


def test_local_functions_are_recorded_by_value(tmp_path):
    factor = torch.full((3,), 2.0)

    def outer(x, depth=2):
        def inner(y):
            return y * factor

        print("break", end="")
        return outer(inner(x), depth - 1) if depth else inner(x)

    error, file = record_of(tmp_path, stator.compile(outer, fullgraph=True), torch.ones(3))
    with pytest.raises(stator.Unsupported) as again:
        stator.replay(file, trust=True)
    assert again.value.reason["line"] == error.reason["line"]


def test_a_replay_that_succeeds_returns_the_result(tmp_path):
    def broken(gm, example_inputs):
        raise ValueError("boom")

    x = torch.arange(3.0)
    error, file = record_of(tmp_path, stator.compile(lambda x, k: x.sin() * k, backend=broken), x, 4)
    assert isinstance(error, stator.BackendCompilerFailed) and "boom" in str(error) and str(file) in str(error)
    assert torch.equal(stator.replay(file, trust=True), x.sin() * 4) and captures() == 1


def test_a_file_is_never_written_twice(tmp_path, caplog):
    compiled = stator.compile(failing, fullgraph=True)
    _, file = record_of(tmp_path, compiled, torch.ones(3))
    written = file.read_bytes()
    stator.reset()
    with caplog.at_level(logging.WARNING, "stator"):
        record_of(tmp_path, compiled, torch.ones(4))
    assert file.read_bytes() == written
    assert [record.levelname for record in caplog.records] == ["WARNING"] and file.name in caplog.text


def test_the_users_error_comes_first(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    with stator.record_failures(blocked), pytest.raises(stator.Unsupported) as caught:
        stator.compile(failing, fullgraph=True)(torch.ones(3))
    assert caught.value.record is None and "could not be recorded" in caplog.text
    with stator.record_failures(tmp_path / "other"), pytest.raises(ZeroDivisionError):
        stator.compile(lambda x: x / (1 // 0))(torch.ones(3))
    assert not (tmp_path / "other").exists(), "errors of the program are its own"


def test_in_another_process(tmp_path):
    program = """
        import torch, stator
        def step(x, w):
            y = x @ w
            print("here", end="")
            return y
        try:
            with stator.record_failures({directory!r}):
                stator.compile(step, fullgraph=True)(torch.ones(2, 2), torch.ones(2, 2))
        except stator.Unsupported as error:
            print(error.record)
    """
    file = run_program(program.format(directory=str(tmp_path)))
    with pytest.raises(stator.Unsupported, match="print") as again:
        stator.replay(file, trust=True)
    assert again.value.reason["line"] == 5


def test_other_files_are_refused(tmp_path):
    (tmp_path / "x.rec").write_bytes(b"something else")
    with pytest.raises(stator.StatorError, match="not a record"):
        stator.replay(tmp_path / "x.rec", trust=True)


def test_a_changed_record_is_refused(tmp_path):
    _, file = record_of(tmp_path, stator.compile(failing, fullgraph=True), torch.ones(3))
    whole, dice = file.read_bytes(), random.Random(0)
    for _ in range(150):
        at = dice.randrange(len(whole))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ dice.randrange(1, 256)]) + whole[at + 1 :])
        with pytest.raises(stator.StatorError) as caught:
            stator.replay(file, trust=True)
        assert caught.value.code == "invalid-record"
    for size in range(0, len(whole), 97):
        file.write_bytes(whole[:size])
        with pytest.raises(stator.StatorError) as caught:
            stator.replay(file, trust=True)
        assert caught.value.code == "invalid-record"


@pytest.mark.parametrize("header", [b"[]", b"{}", b"3", b'{"python": 3}', b"[" * 10000])
def test_a_record_with_another_header_is_refused(tmp_path, header):
    file = tmp_path / "a.rec"
    for checksum in (b"", b"0\n"):
        file.write_bytes(records._MAGIC + checksum + header + b"\n")
        for read in (lambda: stator.replay(file, trust=True), lambda: records.read_header(file)):
            with pytest.raises(stator.StatorError) as caught:
                read()
            assert caught.value.code == "invalid-record"


def test_a_record_of_other_values_is_not_replayed(tmp_path):
    file = tmp_path / "values.rec"
    records.write_values(file, {"a": 1})
    assert records.read_values(file) == {"a": 1}
    with pytest.raises(stator.StatorError, match="not the record of a call"):
        stator.replay(file, trust=True)
