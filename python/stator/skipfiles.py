"""Files whose frames are not captured when a graph break calls them. Inlining is not affected."""

from __future__ import annotations

import os
import site
import sysconfig

import torch

# Installed tools that work on programs rather than on tensors.
TOOLS = ("_pytest", "pytest", "pluggy", "hypothesis", "IPython", "debugpy", "coverage", "numpy", "pip", "setuptools")


def default_skipped_files() -> list[str]:
    """Path prefixes: the standard library, torch, Stator itself and installed tools."""
    standard = sysconfig.get_paths()["stdlib"]
    # Installed packages are in a subfolder of the standard library, but are not part of it.
    inside = [os.path.join(standard, name) for name in sorted(os.listdir(standard)) if name != "site-packages"]
    packages = [*site.getsitepackages(), site.getusersitepackages()]
    tools = [os.path.join(folder, tool) for folder in packages for tool in TOOLS]
    own = [os.path.dirname(torch.__file__), os.path.dirname(__file__)]
    return [*inside, *tools, *own]
