"""What a person reads: errors, warnings, reasons and logs."""

import collections
import traceback
import warnings

import pytest
import torch
import torch.nn.functional as F

import stator
from tests.python.helpers import captures, run_program

ones = torch.ones


WRONG_CALLS = {
    "matmul": lambda x: x @ ones(4, 3),
    "linear": lambda x: F.linear(x, ones(2, 5)),
    "cat": lambda x: torch.cat([x, ones(2, 5)]),
    "dot": lambda x: torch.dot(x[0], ones(7)),
    "conv": lambda x: F.conv2d(x[None, None], ones(1, 2, 1, 1)),
    "bmm": lambda x: torch.bmm(x[None], ones(1, 5, 5)),
    "layer_norm": lambda x: F.layer_norm(x, (7,)),
    "embedding": lambda x: F.embedding(x, ones(3, 3)),
    "dtypes": lambda x: x @ ones(3, 2, dtype=torch.float64),
    "expand": lambda x: x.expand(7, 7),
    "add": lambda x: x + ones(7),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_errors_of_the_program_are_its_own(name):
    call = WRONG_CALLS[name]

    def program(x):
        y = x + 1
        return call(y) * 2

    with pytest.raises(Exception) as eager:
        program(ones(2, 3))
    for settings in ({}, {"fullgraph": True}, {"fullgraph": True, "backend": lambda gm, _: gm.forward}):
        for _ in range(2):
            with pytest.raises(type(eager.value)) as ours:
                stator.compile(program, **settings)(ones(2, 3))
            assert type(ours.value) is type(eager.value) and str(ours.value) == str(eager.value)


def outer(x):
    return inner(x + 1)


def inner(x):
    return x, print(x.shape)


class TestUnsupported:
    def test_begins_with_the_users_line(self):
        with pytest.raises(stator.Unsupported) as caught:
            stator.compile(outer, fullgraph=True)(ones(2))
        first, source, why, *rest = str(caught.value).splitlines()
        line = inner.__code__.co_firstlineno + 1
        assert first == f"{__file__}:{line}, in inner: not captured in one graph [unknown_call]"
        assert source == "    return x, print(x.shape)"
        assert why.startswith("  why: ") and "print()" in why
        assert rest == [f"  try: {caught.value.hint}"]

    def test_names_the_users_call_if_a_library_breaks(self):
        def sums(x):
            y = x + 1
            return torch.load("nothing", map_location=y.device)

        with pytest.raises(stator.Unsupported) as caught:
            stator.compile(sums, fullgraph=True)(ones(2))
        lines = str(caught.value).splitlines()
        assert lines[0].startswith(f"{__file__}:{sums.__code__.co_firstlineno + 2}, in ")
        assert lines[1] == '    return torch.load("nothing", map_location=y.device)'
        (through,) = [line for line in lines if line.startswith("  through: ")]
        assert "torch/serialization.py:" in through

    def test_a_module_has_its_own_name(self):
        class Printing(torch.nn.Module):
            def forward(self, x):
                return x + 1, print("break")

        with pytest.raises(stator.Unsupported) as caught:
            stator.compile(Printing(), fullgraph=True)(ones(2))
        assert "Printing.forward" in str(caught.value).splitlines()[0]
        assert "_ignore_self" not in str(caught.value)


class TestLimit:
    @staticmethod
    def scaled(x):
        return x * 2

    def warned(self, compiled, calls):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for args in calls:
                compiled(*args)
        return [str(warning.message) for warning in caught]

    def test_three_lines_with_what_changed(self):
        (text,) = self.warned(stator.compile(self.scaled, dynamic=False), [(ones(n),) for n in range(2, 14)])
        first, changed, hint = text.splitlines()
        assert first.startswith("TestLimit.scaled (") and "captured 8 times (stator.config.recompile_limit)" in first
        assert changed.startswith("  what changed: ") and "[9]" in changed and "[10]" in changed
        assert hint.startswith("  try: ")

    def test_of_a_module_names_the_module(self):
        class Doubled(torch.nn.Module):
            def forward(self, x):
                return x * 2

        (text,) = self.warned(stator.compile(Doubled(), dynamic=False), [(ones(n),) for n in range(2, 14)])
        assert "Doubled.forward (" in text and __file__ in text and "_ignore_self" not in text

    @pytest.mark.parametrize("how", ["fullgraph", "setting"])
    def test_an_error_says_who_forbids_it(self, how):
        compiled = stator.compile(self.scaled, fullgraph=how == "fullgraph", dynamic=False)
        with stator.config.patch(recompile_limit=2, fail_on_recompile_limit_hit=how == "setting"):
            compiled(ones(2)), compiled(ones(3))
            with pytest.raises(stator.RecompileLimitExceeded) as caught:
                compiled(ones(4))
        forbids = "fullgraph" if how == "fullgraph" else "stator.config.fail_on_recompile_limit_hit"
        assert f"{forbids} forbids to run it as plain Python" in str(caught.value)
        assert "other calls run" not in str(caught.value)


class TestReasons:
    """A reason shows two different things: what was expected, and what was found."""

    def reason(self, fn, first, second):
        compiled, told = stator.compile(fn, guard_fail_fn=told_by(told := [])), told
        compiled(ones(6), first), compiled(ones(6), second)
        return told[0]

    def test_slices(self):
        text = self.reason(lambda x, s: x[s] + 1, slice(0, 2), slice(0, 3))
        assert "slice(0, 2, None)" in text and "saw slice(0, 3, None)" in text

    def test_deques(self):
        text = self.reason(lambda x, d: x + len(d), collections.deque([1]), collections.deque([1, 2]))
        assert "has length 1" in text and "saw length 2" in text

    def test_sets(self):
        text = self.reason(lambda x, d: x + len(d), {1}, {1, 2})
        assert "length 1" in text and "saw length 2" in text or "{1, 2}" in text


def told_by(told):
    return lambda failure: told.append(failure.reason)


class TestBackendErrors:
    @staticmethod
    def broken(gm, example_inputs):
        raise ValueError("boom")

    def test_have_no_frames_of_stator(self):
        try:
            stator.compile(lambda x: x + 1, backend=self.broken)(ones(2))
        except stator.BackendCompilerFailed as error:
            text = "".join(traceback.format_exception(error))
        assert "in broken" in text and "boom" in text
        assert "stator/backends.py" not in text and "stator/fx" not in text

    def test_a_suppressed_error_does_not_advise_to_suppress_it(self):
        with stator.config.patch(suppress_errors=True), pytest.warns(RuntimeWarning, match="boom") as caught:
            assert torch.equal(stator.compile(lambda x: x + 1, backend=self.broken)(ones(2)), ones(2) + 1)
        assert "suppress_errors" not in str(caught[0].message)


class TestHints:
    @staticmethod
    def broke(fn, *args):
        return stator.explain(fn)(*args).break_reasons[0]

    def test_backward_is_no_read_of_data(self):
        def step(x):
            loss = (x * 2).sum()
            loss.backward()
            return loss

        reason = self.broke(step, ones(2, requires_grad=True))
        assert reason.id == "backward" and "data" not in reason.text

    def test_storage_is_no_read_of_data(self):
        reason = self.broke(lambda x: (x + 1).data_ptr() != 0, ones(2))
        assert reason.id == "tensor_internals" and "data_ptr" in reason.text

    def test_an_error_that_the_program_handles(self):
        def handled(x):
            try:
                y = torch.linalg.cholesky(x)
            except RuntimeError as error:
                y = x + len(str(error))
            return y

        for reason in stator.explain(handled)(-torch.eye(2)).break_reasons:
            assert "raises it too" not in reason.hint


class TestLogs:
    PROGRAM = """
        import sys
        sys.stderr = sys.stdout
        import torch, stator
        {setup}
        def step(x, n):
            y = x * n
            print("break", end="")
            return y + 1
        compiled = stator.compile(step)
        compiled(torch.ones(2), 2), compiled(torch.ones(2), 3)
    """

    def output(self, setup="", **environment):
        return run_program(self.PROGRAM.format(setup=setup), **environment)

    ALL = (
        "[stator.breaks] graph break in step",
        "[stator.recompiles] step",
        "[stator.graphs] step",
        "[stator.graph_code] step",
        "[stator.guards] step",
    )

    def shown(self, text):
        return [name for name in self.ALL if name in text]

    @pytest.mark.parametrize(
        ("names", "shown"), [("breaks", ALL[:1]), ("recompiles,graphs", ALL[1:3]), ("guards", ALL[4:]), ("all", ALL)]
    )
    def test_environment(self, names, shown):
        assert self.shown(self.output(STATOR_LOGS=names)) == list(shown)

    def test_function(self):
        assert self.shown(self.output('stator.set_logs("breaks,recompiles")')) == list(self.ALL[:2])
        with pytest.raises(stator.InvalidOption, match="'nothing'"):
            stator.set_logs("nothing")

    def test_an_unknown_name_in_the_environment_warns(self):
        text = self.output(STATOR_LOGS="break")
        assert "there is no log 'break'" in text and "breaks, recompiles, graph, graph_code" in text

    @pytest.mark.parametrize(
        ("names", "shown"),
        [("graph_breaks", ALL[:1]), ("recompiles,graph_code", (ALL[1], ALL[3])), ("dynamo", ALL[:2]), ("+dynamo", ALL)],
    )
    def test_names_of_torch(self, names, shown):
        assert self.shown(self.output(TORCH_LOGS=names)) == list(shown)

    def test_the_programs_own_handlers(self):
        text = self.output(
            'import logging; logging.basicConfig(format="mine %(name)s %(message)s"); '
            'logging.getLogger("stator.breaks").setLevel(logging.INFO)'
        )
        assert text.count("mine stator.breaks graph break") == 1 and "recompiles" not in text


def test_forget_takes_the_original_module():
    model = torch.nn.Linear(2, 2)
    compiled, other = stator.compile(model), stator.compile(torch.nn.ReLU())
    compiled(ones(1, 2)), other(ones(2))
    made = captures()
    stator.forget(model)
    assert not stator.cache_entries(compiled) and stator.cache_entries(other)
    compiled(ones(1, 2))
    assert captures() == made + 1


def test_records_of_functions_with_one_name(tmp_path):
    scope = {}
    for folder in ("a", "b"):
        source = "def step(x):\n    return x + 1, print('break')\n"
        exec(compile(source, f"{folder}/program.py", "exec"), scope)
        with stator.record_failures(tmp_path), pytest.raises(stator.Unsupported):
            stator.compile(scope["step"], fullgraph=True)(ones(2))
    assert len(list(tmp_path.iterdir())) == 2
