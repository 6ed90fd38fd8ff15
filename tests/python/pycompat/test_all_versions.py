"""Runs the torch-free tests of `tests/pycompat` with every installed CPython."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

# Debug builds assert invariants of frames that release builds only assume.
VERSIONS = ("3.11", "3.12", "3.13", "3.11-dbg", "3.12-dbg")
TESTS = pathlib.Path(__file__).parents[2] / "pycompat"


def interpreters():
    """version -> executable, for installed versions that have headers."""
    found = {}
    for version in VERSIONS:
        if version.endswith("-dbg"):
            candidate = shutil.which(f"python{version}")
            if candidate and usable(candidate, version.removesuffix("-dbg")):
                found[version] = candidate
            continue
        roots = [os.environ.get("PYENV_ROOT"), pathlib.Path.home() / ".pyenv"]
        folders = [p for root in roots if root for p in sorted(pathlib.Path(root).glob(f"versions/{version}*/bin"))]
        current = [sys.executable] if version == f"{sys.version_info[0]}.{sys.version_info[1]}" else []
        on_path = [shutil.which(f"python{version}")]
        for candidate in current + on_path + [p / f"python{version}" for p in folders]:
            if candidate and usable(str(candidate), version):
                found[version] = str(candidate)
                break
    return found


def usable(python, version):
    probe = (
        "import sys, sysconfig, os; print('%d.%d' % sys.version_info[:2],"
        " os.path.exists(os.path.join(sysconfig.get_paths()['include'], 'Python.h')))"
    )
    try:
        answer = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.stdout.split() == [version, "True"]


FOUND = interpreters()


@pytest.fixture(scope="module")
def build_root(tmp_path_factory):
    return tmp_path_factory.mktemp("pycompat")


@pytest.mark.parametrize("test", sorted(p.name for p in TESTS.glob("test_*.py")))
@pytest.mark.parametrize("version", VERSIONS)
def test_version(version, test, build_root):
    if version not in FOUND:
        pytest.skip(f"no CPython {version} with headers on this machine")
    if version.endswith("-dbg") and test == "test_decode.py":
        pytest.skip("decoding is the same in a debug build")
    command = [str(TESTS / "run.sh"), FOUND[version], str(build_root / version), test]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]


def test_the_running_version_is_among_them():
    assert "%d.%d" % sys.version_info[:2] in FOUND
