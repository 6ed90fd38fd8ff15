#!/usr/bin/env python3
"""Runs `pip install --no-build-isolation .` in a fresh environment that only has torch, then uses the package.

The environment sees this interpreter's packages (torch and the build tools) but not this source tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "build-wheel-env"

PROGRAM = r"""
import sys, torch, stator, os.path, importlib.metadata
home = os.path.dirname(stator.__file__)
assert home.startswith(sys.argv[1]), home
names = sorted(os.listdir(home))
assert "libstator_core.so" in names and "_C.pyi" in names and "py.typed" in names, names
assert any(n.startswith("_C.") and n.endswith(".so") for n in names), names
assert importlib.metadata.version("stator") == stator.__version__

@stator.compile(fullgraph=True)
def f(x, y):
    return (x @ y).relu() + 1

a, b = torch.randn(3, 4), torch.randn(4, 5)
for _ in range(3):
    assert torch.equal(f(a, b), (a @ b).relu() + 1)
assert stator.counters()["captures"]["graphs"] == 1, stator.counters()
print("installed package works:", home)
"""


def exported(library: Path) -> list[str]:
    """Exported symbols of a library, demangled."""
    listing = subprocess.run(
        ["nm", "-DC", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    return [line.split(None, 2)[2] for line in listing.splitlines()]


def main() -> int:
    shutil.rmtree(HOME, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(HOME)], check=True)
    python = HOME / "bin" / "python"
    site = Path(
        subprocess.run(
            [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    )
    (site / "torch-of-the-builder.pth").write_text(sysconfig.get_path("purelib") + "\n")
    # Name the compilers as CMake does in the development build: compiler caches hash the name.
    environment = {"CC": "cc", "CXX": "c++"} | {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    install = ["-m", "pip", "--python", str(python), "install", "-q", "--no-build-isolation", str(ROOT)]
    subprocess.run([sys.executable, *install], check=True, env=environment)
    subprocess.run([str(python), "-c", PROGRAM, str(HOME)], check=True, env=environment, cwd=HOME)

    package = site / "stator"
    extension = next(package.glob("_C.*.so"))
    if (names := exported(extension)) != ["PyInit__C"]:
        print(f"{extension.name} exports {names}")
        return 1
    foreign = [name for name in exported(package / "libstator_core.so") if "stator::" not in name]
    if foreign:
        print("libstator_core.so exports symbols that are not part of its API:", *foreign[:20], sep="\n  ")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
