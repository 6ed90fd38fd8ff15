"""Shadow mode: some calls also run as plain Python, and nothing of the program notices."""

from __future__ import annotations

import collections
import copy
import random

import numpy as np
import pytest
import torch

import stator

aten = torch.ops.aten
total = 0
seen = []


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.steps, self.hidden = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), 0, None

    def forward(self, x):
        self.steps += 1
        y = torch.nn.functional.dropout(self.norm(self.linear(x)))
        if self.hidden is not None:
            y = y + self.hidden.detach()
        self.hidden = y
        return y


class Slotted:
    __slots__ = ("count", "items")
    made = 0

    def __init__(self):
        self.count, self.items = 0, collections.deque([1])

    def step(self, x):
        global total
        self.count += 1
        self.items.append(self.count)
        Slotted.made += 1
        total += 1
        seen.append(self.count)
        return x * self.count


def a_module():
    net = Net()
    return lambda x: net(x), lambda: (net.state_dict(), net.steps, net.hidden)


def attributes_and_globals():
    global total
    total, Slotted.made, one = 0, 0, Slotted()
    seen.clear()
    return lambda x: one.step(x), lambda: (one.count, list(one.items), Slotted.made, total, list(seen))


def an_optimizer_inside():
    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)

    def step(x):
        loss = net(x).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, lambda: (net.state_dict(), [p.grad for p in net.parameters()], optimizer.state_dict()["state"])


def gradients_that_add_up():
    weight = torch.ones(4, requires_grad=True)

    def step(x):
        (x * weight).sum().backward()
        return x

    return step, lambda: weight.grad


def a_hidden_tensor_with_a_history():
    weight = torch.full((4,), 2.0, requires_grad=True)
    held = {"h": weight * 3}

    def step(x):
        held["h"].mul_(2)
        return held["h"] + x

    return step, lambda: (held["h"], *torch.autograd.grad(held["h"].sum(), weight, retain_graph=True))


def random_numbers():
    def step(x):
        return x + random.random() + float(np.random.rand()) + torch.rand(4)

    return step, lambda: (random.random(), np.random.rand(), torch.rand(1))


def writes_to_the_argument():
    def step(x):
        x.add_(1)
        x.t_()
        return x

    return step, lambda: None


def a_closure_and_a_default():
    count, box = 0, []

    def step(x, more=box):
        nonlocal count
        count += 1
        more.append(count)
        return x + count

    return step, lambda: (count, box)


def an_error_after_a_write():
    log = []

    def step(x):
        log.append(1)
        x.mul_(2)
        return x.view(7)

    return step, lambda: log


PROGRAMS = [
    a_module,
    attributes_and_globals,
    an_optimizer_inside,
    gradients_that_add_up,
    a_hidden_tensor_with_a_history,
    random_numbers,
    writes_to_the_argument,
    a_closure_and_a_default,
    an_error_after_a_write,
]


def run(make, options):
    stator.reset()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    step, state = make()
    function = step if options is None else stator.compile(step, options=options)
    results = []
    for _ in range(3):
        x = torch.randn(4, 4)
        try:
            results.append((function(x).detach().clone(), x, x._version))
        except RuntimeError as error:
            results.append((str(error), x, x._version))
    return results, copy.deepcopy(torch.utils._pytree.tree_map(plain, state()))


def plain(value):
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("make", PROGRAMS)
def test_the_program_is_not_disturbed(make, caplog):
    expected, ours = run(make, None), run(make, {"shadow": 1})
    assert stator.testing.same(expected, ours)
    assert stator.counters["shadow"]["calls"] == 3, stator.counters()["shadow"]
    assert stator.counters["shadow"]["differences"] == 0, caplog.text


def test_each_nth_call():
    runs = []
    f = stator.compile(lambda x: x + 1, options={"shadow": 3})
    for _ in range(7):
        f(torch.ones(2))
        runs.append(stator.counters["shadow"]["calls"])
    assert runs == [1, 1, 1, 2, 2, 2, 3] and stator.counters["captures"]["total"] == 1


def test_a_history_of_an_argument_stays():
    w = torch.ones(3, requires_grad=True)
    h = w * 2
    kept = h.sin()  # its backward needs h as it is now

    def f(x):
        return x * 3

    y = stator.compile(f, options={"shadow": 1})(h)
    (y.sum() + kept.sum()).backward()
    assert torch.allclose(w.grad, 6 + 2 * torch.cos(torch.full((3,), 2.0)))

    w.grad = None
    h = w * 2
    stator.compile(lambda x: x.mul_(5), options={"shadow": 1})(h)
    h.sum().backward()
    assert torch.equal(w.grad, torch.full((3,), 10.0)) and stator.counters["shadow"]["calls"] == 2


def test_versions_stay():
    buffer, w = torch.ones(3), torch.ones(3, requires_grad=True)
    product = w * buffer  # backward checks the version of the buffer

    def f(x):
        with torch.no_grad():
            return x + buffer

    stator.compile(f, options={"shadow": 1})(torch.ones(3))
    product.sum().backward()
    assert buffer._version == 0


def backend_with(wrong):
    """Adds 1 to the results of one operator."""

    def backend(gm, inputs):
        class Run(torch.fx.Interpreter):
            def call_function(self, target, args, kwargs):
                made = super().call_function(target, args, kwargs)
                return made + 1 if target is wrong else made

        return lambda *args: Run(gm).run(*args)

    return backend


class TestDifferences:
    def test_of_a_backend(self, caplog):
        def f(x):
            y = x.relu() * 2
            z = y.exp()
            return z.sum() + y.sum()

        found = []
        options = {"shadow": 1, "on_difference": found.append}
        stator.compile(f, backend=backend_with(aten.exp.default), options=options)(torch.ones(3))
        (difference,) = found
        assert difference.what.startswith("result: values differ by up to 3") and difference.call == 1
        start = difference.start
        assert (start.operator, start.cause) == ("aten.exp.default", "backend")
        assert start.line[1] == f.__code__.co_firstlineno + 2
        assert "z = y.exp()" in caplog.text and stator.counters["shadow"]["differences"] == 1

    def test_of_a_capture(self):
        def original(x):
            return x.cos()

        @stator.substitute_in_graph(original)
        def replacement(x):
            return x.sin()

        found = []
        f = stator.compile(lambda x: original(x + 1) * 2, options={"shadow": 1, "on_difference": found.append})
        f(torch.ones(3))
        assert (found[0].start.operator, found[0].start.cause) == ("aten.sin.default", "capture")

    def test_a_report_leaves_no_trace(self):
        log, norm = [], torch.nn.BatchNorm1d(2)

        def program(x):
            log.append(len(log))
            return (norm(x) + random.random() + float(np.random.rand())).exp()

        def run(compiled):
            random.seed(1), np.random.seed(1), torch.manual_seed(1), norm.reset_running_stats(), log.clear()
            for _ in range(2):
                compiled(torch.randn(3, 2))
            return random.random(), np.random.rand(), torch.rand(1).item(), norm.running_mean.tolist(), list(log)

        found = []
        options = {"shadow": 1, "on_difference": found.append}
        expected = run(program)
        assert run(stator.compile(program, backend=backend_with(aten.exp.default), options=options)) == expected
        assert len(found) == 2 and all(difference.start.operator == "aten.exp.default" for difference in found)

    def test_of_state(self):
        norm = torch.nn.BatchNorm1d(2)

        def wrong(gm, inputs):
            def run(*args):
                norm.running_mean.add_(1)
                return gm(*args)

            return run

        found = []
        stator.compile(norm, backend=wrong, options={"shadow": 1, "on_difference": found.append})(torch.randn(3, 2))
        assert "running_mean" in found[0].what

    def test_of_errors(self):
        def wrong(gm, inputs):
            def run(*args):
                raise KeyError("lost")

            return run

        found = []
        f = stator.compile(lambda x: x + 1, backend=wrong, options={"shadow": 1, "on_difference": found.append})
        with pytest.raises(KeyError):
            f(torch.ones(1))
        assert "KeyError" in found[0].what and "no error" in found[0].what

    def test_a_listener_that_raises(self, caplog):
        def listener(difference):
            raise ValueError("mine")

        f = stator.compile(
            lambda x: x.exp(), backend=backend_with(aten.exp.default), options={"shadow": 1, "on_difference": listener}
        )
        assert torch.equal(f(torch.zeros(1)), torch.full((1,), 2.0)) and "on_difference" in caplog.text


class TestNotRun:
    def test_an_iterator(self):
        numbers = iter(range(9))
        f = stator.compile(lambda x: x + next(numbers), options={"shadow": 1})
        assert [f(torch.zeros(1)).item() for _ in range(3)] == [0, 1, 2]
        ((reason, count),) = stator.counters()["shadow"].items()
        assert reason.startswith("not run: an iterator") and "numbers" in reason and count == 3

    def test_an_open_file(self, tmp_path):
        with (tmp_path / "log").open("w") as file:

            def f(x):
                file.write("line\n")
                return x + 1

            stator.compile(f, options={"shadow": 1})(torch.ones(1))
        assert (tmp_path / "log").read_text() == "line\n"

    def test_what_sees_operators_sees_those_of_the_compiled_call_alone(self):
        f = stator.compile(lambda x: x.sin() + 1, options={"shadow": 1})
        x = torch.randn(3)
        graph = torch.fx.experimental.proxy_tensor.make_fx(f)(x).graph
        assert [str(node.target) for node in graph.nodes if node.op == "call_function"].count("aten.sin.default") == 1
        assert torch.equal(torch.func.vmap(f)(x), x.sin() + 1)
        assert stator.counters["shadow"]["calls"] == 0

    def test_inference_mode(self):
        f = stator.compile(lambda x: x.add_(1) * 2, options={"shadow": 1})
        with torch.inference_mode():
            x = torch.zeros(2)
            assert torch.equal(f(x), torch.full((2,), 2.0)) and torch.equal(x, torch.ones(2))
        assert stator.counters["shadow"]["differences"] == 0

    def test_an_interrupt(self):
        log = []

        def f(x):
            log.append(1)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            stator.compile(f, options={"shadow": 1})(torch.ones(1))
        assert len(log) <= 1

    def test_a_program_that_ends_the_process(self):
        log = []

        def f(x):
            log.append(1)
            raise SystemExit(3)

        with pytest.raises(SystemExit):
            stator.compile(f, options={"shadow": 1})(torch.ones(1))
        assert log == [1]

    @pytest.mark.parametrize("value", [-1, True, "2", 1.5])
    def test_bad_values(self, value):
        with pytest.raises(stator.InvalidOption, match="shadow"):
            stator.compile(lambda x: x, options={"shadow": value})


def test_a_program_inside_of_another_is_captured_with_it():
    inner = stator.compile(lambda x: x.sin() + 1, options={"shadow": 1})
    outer = stator.compile(lambda x: inner(x) * 2, fullgraph=True)
    assert torch.equal(outer(torch.ones(2)), (torch.ones(2).sin() + 1) * 2)
    assert stator.counters["captures"]["total"] == 1 and stator.counters["shadow"]["calls"] == 0


def test_a_module_stays_a_module():
    net = Net()
    compiled = stator.compile(net, options={"shadow": 2})
    assert isinstance(compiled, Net) and list(compiled.state_dict()) == list(net.state_dict())
    compiled(torch.randn(3, 4))
    assert net.steps == 1 and stator.counters["shadow"]["calls"] == 1
