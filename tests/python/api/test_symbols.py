"""What users say of symbolic sizes and ints (marks, settings), and what they are told: errors, explain, logs."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures


def made(n, m=6):
    return torch.linspace(-1, 1, n * m).reshape(n, m)


def calls(fn, args, most, **options):
    compiled = stator.compile(fn, **options)
    for each in args:
        assert_same(compiled(*each), fn(*each), repr(each))
    assert captures() <= most, stator.counters()
    return compiled


class TestMarks:
    def test_a_range_is_guarded(self):
        def fn(x):
            return x * 2 if x.size(0) <= 8 else x * 3

        compiled = stator.compile(fn)
        first = made(4)
        stator.mark_dynamic(first, 0, min=2, max=8)
        assert_same(compiled(first), fn(first))
        for n in (2, 5, 8):
            assert_same(compiled(made(n)), fn(made(n)))
        assert captures() == 1
        assert "s0 <= 8" in "".join(stator.cache_entries(fn)[0]["guards"])
        assert_same(compiled(made(9)), fn(made(9)))
        assert captures() == 2

    @pytest.mark.parametrize("bounds", [{"max": 3}, {"min": 5}, {"min": 6, "max": 9}])
    def test_a_size_outside_of_its_range_is_an_error(self, bounds):
        x = made(4)
        stator.mark_dynamic(x, 0, **bounds)
        with pytest.raises(stator.ConstraintViolation, match=r"x.size\(0\) is 4, but mark_dynamic states") as caught:
            stator.compile(lambda x: x + 1)(x)
        assert caught.value.hint

    def test_a_value_that_an_operator_needs_is_an_error(self):
        def fn(x):
            y = x + 1
            return torch.chunk(y, x.size(0))

        x = made(4)
        stator.mark_dynamic(x, 0)
        with pytest.raises(stator.ConstraintViolation) as caught:
            stator.compile(fn)(x)
        text = str(caught.value)
        assert "x.size(0) is 4" in text and "the parameter chunks of chunk" in text
        line = fn.__code__.co_firstlineno + 2
        assert caught.value.where == f"{__file__}:{line}"
        assert "maybe_mark_dynamic" in caught.value.hint

    def test_a_value_that_the_program_needs_is_an_error(self):
        def fn(x):
            total = x
            for i in range(x.size(0)):
                total = total + i
            return total

        x = made(4)
        stator.mark_dynamic(x, 0)
        with pytest.raises(stator.ConstraintViolation, match=r"x.size\(0\)") as caught:
            stator.compile(fn)(x)
        assert caught.value.where == f"{__file__}:{fn.__code__.co_firstlineno + 2}"

    @pytest.mark.parametrize("function", [torch.sym_float, torch.sym_int])
    def test_the_line_is_the_users_also_below_functions_of_torch(self, function):
        def fn(x):
            y = x + 1
            return y * [1, 2][function(x.size(0)) > 5], "%s" % list(range(int(function(x.size(0)))))

        x = made(4)
        stator.mark_dynamic(x, 0)
        with pytest.raises(stator.ConstraintViolation, match=r"x.size\(0\)") as caught:
            stator.compile(fn)(x)
        assert caught.value.where == f"{__file__}:{fn.__code__.co_firstlineno + 2}"

    def test_a_comparison_that_leaves_one_value_is_an_error(self):
        def fn(x):
            return x * 2 if x.size(0) == 4 else x * 3

        x = made(4)
        stator.mark_dynamic(x, 0)
        with pytest.raises(stator.ConstraintViolation, match="a comparison leaves no other value"):
            stator.compile(fn)(x)

    def test_the_error_comes_again_and_leaves_nothing_behind(self):
        def fn(x):
            return torch.zeros(list(range(x.size(0)))[-1])

        compiled = stator.compile(fn)
        for _ in range(3):
            x = made(4)
            stator.mark_dynamic(x, 0)
            with pytest.raises(stator.ConstraintViolation):
                compiled(x)
        assert captures() == 0 and not stator.cache_entries(fn)
        for n in (4, 5):
            assert_same(compiled(made(n)), fn(made(n)))
        x = made(6)
        stator.mark_dynamic(x, 0)
        with pytest.raises(stator.ConstraintViolation):
            compiled(x)

    def test_a_constraint_that_leaves_several_values_is_no_error(self):
        def fn(x):
            return x.view(-1, 2, 6) if x.size(0) % 2 == 0 and x.size(0) > 3 else x

        x = made(4)
        stator.mark_dynamic(x, 0)
        compiled = stator.compile(fn)
        assert_same(compiled(x), fn(x))
        assert_same(compiled(made(6)), fn(made(6)))
        assert captures() == 1

    @pytest.mark.parametrize(("mark", "graphs"), [(stator.mark_dynamic, 1), (stator.mark_unbacked, 1), (None, 2)])
    def test_graphs_for_python_backends(self, mark, graphs):
        def fn(x):
            return x.reshape(-1, 2) + x.new_zeros(x.shape[0]).sum()

        made_for = []
        compiled = stator.compile(fn, backend=lambda gm, _: (made_for.append(gm), gm.forward)[1])
        for n in (3, 4, 5):
            x = made(n)
            if mark is not None:
                mark(x, 0)
            assert_same(compiled(x), fn(x), f"length {n}")
        assert len(made_for) == graphs

    def test_maybe_mark_dynamic_is_reported(self):
        def fn(x):
            return torch.chunk(x, x.size(0))

        x = made(4)
        stator.maybe_mark_dynamic(x, 0)
        out = stator.explain(fn)(x)
        [text] = out.captures[0].specialised
        assert "x.size(0) is 4: its value is needed for the parameter chunks of chunk" in text
        assert text in str(out)

    def test_torchs_marks_are_read(self):
        program = """
import sys, torch, stator
def fn(x): return x * 2
x = torch.ones(4, 3)
x._dynamo_dynamic_indices = {0}
x._has_dynamo_dim_marking = True
class Range:
    dim, min, max = 0, 2, 16
x._dynamo_dynamic_range = {Range()}
compiled = stator.compile(fn)
for n in (4, 7, 16): compiled(x if n == 4 else torch.ones(n, 3))
assert stator.counters()["captures"]["graphs"] == 1
compiled(torch.ones(17, 3))
assert stator.counters()["captures"]["graphs"] == 2
assert "torch._dynamo" not in sys.modules and "sympy" not in sys.modules
"""
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_mark_static(self):
        def fn(x):
            return x * 2

        compiled = stator.compile(fn)
        for n in (3, 4, 5):
            x = made(n)
            stator.mark_static(x, 0)
            assert_same(compiled(x), fn(x))
        assert captures() == 3

    def test_mark_unbacked(self):
        def fn(x):
            return (x * 2).sum(1), x.size(0) * 3, torch.arange(x.size(0))

        compiled = stator.compile(fn, fullgraph=True)
        x = made(4)
        stator.mark_unbacked(x, 0)
        for each in (x, made(1), made(0), made(7)):
            assert_same(compiled(each), fn(each))
        assert captures() == 1

    def test_a_branch_on_an_unbacked_size_breaks(self):
        def fn(x):
            return x * 2 if x.size(0) > 3 else x * 3

        x = made(4)
        stator.mark_unbacked(x, 0)
        assert_same(stator.compile(fn)(x), fn(x))
        assert stator.counters()["breaks"] == {"data_dependent": 1}
        with pytest.raises(stator.Unsupported):
            stator.compile(fn, fullgraph=True)(x)


def scaled(x, n):
    return x * n


class TestMarksOfUnbackedSizes:
    @staticmethod
    def rows(*sizes, **marks):
        made_ = [made(n) for n in sizes]
        for each in made_:
            stator.mark_unbacked(each, 0, **marks)
        return made_

    def test_bounds_answer_questions(self):
        def fn(x):
            return x * 2 if x.size(0) <= 4 else x * 3

        compiled = stator.compile(fn, fullgraph=True)
        for n in (3, 2, 4):
            assert_same(compiled(*self.rows(n, min=2, max=4)), fn(made(n)))
        assert captures() == 1
        for n in (5, 1, 0, 64):  # outside of the bounds: the plain program
            assert_same(compiled(*self.rows(n, min=2, max=4)), fn(made(n)), f"{n}")

    def test_equal_sizes(self):
        def fn(x, y):
            return x + y, x.size(0) == y.size(0)

        compiled = stator.compile(fn, fullgraph=True)
        for n in (3, 2, 1, 0, 7):
            assert_same(compiled(*self.rows(n, n, shape_id="rows")), fn(made(n), made(n)), f"{n}")
        assert captures() == 1
        for n, m in ((3, 1), (1, 4), (2, 2)):  # they differ: the plain program broadcasts
            assert_same(compiled(*self.rows(n, m, shape_id="rows")), fn(made(n), made(m)), f"{n} {m}")
        with pytest.raises(RuntimeError, match="must match the size of tensor b"):
            compiled(*self.rows(3, 2, shape_id="rows"))

    def test_names_are_apart(self):
        def fn(x, y):
            return x.sum(0) + y.sum(0)

        compiled = stator.compile(fn)
        for n, m in ((3, 2), (1, 4), (0, 1)):
            x, y = self.rows(n, shape_id="a") + self.rows(m, shape_id="b")
            assert_same(compiled(x, y), fn(x, y))
        assert captures() == 1

    @pytest.mark.parametrize("marks", [{"strict": True}, {"hint_override": 64}, {"specialize_on": [lambda n: n == 8]}])
    def test_other_arguments(self, marks):
        def fn(x):
            return x * 2

        compiled = stator.compile(fn)
        for n in (3, 1, 0, 8):
            assert_same(compiled(*self.rows(n, **marks)), fn(made(n)))
        assert captures() == 1

    def test_arguments_of_mark_dynamic(self):
        x = made(4)
        criteria = [lambda n: n == 8]
        stator.mark_dynamic(x, 0, hint_override=64, min=2, max=9, specialize_on=criteria)
        y = made(4)
        torch._dynamo.mark_dynamic(y, 0, hint_override=64, min=2, max=9, specialize_on=criteria)
        assert {**vars(x), "_dynamo_dynamic_range": 0} == {**vars(y), "_dynamo_dynamic_range": 0}
        assert_same(stator.compile(lambda x: x + 1)(x), x + 1)


def test_facts_that_the_program_checks_of_unbacked_sizes():
    def fn(x, y):
        torch._check(x.size(0) == y.size(0))
        return x + y

    compiled = stator.compile(fn, fullgraph=True)
    for n in (3, 2, 1, 0):
        x, y = made(n), made(n)
        stator.mark_unbacked(x, 0)
        stator.mark_unbacked(y, 0)
        assert_same(compiled(x, y), fn(x, y))
    assert captures() == 1
    x, y = made(3), made(1)
    stator.mark_unbacked(x, 0)
    stator.mark_unbacked(y, 0)
    with pytest.raises(RuntimeError):
        compiled(x, y)


class TestSettings:
    def test_assume_static_by_default(self):
        with stator.config.patch(assume_static_by_default=False):
            calls(scaled, [(made(n), n) for n in (3, 4, 7)], 1)

    def test_automatic_dynamic_shapes(self):
        with stator.config.patch(automatic_dynamic_shapes=False):
            calls(scaled, [(made(n), 2) for n in (3, 4, 7)], 3)
        assert captures() == 3

    def test_specialize_int(self):
        with stator.config.patch(specialize_int=True):
            calls(scaled, [(made(3), n) for n in (3, 4, 7)], 3)
        assert captures() == 3

    @pytest.mark.parametrize("sources", ["x, n", "L['x'],L['n']", "x|n", ".*", "x:0, n"])
    def test_dynamic_sources(self, sources):
        with stator.config.patch(dynamic_sources=sources):
            calls(scaled, [(made(n), n) for n in (3, 4, 7)], 1, dynamic=False)

    def test_dynamic_sources_name_dimensions(self):
        with stator.config.patch(dynamic_sources="x:1"):
            calls(scaled, [(made(3, m), 2) for m in (3, 4, 7)], 1, dynamic=False)
            assert captures() == 1
            calls(scaled, [(made(n, 3), 2) for n in (4, 5)], 3, dynamic=False)

    def test_dynamic_sources_name_attributes(self):
        class Counting(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.steps = 3

            def forward(self, x):
                return x * self.steps

        module = Counting()
        with stator.config.patch(dynamic_sources=r"self\.steps"):
            compiled = stator.compile(module)
            for module.steps in range(2, 7):
                assert_same(compiled(made(2)), made(2) * module.steps)
        assert captures() == 1

    def test_a_list_that_is_no_expression(self):
        with stator.config.patch(dynamic_sources="x["), pytest.raises(Exception, match="unterminated character set"):
            stator.compile(scaled)(made(2), 2)

    def test_unbacked_sources(self):
        with stator.config.patch(unbacked_sources="x:0"):
            calls(lambda x: x * 2, [(made(n),) for n in (3, 1, 0, 7)], 1)

    def test_parameters(self):
        def fn(x, w):
            return x @ w

        def args(n):
            return made(2, n), torch.nn.Parameter(torch.ones(n, 3))

        with stator.config.patch(force_parameter_static_shapes=False):
            calls(fn, [args(n) for n in (3, 4, 7, 8)], 2)

    def test_torchs_settings_have_the_same_effect(self):
        program = """
import torch, stator
import torch._dynamo
def captured(fn, *calls):
    stator.reset()
    compiled = stator.compile(fn)
    for args in calls: compiled(*args)
    return stator.counters()["captures"]["graphs"]
x = torch.ones(3, 4)
def fn(x, n): return x * n
three = [(torch.ones(n, 3), n) for n in (3, 4, 5)]
assert captured(fn, *three) == 2
with torch._dynamo.config.patch(assume_static_by_default=False): assert captured(fn, *three) == 1
with torch._dynamo.config.patch(automatic_dynamic_shapes=False): assert captured(fn, *three) == 3
with torch._dynamo.config.patch(specialize_int=True): assert captured(fn, *three) == 3
with torch.compiler.config.patch(dynamic_sources="L['x'],L['n']"): assert captured(fn, *three) == 1
"""
        subprocess.run([sys.executable, "-c", program], check=True)


class TestExplanations:
    def test_why_captured_again(self):
        out = stator.explain(scaled, after=[(made(3), 2)])(made(4), 5)
        [capture] = out.captures
        assert set(capture.changed) == {"x.size(0): 3, now 4", "n: 2, now 5"}
        assert "symbolic from now on: n: 2, now 5" in str(out)
        assert "captured again because" in str(out)

    def test_why_static(self):
        def fn(x, n):
            return [x, x + 1, x + 2][n]

        out = stator.explain(fn, after=[(made(2), 0), (made(2), 1)])(made(2), 2)
        [text] = out.captures[0].specialised
        assert text == f"n is a constant: its value is needed at {__file__}:{fn.__code__.co_firstlineno + 1}"

    def test_logs(self, caplog):
        caplog.set_level(logging.INFO, logger="stator.shapes")
        compiled = stator.compile(scaled)
        compiled(made(3), 2), compiled(made(4), 2)
        [record] = [r for r in caplog.records if r.name == "stator.shapes"]
        assert "symbolic from now on: x.size(0): 3, now 4" in record.getMessage()


class TestBreaks:
    def test_a_break_guards_the_questions_that_led_to_it(self):
        def fn(x):
            x = x + 1
            if x.size(0) > 5:
                stator.graph_break()
            return x * 2

        compiled = stator.compile(fn)
        for n in (7, 8):
            assert_same(compiled(made(n)), fn(made(n)))
        before = dict(stator.counters()["breaks"])
        for n in (3, 4):
            assert_same(compiled(made(n)), fn(made(n)))
        assert stator.counters()["breaks"] == before
        assert stator.explain(fn)(made(3)).graph_break_count == 0
