"""C++ tests of the parts that need Python: GoogleTest inside of a copy of the extension module (tests/native)."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# Another build, as `make asan` makes one, is named by its folder.
BUILD = Path(os.environ.get("STATOR_BUILD", ROOT / "build"))

PROGRAM = """
    import ctypes, importlib.machinery, importlib.util, sys, torch

    # The module with the tests takes the place of the extension: there is one of each table in the process.
    path = sys.argv[1]
    loader = importlib.machinery.ExtensionFileLoader("stator._C", path)
    spec = importlib.util.spec_from_file_location("stator._C", path, loader=loader)
    module = sys.modules["stator._C"] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    import stator

    arguments = [b"stator_native_tests", *(text.encode() for text in sys.argv[2:])]
    run = ctypes.PyDLL(path).stator_run_tests
    sys.exit(run(len(arguments), (ctypes.c_char_p * len(arguments))(*arguments)))
"""


def test_native():
    (library,) = (BUILD / "native").glob("_C_tests*.so")
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(library), "--gtest_brief=1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASSED" in done.stdout, "no test ran"
