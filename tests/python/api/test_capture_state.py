"""State after a capture: global state unchanged, random numbers as in eager; restarts and reports."""

import logging
import random
import weakref

import pytest
import torch

import stator


def test_state_is_as_before_whatever_the_backend_does():
    def meddling(gm, example_inputs):
        torch.set_grad_enabled(False)
        torch.manual_seed(99)
        random.seed(99)
        return gm.forward

    torch.manual_seed(0)
    random.seed(0)
    x = torch.ones(3)
    expected = x + torch.rand(3), torch.rand(1), random.random()
    torch.manual_seed(0)
    random.seed(0)
    try:
        actual = stator.compile(lambda x: x + torch.rand(3), backend=meddling)(x), torch.rand(1), random.random()
        assert torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    assert torch.equal(actual[0], expected[0]) and torch.equal(actual[1], expected[1]) and actual[2] == expected[2]


def test_state_is_as_before_after_a_failed_capture():
    def failing(gm, example_inputs):
        torch.set_grad_enabled(False)
        raise ValueError("boom")

    try:
        with pytest.raises(stator.BackendCompilerFailed, match="boom"):
            stator.compile(lambda x: x + 1, backend=failing)(torch.ones(2))
        assert torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_inference_mode_gives_inference_tensors():
    compiled = stator.compile(lambda x: x + 1)
    with torch.inference_mode():
        assert compiled(torch.ones(2)).is_inference()
    assert not compiled(torch.ones(2)).is_inference()


def test_guards_look_at_the_state_of_the_start(K):
    @stator.compile(backend=K)
    def f(x):
        y = x * 2
        with torch.no_grad():
            return y + 1

    x = torch.ones(2, requires_grad=True)
    f(x)
    f(x)
    assert len(K.graphs) == 1
    with torch.no_grad():
        f(x)
    assert len(K.graphs) == 2


def test_a_break_inside_an_inlined_call_restarts_once():
    def inner(x):
        print("inside")
        return x + 1

    stator.compile(lambda x: inner(x * 2) * 3)(torch.ones(2))
    assert 1 <= stator.counters["captures"]["restarts"] <= 4


def test_a_failed_capture_keeps_no_input_alive():
    x = torch.ones(2)
    alive = weakref.ref(x)
    with pytest.raises(stator.Unsupported):
        stator.compile(lambda x: print(x + 1), fullgraph=True)(x)
    del x
    assert alive() is None


def test_compiled_optimizer_step_equals_eager():
    def run(wrap):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        step = wrap(optimizer.step)
        for _ in range(3):
            model(torch.ones(2, 3)).sum().backward()
            step()
            optimizer.zero_grad()
        return [p.detach().clone() for p in model.parameters()]

    for mine, theirs in zip(run(stator.compile), run(lambda f: f), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.usefixtures("validated_distributions")
def test_arguments_of_distributions_are_still_checked():
    def f(scale):
        return torch.distributions.Normal(torch.zeros(2), scale, validate_args=True).log_prob(torch.ones(2))

    compiled = stator.compile(f, fullgraph=True)
    for scale in (torch.ones(2), torch.full((2,), 3.0)):
        assert torch.equal(compiled(scale), f(scale))
    with pytest.raises(ValueError) as mine:
        compiled(-torch.ones(2))
    with pytest.raises(ValueError) as theirs:
        f(-torch.ones(2))
    assert str(mine.value) == str(theirs.value)


def test_a_check_that_raises_is_no_break():
    log = []

    def f(x):
        log.append("called")
        y = x * 2
        if (y < 0).any():
            raise ValueError(f"negative: {y.min().item()}")
        if not y.sum() < 100:
            raise AssertionError("too large")
        return y + 1

    compiled = stator.compile(f, fullgraph=True)
    good, negative, large = torch.ones(3), torch.tensor([1.0, -2.0]), torch.full((4,), 40.0)
    for x in (good, negative, large, good):
        outcomes = []
        for run in (f, compiled):
            log.clear()
            try:
                outcomes.append(run(x).tolist())
            except (ValueError, AssertionError) as error:
                outcomes.append((type(error), str(error)))
            outcomes.append(list(log))
        assert outcomes[:2] == outcomes[2:]


def test_a_check_on_a_tensor_that_requires_grad():
    def f(x):
        loss = (x * x).sum()
        if not loss:
            raise ValueError("nothing to learn")
        return loss * 2

    compiled = stator.compile(f, fullgraph=True)
    x = torch.ones(3, requires_grad=True)
    for _ in range(2):
        (mine,) = torch.autograd.grad(compiled(x), x)
        assert torch.equal(mine, torch.autograd.grad(f(x), x)[0])
    with pytest.raises(ValueError, match="nothing to learn"):
        compiled(torch.zeros(3, requires_grad=True))


def test_a_check_behind_a_write_is_a_break():
    def f(x):
        x.add_(1)
        if x.sum() > 10:
            raise ValueError("large")
        return x * 2

    compiled = stator.compile(f)
    for start in (0.0, 5.0):
        outcomes = []
        for run in (f, compiled):
            x = torch.full((3,), start)
            try:
                outcomes.append((run(x).tolist(), x.tolist()))
            except ValueError as error:
                outcomes.append((str(error), x.tolist()))
        assert outcomes[0] == outcomes[1]


def test_containers_that_hold_themselves():
    def f(x):
        items = [x + 1]
        items.append(items)
        table = {"items": items}
        table["inner"] = [table, (items, 1)]
        return items, table

    for fuel in (0, 7, 12):
        stator.reset()
        with stator.config.patch(break_after=fuel):
            items, table = stator.compile(f)(torch.ones(2))
        assert items[1] is items and table["items"] is items
        assert table["inner"][0] is table and table["inner"][1][0] is items


class TestLogs:
    @staticmethod
    def lines(caplog, name):
        return [record.getMessage() for record in caplog.records if record.name == name]

    @staticmethod
    def broken(x):
        for _ in range(5):
            x = x + 1
            print("break")
        return x

    def test_a_break_is_logged_once_per_place(self, caplog, capsys):
        with caplog.at_level(logging.INFO, logger="stator.breaks"):
            for told in (1, 2):
                stator.reset()
                compiled = stator.compile(self.broken)
                for _ in range(3):
                    compiled(torch.ones(2))
                assert len(self.lines(caplog, "stator.breaks")) == told, "logged again after compile"
        line = self.broken.__code__.co_firstlineno + 4  # the decorator is the first
        message = self.lines(caplog, "stator.breaks")[0]
        assert message.startswith("graph break in TestLogs.broken (") and f"{__file__}:{line}" in message
        assert "print()" in message and "[unknown_call]" in message and "\n  try: " in message

    def test_a_frame_that_cannot_resume_is_logged(self, caplog):
        def numbers(x):
            yield x + 1
            yield x + 2

        with caplog.at_level(logging.INFO, logger="stator.breaks"):
            compiled = stator.compile(numbers)
            for _ in range(2):
                assert len(list(compiled(torch.ones(2)))) == 2
        (message,) = self.lines(caplog, "stator.breaks")
        assert "numbers" in message and __file__ in message and "plain Python" in message

    def test_a_recompilation_is_logged_with_its_guard(self, caplog):
        def scaled(x, n):
            return x * n

        compiled = stator.compile(scaled)
        with caplog.at_level(logging.INFO, logger="stator.recompiles"):
            for n in (2.5, 3.5, 2.5):
                compiled(torch.ones(2), n)
        (message,) = self.lines(caplog, "stator.recompiles")
        assert "scaled" in message and "2.5" in message and "3.5" in message

    def test_nothing_is_logged_unless_requested(self, caplog, capsys):
        stator.reset()
        stator.compile(self.broken)(torch.ones(2))
        assert not caplog.records

    def test_a_handler_that_raises_changes_nothing(self, capsys, monkeypatch):
        class Hostile(logging.Handler):
            def handle(self, record):
                raise RuntimeError("hostile")

        handler, logger = Hostile(), logging.getLogger("stator.breaks")
        told = []
        monkeypatch.setattr("sys.unraisablehook", lambda args: told.append(str(args.exc_value)))
        logger.addHandler(handler)
        before = logger.level
        logger.setLevel(logging.INFO)
        try:
            stator.reset()
            assert torch.equal(stator.compile(self.broken)(torch.ones(2)), torch.full((2,), 6.0))
        finally:
            logger.removeHandler(handler)
            logger.setLevel(before)
        assert told == ["hostile"]


class TestWhatABackendLeavesChanged:
    def test_is_restored(self):
        def meddling(gm, example_inputs):
            torch.set_default_dtype(torch.float64)
            torch._C._set_deterministic_algorithms(True, warn_only=True)
            torch.set_float32_matmul_precision("medium")
            return gm.forward

        compiled = stator.compile(lambda x: x + torch.ones(3), backend=meddling)
        try:
            for _ in range(2):
                assert compiled(torch.ones(3)).dtype == torch.float32
            assert torch.get_default_dtype() == torch.float32
            assert not torch.are_deterministic_algorithms_enabled()
            assert not torch.is_deterministic_algorithms_warn_only_enabled()
            assert torch.get_float32_matmul_precision() == "highest"
        finally:
            torch.set_default_dtype(torch.float32)
            torch._C._set_deterministic_algorithms(False, warn_only=False)
            torch.set_float32_matmul_precision("highest")

    def test_is_restored_after_an_error(self):
        def failing(gm, example_inputs):
            torch.set_default_dtype(torch.float64)
            raise ValueError("boom")

        try:
            with pytest.raises(stator.BackendCompilerFailed, match="boom"):
                stator.compile(lambda x: x + 1, backend=failing)(torch.ones(3))
            assert torch.get_default_dtype() == torch.float32
        finally:
            torch.set_default_dtype(torch.float32)

    def test_is_reported_if_it_cannot_be_restored(self):
        before = torch.get_num_threads()

        def threads(gm, example_inputs):
            torch.set_num_threads(before + 1)
            return gm.forward

        try:
            with pytest.raises(AssertionError, match=f"num_threads was {before} and is {before + 1}") as caught:
                stator.compile(lambda x: x + 1, backend=threads)(torch.ones(3))
        finally:
            torch.set_num_threads(before)
        assert isinstance(caught.value, stator.StateChanged) and "report" in str(caught.value)

    def test_left_open_modes_are_reported(self):
        class Mode(torch.overrides.TorchFunctionMode):
            pass

        mode = Mode()

        def entering(gm, example_inputs):
            mode.__enter__()
            return gm.forward

        try:
            with pytest.raises(stator.StateChanged, match="torch-function modes was 0 and is 1"):
                stator.compile(lambda x: x + 1, backend=entering)(torch.ones(3))
        finally:
            mode.__exit__(None, None, None)

    def test_handlers_of_logs_stay(self):
        handlers = [list(logging.getLogger(name).handlers) for name in ("", "stator", "torch")]
        stator.compile(lambda x: x + 1)(torch.ones(3))
        assert handlers == [list(logging.getLogger(name).handlers) for name in ("", "stator", "torch")]


def test_errors_at_a_place_that_allows_no_break_are_never_suppressed():
    @stator.compile(error_on_graph_break=True)
    def strict(x):
        print("", end="")
        return x + 1

    @stator.compile(error_on_graph_break=True)
    def careful(x):
        return x * 2

    def breaks_inside(x):
        return strict(x * 2)

    def breaks_outside(x):
        y = careful(x)
        print("", end="")
        return careful(y)

    x = torch.ones(3)
    with stator.config.patch(suppress_errors=True):
        for _ in range(2):
            with pytest.raises(stator.Unsupported, match="print"):
                stator.compile(breaks_inside)(x)
        for _ in range(2):
            assert torch.equal(stator.compile(breaks_outside)(x), x * 4)
        assert stator.counters["captures"]["graphs"] >= 2
