"""The comparison of the corpus detects every kind of difference; the report counts programs and survives crashes."""

import contextlib
import importlib.util
import io
import shutil
import sys
from pathlib import Path

import pytest
import torch

from tests.python.parity.corpus import run
from tests.python.parity.corpus.observe import difference

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT / "tests/python/parity/corpus"
SIDE = f"{run.PACKAGE}.side_effects"


def load_tool(folder=ROOT / "tools"):
    spec = importlib.util.spec_from_file_location("conformance", folder / "conformance.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_result(change):
    """A compiler that changes results."""
    return lambda target: lambda *args, **kwargs: change(target(*args, **kwargs))


def copies_arguments(target):
    import copy

    return lambda *args: target(*copy.deepcopy(args))


def other_text(target):
    def call(*args):
        try:
            return target(*args)
        except ValueError as error:
            raise ValueError(str(error) + ".") from None

    return call


def silent(target):
    def call(*args):
        with contextlib.redirect_stdout(io.StringIO()):
            return target(*args)

    return call


def leaves_grad_off(target):
    def call(*args):
        result = target(*args)
        torch.set_grad_enabled(False)
        return result

    return call


def draws_once_more(target):
    def call(*args):
        torch.rand(1)
        return target(*args)

    return call


def runs_twice(target):
    def call(*args):
        target(*args)
        return target(*args)

    return call


class OtherGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * 2


def clones(result):
    return tuple(t.clone() for t in result)


def contiguous(result):
    return tuple(t.contiguous() for t in result)


@pytest.mark.parametrize(
    ("program", "compile_with", "where"),
    [
        ("inplace_aliasing.returns_the_input", on_result(clones), "[0].result"),
        ("inplace_aliasing.in_place_and_returned", copies_arguments, "[0].arguments"),
        ("indexing_views.views_returned", on_result(clones), "[0].result"),
        ("tensor_methods.permutations", on_result(contiguous), "[0].result.items[0].strides"),
        ("control_flow.loop_over_rows", on_result(lambda r: r.double()), "[0].result.dtype"),
        ("control_flow.loop_over_rows", on_result(lambda r: torch.nextafter(r, r + 1)), "[0].result.bits"),
        ("autograd_and_modes.straight_through", on_result(lambda r: r.detach()), "[0].result.requires_grad"),
        ("autograd_and_modes.straight_through", on_result(OtherGradient.apply), "[0].gradients"),
        ("exceptions.raised_to_the_caller", other_text, "[1].raised.text"),
        ("builtins_lib.printing", silent, "[0].printed"),
        ("control_flow.loop_over_rows", leaves_grad_off, "[0].state.grad"),
        ("random_and_dropout.uniform_and_normal", draws_once_more, "[0].random"),
        ("side_effects.global_counter", runs_twice, "[0].result"),
        (
            "side_effects.global_tensor_written",
            on_result(lambda r: setattr(sys.modules[SIDE], "last", None) or r),
            ".globals",
        ),
        ("closures.counts_its_calls", runs_twice, "[0].result"),
        ("numbers_math.bools_are_ints", on_result(lambda r: (*r[:4], bool(r[4]), *r[5:])), "[0].result.items[4]"),
        ("containers_list.same_list_returned", on_result(lambda r: (r[0], list(r[1]))), "[0].result"),
    ],
)
def test_comparison_sees_differences(program, compile_with, where):
    category, name = program.split(".")
    found = difference(run.run(category, name, compile_with), run.run(category, name))
    assert found is not None and where in found, found


@pytest.mark.parametrize("program", ["autograd_and_modes.plain_gradients", "hooks.hook_with_state", "nn_modules.lstm"])
def test_the_same_again_is_no_difference(program):
    category, name = program.split(".")
    assert difference(run.run(category, name, lambda target: target), run.run(category, name)) is None


def test_close_values_pass_only_if_requested():
    category, name = "control_flow", "loop_over_rows"
    expected = run.run(category, name, exact=False)
    actual = run.run(category, name, on_result(lambda r: torch.nextafter(r, r + 1)), exact=False)
    assert difference(actual, expected, exact=False) is None
    assert difference(actual, expected) is not None
    assert difference(run.run(category, name, on_result(lambda r: r + 1), exact=False), expected, exact=False)


def row(name, **facts):
    return {"category": "c", "name": name, "correct": True, "one_graph": True, "difference": None, "reason": ""} | facts


def test_report_counts_and_lists():
    tool = load_tool()
    broken = {"one_graph": False, "reason": "opcode: not yet", "place": "c.py:1"}
    mine = [
        row("a", graphs=1, ops=2),
        row("b", graphs=2, ops=3, **broken),
        row("w", graphs=0, ops=0, correct=False, one_graph=False),
    ]
    peer = [row("a", graphs=1, ops=2), row("b", graphs=1, ops=1), row("w", graphs=0, ops=0, one_graph=False)]
    found = {"stator": {"c": mine}, "peer": {"c": peer}}
    assert tool.table(found)[2] == "| c | 3 | 2 | 1 | 1 | 3 | 5 | 3 | 2 | 1 | 2 | 3 |"
    assert tool.behind(found) == ["c.b", "c.w"]
    text = "\n".join(tool.lists(found))
    assert "- c.w" in text and "| opcode: not yet | c.b | c.py:1 |" in text
    assert "in one graph by torch.compile, not by Stator: 1" in text


DYING = """
import os

from tests.python.parity.corpus.registry import f, program


@program(f(2), f(3))
def fine(x):
    return x + 1


@program(f(2), f(3))
def dies(x):
    os._exit(3)


@program(f(2), f(3))
def fine_too(x):
    return x * 2
"""


def test_a_crash_is_a_row(tmp_path):
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/conformance.py", tmp_path / "tools")
    (tmp_path / "python").symlink_to(ROOT / "python")
    folder = tmp_path / "tests/python/parity/corpus"
    folder.mkdir(parents=True)
    for name in ("__init__", "observe", "registry", "run"):
        shutil.copy(CORPUS / f"{name}.py", folder)
    (folder / "dying.py").write_text(DYING)
    rows = load_tool(tmp_path / "tools").judge_category("stator", "dying")
    assert [(row["name"], row["correct"], row["one_graph"]) for row in rows] == [
        ("fine", True, True),
        ("dies", False, False),
        ("fine_too", True, True),
    ]
    assert "exit status 3" in rows[1]["difference"]
