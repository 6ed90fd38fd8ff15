#!/usr/bin/env bash
# setup_venv.sh VENV ROOT: makes a virtual environment with torch, in which ROOT/python is importable. What is only
# needed to run things (tools/requirements-dev.txt) is installed later, while the compiler works.
set -euo pipefail
venv=$1 root=$2

find_python() {
  for candidate in "${PYTHON:-}" python3 python3.12 python3.11; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "No CPython 3.11 or 3.12 found. Install one, or name it: make PYTHON=/path/to/python3.11" >&2
  exit 1
}

if [ ! -x "$venv/bin/python" ]; then
  python=$(find_python)
  "$python" -m venv "$venv"
fi
pip=("$venv/bin/python" -m pip --disable-pip-version-check)
# Before the tools, so that no dependent package selects another version.
if ! "$venv/bin/python" -c 'import torch, sys; sys.exit(torch.__version__.split("+")[0] != "2.13.0")' 2>/dev/null; then
  "${pip[@]}" install torch==2.13.0
fi
"$venv/bin/python" - "$root/python" <<'PY'
import pathlib, sys, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "stator-dev.pth").write_text(sys.argv[1] + "\n")
PY
"$venv/bin/python" -c 'import sys, torch; print(f"Python {sys.version.split()[0]}, torch {torch.__version__}")'
