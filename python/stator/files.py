"""Files that are whole or absent."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(file: Path, text: str | bytes) -> None:
    """Writes a file by renaming a complete one into its place: no reader ever sees a part of it. OSError if that fails;
    then nothing is left, and an older file is unchanged."""
    file.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(number, "wb") as made:
            made.write(text.encode() if isinstance(text, str) else text)
        os.chmod(name, 0o644)
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
