"""The README's first example is a program, and prints what the README shows."""

import contextlib
import io
import pathlib
import re

import stator

README = pathlib.Path(__file__).parents[3] / "README.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), flags=re.MULTILINE | re.DOTALL)


def masked(text):
    """Without what differs from run to run: times, counts of guards, paths and lines of the example's file."""
    text = re.sub(r"\d+ guards, [\d.]+ ms", "N guards, T ms", text)
    return re.sub(r"\S*example\.py", "example.py", text).strip()


def test_the_first_example(tmp_path):
    program, shown = blocks("python")[0], blocks("text")[0]
    file = tmp_path / "example.py"
    file.write_text(program)
    printed = io.StringIO()
    stator.reset()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, str(file), "exec"), {"__name__": "__main__"})
    assert masked(printed.getvalue()) == masked(shown)
