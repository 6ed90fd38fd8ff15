"""`stator.testing.same`, and the profiler."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import stator
from stator.profiler import ProfileMetrics, ProfileResult
from stator.testing import bitwise_same, rmse, same, timed_run

one = torch.ones(1)


class TestSame:
    def test_structures(self):
        assert same(((one,), {"a": [one]}), [[one], {"a": (one,)}])
        assert not same([one], [one, one])
        assert same({1, 2}, {2, 1}) and same("a", "a") and not same("a", "b") and same(None, None)
        for ref, res in [({"a": 1}, {"b": 1}), ({1}, {2}), ([one], one), (one, "a"), (one, [one])]:
            with pytest.raises(AssertionError):
                same(ref, res)
        with pytest.raises(RuntimeError, match="object"):
            same(object(), object())

    def test_options_pass_down(self):
        nan = torch.tensor([float("nan")])
        assert not same([{"a": nan}], [{"a": nan}]) and same([{"a": nan}], [{"a": nan}], equal_nan=True)

    def test_tensors(self):
        assert same(one, one + 5e-5) and not same(one, one * 1.01) and same(1.0, 1.00001)
        assert not same(one, one.double()) and same(one, one.double(), exact_dtype=False)
        assert not same(torch.ones(2), torch.ones(3))
        sparse = torch.eye(2).to_sparse()
        assert same(sparse, sparse) and not same(sparse, sparse * 2)
        with pytest.raises(AssertionError, match="sparse"):
            same(sparse, torch.eye(2))

    def test_booleans_and_others(self):
        assert not same(torch.tensor([True, False]), torch.tensor([True, True]))
        all_true, most = torch.ones(200, dtype=torch.bool), torch.ones(200, dtype=torch.bool)
        most[0] = False
        assert not same(all_true, most) and same(all_true, most, use_iou_for_bool=True)
        none = torch.zeros(3, dtype=torch.bool)
        assert same(none, none, use_iou_for_bool=True)
        assert same(1, 2, ignore_non_fp=True) and not same(1, 2)
        assert not same(torch.tensor(1), torch.tensor(2))

    @pytest.mark.parametrize(
        ("elements", "error", "rules", "expected"),
        [
            (2000, -1.5e-3, {}, True),
            (2000, -2.1e-3, {}, False),
            (2000, -2.005e-3, {}, True),
            (500, -2.9e-3, {}, True),
            (2000, -9e-3, {"force_max_multiplier": True}, True),
            (2000, -2.9e-3, {"tol": 1e-4}, False),
            (10, -9e-3, {"use_larger_multiplier_for_smaller_tensor": True}, True),
            (500, -7.9e-3, {"use_larger_multiplier_for_smaller_tensor": True}, True),
        ],
    )
    def test_against_double_precision(self, elements, error, rules, expected):
        exact = torch.ones(elements, dtype=torch.float64)
        ref, res = (exact + 1e-3).float(), (exact + error).float()
        assert same(ref, res, fp64_ref=exact, **rules) is expected
        assert rmse(exact, ref) == pytest.approx(1e-3, rel=1e-3)

    def test_a_reference_that_overflowed(self):
        exact = torch.ones(3, dtype=torch.float64)
        ref = torch.tensor([1.0, float("nan"), 1.0])
        assert same(ref, torch.ones(3), fp64_ref=exact)
        assert not same(ref, torch.ones(3) * 2, fp64_ref=exact)
        assert not same(ref, ref, fp64_ref=exact) and same(ref, ref, fp64_ref=exact, equal_nan=True)

    def test_direction(self):
        x = torch.arange(1.0, 9.0)
        assert same(x, 3 * x, cos_similarity=True) and not same(x, -x, cos_similarity=True)
        assert same(torch.zeros(3), torch.zeros(3), cos_similarity=True)

    def test_numpy(self):
        assert not same(np.float32(1), 1.0) and same(np.float32(1), 1.0, relax_numpy_equality=True)
        assert same(np.float32(1), np.float32(1)) and same(np.ones(2), np.ones(2))
        assert not same(np.ones(2), np.zeros(2))
        with pytest.raises(AssertionError):
            same(np.ones(2), torch.ones(2))

    def test_objects_by_attribute(self):
        class Output:
            def __init__(self, loss):
                self.loss = loss

        assert same(Output(one), Output(one), compare_objects=True)
        assert not same(Output(one), Output(one * 2), compare_objects=True)

    def test_bits(self):
        assert bitwise_same(one, one) and not bitwise_same(one, one + 1e-6)

    def test_timed_run(self):
        result, seconds = timed_run(lambda x: x + torch.rand(1), (one,), 3)
        again, _ = timed_run(lambda x: x + torch.rand(1), (one,), 3)
        assert torch.equal(result, again) and seconds > 0


class TestArithmetic:
    def test_metrics(self):
        half = ProfileMetrics(10, 6, 3, 2) / 2
        assert (half.microseconds, half.operators, half.fusions, half.graphs) == (5, 3, 1.5, 1)
        whole = ProfileMetrics(10, 6, 3, 2)
        assert whole / ProfileMetrics() == whole
        assert str(ProfileMetrics(50, 3) / ProfileMetrics(100, 4)) == " 75% ops  50% time"
        assert (whole + whole).graphs == 4 and whole.tocsv() == [6, 10]
        with pytest.raises(AssertionError):
            whole + 1  # type: ignore[operator]

    def test_result(self):
        result = ProfileResult(ProfileMetrics(50, 3, 2, 1), ProfileMetrics(100, 4, 3, 1), 1)
        assert str(result) == " 1 graphs  1 graph calls    3/   4 =  75% ops  50% time"
        assert result.tocsv() == [1, 1, 3, 4, 0.75, 0.5]
        empty = ProfileResult()
        empty += result
        assert empty.tocsv() == result.tocsv()


class TestProfile:
    def test_captured_and_total(self):
        f, x = stator.compile(lambda x: (x + 1).relu() * 2), torch.ones(3)
        f(x)
        with stator.profile() as profile:
            f(x)
            torch.sin(x)
        result = profile.results()
        assert (result.captured.operators, result.total.operators, result.captured.graphs) == (3, 4, 1)
        assert 0 <= result.percent().microseconds <= 1
        assert (result.captured.fusions, result.total.fusions) == (2, 3)
        assert profile.missing() == {"aten::sin": 1}
        (row,) = profile.graphs()
        assert row.calls == 1 and row.operators == 3 and "aten::sin 1" in profile.table()

    def test_operators_of_a_compilation_do_not_count(self):
        f, x = stator.compile(lambda x: (x + 1).relu() * 2), torch.ones(3)
        with stator.profile() as profile:
            f(x)
        result = profile.results()
        assert (result.captured.operators, result.total.operators, profile.missing()) == (3, 3, {})

    def test_a_break_gives_two_graphs(self):
        def broken(x):
            y = x + 1
            print("", end="")
            return y * 2

        f = stator.compile(broken)
        with stator.profile() as profile:
            f(torch.ones(3))
        result = profile.results()
        assert result.unique_graphs == 2 and result.captured.graphs == 2 and result.captured.operators == 2
        assert profile.results().unique_graphs == 0
        with stator.profile() as again:
            f(torch.ones(3))
        assert again.results().captured.graphs == 2

    def test_an_error_in_a_graph_passes_and_closes_its_range(self):
        f = stator.compile(lambda x, i: x[i] + 1)
        f(torch.ones(3), torch.tensor([0]))
        with stator.profile() as profile:
            with pytest.raises(IndexError):
                f(torch.ones(3), torch.tensor([7]))
            torch.sin(torch.ones(1))
        assert "aten::sin" in profile.missing()

    def test_ranges_of_the_program_stay(self):
        def f(x):
            with torch.profiler.record_function("mine"):
                return x + 1

        compiled = stator.compile(f)
        with torch.profiler.profile() as outer:
            compiled(torch.ones(3))
        assert "mine" in {event.name for event in outer.events()}

    def test_threads(self):
        f, x = stator.compile(lambda x: x + 1), torch.ones(3)
        f(x)

        def work():
            for _ in range(5):
                f(x)
                x.sin()

        with stator.profile() as profile:
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        result = profile.results()
        assert (result.captured.graphs, result.captured.operators, result.total.operators) == (20, 20, 40)
        assert profile.missing() == {"aten::sin": 20}

    def test_blocks_in_blocks(self):
        f, x = stator.compile(lambda x: x + 1), torch.ones(3)
        f(x)
        with stator.profile() as outer:
            f(x)
            with stator.profile() as middle:
                f(x)
                with stator.profile() as inner:
                    f(x)
                    stator.compile(lambda x: x * 2)(x)
                assert inner.results().captured.graphs == 2
                f(x)
            f(x)
        for profile, calls in ((outer, 6), (middle, 4), (inner, 2)):
            result = profile.results()
            assert (result.captured.graphs, result.total.operators) == (calls, calls)
        with inner:  # again
            f(x)
        assert inner.results().captured.graphs == 3

    def test_blocks_of_two_threads(self):
        caught = []

        def other():
            try:
                with stator.profile():
                    pass
            except RuntimeError as error:
                caught.append(str(error))

        with stator.profile() as profile:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            with pytest.raises(RuntimeError, match="open already"), profile:
                pass
            torch.sin(torch.ones(1))
        assert caught == ["a block of stator.profile() is open on another thread"]
        assert "aten::sin" in profile.missing()

    @pytest.mark.parametrize(("value", "lines"), [("1", 1), ("0", 0), ("true", 0)])
    def test_missing_operators_are_printed(self, tmp_path, value, lines):
        program = tmp_path / "program.py"
        program.write_text(
            """
import stator, torch
f, x = stator.compile(lambda x: x + 1), torch.ones(3)
f(x)
def outside(x):
    return torch.sin(x)
with stator.profile() as profile:
    f(x)
    for _ in range(2):
        outside(x)
result = profile.results()
print(result.captured.operators, result.total.operators)
"""
        )
        env = {**os.environ, "STATOR_PRINT_MISSING": value}
        done = subprocess.run(
            [sys.executable, str(program)], env=env, capture_output=True, text=True, timeout=100, check=True
        )
        told = [line for line in done.stdout.splitlines() if line.startswith("MISSING")]
        assert len(told) == lines and all("outside" in line for line in told)
        assert done.stdout.splitlines()[-1].split() in (["1", "3"], ["1.0", "3.0"])
