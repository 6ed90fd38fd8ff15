"""`stator.repro`: the smallest part of a program that fails, and a script that shows it in another process."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings

import pytest
import torch

import stator
from stator import records
from stator.checking import failures
from stator.checking.graphs import GraphCall, first_failing_prefix, minimised
from stator.checking.outcomes import Outcome
from stator.checking.trials import Trial, in_child

aten = torch.ops.aten


def calls(gm, target):
    return any(node.target is target for node in gm.graph.nodes)


def wrong_tanh(gm, inputs):
    class Run(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            made = super().call_function(target, args, kwargs)
            return made * 1.5 if target is aten.tanh.default else made

    return lambda *args: Run(gm).run(*args)


def wrong_pair(gm, inputs):
    """As a fusion that is wrong: the sine of a product."""

    class Run(torch.fx.Interpreter):
        def run_node(self, node):
            made = super().run_node(node)
            is_pair = node.target is aten.sin.default and node.args[0].target is aten.mul.Tensor
            return made + 1 if is_pair else made

    return lambda *args: Run(gm).run(*args)


def crashes(gm, inputs):
    if calls(gm, aten.tanh.default):
        os.kill(os.getpid(), signal.SIGSEGV)
    return gm


def raises(gm, inputs):
    if calls(gm, aten.tanh.default):
        raise ValueError("no kernel")
    return gm


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        y = x * 2
        z = x.exp()
        y = y.sin()  # the pair
        return (y + z).tanh(), x.sum()


def original(x):
    return x + 1


@stator.substitute_in_graph(original)
def replacement(x):
    return x + 2


def substituted(x):
    return original(x.relu()) * 2


def line_of(text):
    with open(__file__) as file:
        return next(number for number, line in enumerate(file, 1) if text in line and "line_of" not in line)


def run_script(path):
    return subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)


class TestSearch:
    def test_one_operator_of_a_backend(self, tmp_path):
        found = stator.repro(Net(), backend=wrong_tanh)(torch.randn(2, 4))
        assert found.kind == "wrong result" and found.graph.operators == 1
        assert "aten.tanh" in found.graph.code and found.line == line_of(".tanh(), x.sum()")
        script = found.write(tmp_path / "small")
        text = script.read_text()
        assert "CAUTION: it reads small.rec, which runs code" in text and f"{__file__}:{found.line}" in text
        done = run_script(script)
        assert done.returncode == 1 and done.stdout.startswith("seen: wrong result"), done.stderr
        # With the default backend the graph is right. Then no code is read.
        script.write_text(text.replace(", record=True", ""))
        (tmp_path / "small.rec").unlink()
        done = run_script(script)
        assert done.returncode == 0 and done.stdout == "not seen: wrong result\n", done.stderr

    def test_two_operators_that_are_wrong_together(self):
        found = stator.repro(Net(), backend=wrong_pair)(torch.randn(2, 4))
        assert found.graph.operators == 2 and found.line == line_of("# the pair")
        assert "aten.mul" in found.graph.code and "aten.sin" in found.graph.code
        assert "a graph of 2 operators fails by itself" in str(found)

    @pytest.mark.parametrize(
        "backend, kind, what", [(crashes, "crash", "SIGSEGV"), (raises, "error", "no kernel")], ids=["crash", "error"]
    )
    def test_other_failures(self, backend, kind, what, tmp_path):
        found = stator.repro(Net(), backend=backend)(torch.randn(2, 4))
        assert found.kind == kind and what in found.what
        assert found.graph.operators == 1 and "aten.tanh" in found.graph.code
        done = run_script(found.write(tmp_path / "small.py"))
        assert done.returncode == 1 and what in done.stdout, done.stderr

    def test_a_slow_capture(self):
        checks = failures.Checks(slower_than=800)
        seen = [failures._compared(Outcome(), Trial(Outcome(ms=ms)), checks, None) for ms in (700, 900)]
        assert seen[0] is None and seen[1].kind == "slow capture"
        with failures.limited(failures.Limits()) as times:
            stator.compile(lambda x: x + 1)(torch.ones(1))
        assert len(times) == 1 and times[0] > 0

    def test_a_run_that_does_not_end(self):
        trial = in_child(lambda: time.sleep(1000), 0.5)
        assert trial.ended == "did not end in 0.5 s"
        assert failures._compared(Outcome(), trial, failures.Checks(), None).kind == "hang"

    def test_the_capture_is_the_cause(self, tmp_path):
        found = stator.repro(substituted)(torch.ones(3))
        assert found.kind == "wrong result" and found.graph is None and found.limits.break_after > 0
        assert found.line == line_of("return original(x.relu())")
        done = run_script(found.write(tmp_path / "program"))
        assert done.returncode == 1 and "seen: wrong result" in done.stdout, done.stderr

    def test_the_cause_is_no_capture(self):
        def impure(x):
            return x + 1, os.getpid()  # each run has a process of its own

        found = stator.repro(impure)(torch.ones(3))
        assert found.kind == "wrong result" and found.limits.break_after == -1
        assert "no graph is the cause" in str(found)


class TestNothingToFind:
    def test_programs_agree(self, tmp_path):
        found = stator.repro(Net())(torch.randn(2, 4, requires_grad=True))
        assert found.kind is None and "agree" in str(found)
        with pytest.raises(stator.StatorError, match="nothing to write"):
            found.write(tmp_path / "none")
        assert not list(tmp_path.iterdir())

    def test_an_error_of_the_program_is_no_failure(self):
        assert stator.repro(lambda x: x.view(7))(torch.ones(3)).kind is None

    def test_the_program_is_not_disturbed(self):
        seen, norm = [], torch.nn.BatchNorm1d(4)

        def step(x):
            seen.append(1)
            return norm(x) + torch.rand(4)

        torch.manual_seed(0)
        x = torch.randn(3, 4)
        before = torch.get_rng_state(), norm.running_mean.clone(), x.clone(), stator.counters()
        assert stator.repro(step)(x).kind is None
        assert torch.equal(torch.get_rng_state(), before[0]) and torch.equal(norm.running_mean, before[1])
        assert torch.equal(x, before[2]) and seen == [] and stator.counters() == before[3]

    def test_gradients_are_compared(self):
        def no_gradient(gm, inputs):
            class Cut(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x.clone()

                @staticmethod
                def backward(ctx, grad):
                    return grad * 3

            return lambda *args: tuple(Cut.apply(out) for out in gm(*args))

        found = stator.repro(lambda x: x * 2, backend=no_gradient)(torch.ones(3, requires_grad=True))
        assert found.kind == "wrong result" and found.what.startswith("gradients")


class TestGraphs:
    @pytest.mark.parametrize("place", [1, 7, 30, 49])
    def test_the_first_operator_is_bisected(self, place):
        gm = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
        node = gm.graph.placeholder("x")
        for index in range(50):
            node = gm.graph.call_function(aten.neg.default if index == place - 1 else aten.cos.default, (node,))
        gm.graph.output((node,))
        gm.recompile()
        seen = []

        def fails(call):
            seen.append(call)
            call.module(*call.copied_inputs())  # each candidate is a graph that runs
            return calls(call.module, aten.neg.default)

        call = GraphCall(gm, [torch.ones(2)])
        assert first_failing_prefix(call, fails) == place and len(seen) < 8
        small = minimised(call, fails)
        assert len(small.operators) == 1 and len(small.inputs) == 1

    def test_writes_stay_if_the_failure_needs_them(self):
        gm = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
        x = gm.graph.placeholder("x")
        y = gm.graph.call_function(aten.clone.default, (x,))
        gm.graph.call_function(aten.add_.Tensor, (y, 1))
        z = gm.graph.call_function(aten.mul.Tensor, (y, 3))
        gm.graph.output((gm.graph.call_function(aten.cos.default, (z,)), y))
        gm.recompile()

        def fails(call):
            seen = []

            class Run(torch.fx.Interpreter):
                def run_node(self, node):
                    made = super().run_node(node)
                    seen.append((node.target, made.clone() if isinstance(made, torch.Tensor) else None))
                    return made

            Run(call.module).run(*call.copied_inputs())
            return any(target is aten.mul.Tensor and value[0] == 6 for target, value in seen)

        small = minimised(GraphCall(gm, [torch.ones(2)]), fails)
        assert fails(small) and len(small.operators) <= 2

    def test_constants(self):
        graphs = []

        def backend(gm, inputs):
            graphs.append(gm)
            return gm

        stator.compile(lambda x: (x * torch.tensor([1.0, 2.0]) + 1).cos(), backend=backend)(torch.ones(2))
        call = GraphCall(graphs[0], [torch.ones(2)])
        with_constant = minimised(call, lambda made: calls(made.module, aten.mul.Tensor))
        without = minimised(call, lambda made: calls(made.module, aten.cos.default))
        for made, operators in ((with_constant, 1), (without, 1)):
            made.module(*made.copied_inputs())
            assert len(made.operators) == operators
        assert "_constant" not in without.module.code


class TestReadingFiles:
    def test_replay_warns_that_it_runs_code(self, tmp_path):
        with stator.record_failures(tmp_path), pytest.raises(stator.Unsupported) as caught:
            stator.compile(lambda x: print(x), fullgraph=True)(torch.ones(1))
        with pytest.warns(RuntimeWarning, match="holds code, which runs now"), pytest.raises(stator.Unsupported):
            stator.replay(caught.value.record)
        with warnings.catch_warnings(), pytest.raises(stator.Unsupported):
            warnings.simplefilter("error")
            stator.replay(caught.value.record, trust=True)

    def test_the_header_is_read_without_code(self, tmp_path):
        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "made"),)

        records.write_values(tmp_path / "x.rec", {})
        magic, _, header = (tmp_path / "x.rec").read_bytes().split(b"\n")[:3]
        content = header + b"\n" + pickle.dumps(Evil())
        digest = hashlib.sha256(content).hexdigest().encode()
        (tmp_path / "x.rec").write_bytes(b"\n".join((magic, digest, content)))
        assert records.read_header(tmp_path / "x.rec")["python"] == list(sys.version_info[:2])
        assert not (tmp_path / "made").exists()

    def test_a_part_of_a_file_is_refused(self, tmp_path):
        records.write_values(tmp_path / "x.rec", {"a": torch.ones(100)})
        whole = (tmp_path / "x.rec").read_bytes()
        for size in (0, 5, 40, len(whole) - 10):
            (tmp_path / "x.rec").write_bytes(whole[:size])
            with pytest.raises(stator.StatorError, match="not a record|incomplete"):
                records.read_values(tmp_path / "x.rec")

    def test_classes_of_a_script(self, tmp_path):
        script = tmp_path / "script.py"
        script.write_text(
            "import torch, stator\n"
            "class Net(torch.nn.Module):\n"
            "    def forward(self, x):\n"
            "        print(x)\n"
            "        return x\n"
            "if __name__ == '__main__':\n"
            "    with stator.record_failures('.'):\n"
            "        try:\n"
            "            stator.compile(Net(), fullgraph=True)(torch.ones(1))\n"
            "        except stator.Unsupported as error:\n"
            "            print(error.record, end='')\n"
        )
        done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=100)
        replay = f"import stator\nstator.replay({done.stdout!r}, trust=True)"
        again = subprocess.run(
            [sys.executable, "-c", replay], cwd=tmp_path, capture_output=True, text=True, timeout=100
        )
        assert "Unsupported" in again.stderr and "script.py:4" in again.stderr
