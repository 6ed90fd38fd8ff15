"""Guard callbacks of one `compile` call."""

import weakref

import pytest
import torch

import stator
from tests.python.helpers import collect

FLAG = True


def f(x, scale=2):
    return x.sin() * scale if FLAG else x.cos() * scale


class TestFail:
    def test_each_form_that_does_not_fit(self, K):
        fails = []
        compiled = stator.compile(f, backend=K, dynamic=False, guard_fail_fn=fails.append)
        compiled(torch.ones(3)), compiled(torch.ones(3))
        assert fails == []
        compiled(torch.ones(4))
        assert len(fails) == 1
        assert fails[0].orig_code is f.__code__
        assert fails[0].reason.startswith("0/0: x ") and "4" in fails[0].reason
        compiled(torch.ones(5))
        assert [fail.reason[:4] for fail in fails[1:]] == ["0/1:", "0/0:"]

    def test_belongs_to_its_call(self, K):
        fails = []
        stator.compile(f, backend=K, guard_fail_fn=fails.append)(torch.ones(3))
        other = stator.compile(f, backend=K)
        other(torch.ones(3)), other(torch.ones(4))
        assert fails == []

    def test_its_error_is_the_users(self):
        def refuse(fail):
            raise KeyError("refused")

        compiled = stator.compile(f, guard_fail_fn=refuse)
        compiled(torch.ones(3))
        with pytest.raises(KeyError, match="refused"):
            compiled(torch.ones(4))
        assert torch.equal(compiled(torch.ones(3)), f(torch.ones(3)))

    def test_places_behind_a_break(self):
        def parts(x, n):
            y = x.sin()
            stator.graph_break()
            return y * n

        fails = []
        compiled = stator.compile(parts, guard_fail_fn=fails.append)
        for n in (2, 3):
            assert torch.equal(compiled(torch.ones(3), n), parts(torch.ones(3), n))
        assert any("n " in fail.reason for fail in fails)


class TestExport:
    def test_gets_the_guards_of_each_graph(self, K):
        exported = []
        compiled = stator.compile(f, backend=K, guard_export_fn=exported.append)
        compiled(torch.ones(3)), compiled(torch.ones(3)), compiled(torch.ones(4))
        assert len(exported) == K.count == 2
        by_name = {guard.name: guard for guard in exported[0]}
        assert by_name["x"].guard_type == "TENSOR_MATCH" and by_name["x"].value.shape == (3,)
        assert by_name["FLAG"].is_global and by_name["FLAG"].value is True
        assert not by_name["x"].is_global
        assert by_name["scale"].value == 2 and by_name["scale"].text.startswith("scale ")

    def test_not_for_what_has_no_graph(self):
        exported = []
        stator.compile(lambda x: 7, guard_export_fn=exported.append)(torch.ones(3))
        assert exported == []

    def test_nothing_is_held(self):
        class Holder:
            def __init__(self):
                self.number = 2

        holder = Holder()
        compiled = stator.compile(lambda h, x: x * h.number, guard_export_fn=lambda guards: None)
        compiled(holder, torch.ones(3))
        gone = weakref.ref(holder)
        del holder
        collect()
        assert gone() is None


class TestFilter:
    def test_what_is_left_out_is_vouched_for(self, K, monkeypatch):
        compiled = stator.compile(f, backend=K, guard_filter_fn=lambda guards: [not g.is_global for g in guards])
        x = torch.ones(3)
        compiled(x)
        monkeypatch.setitem(globals(), "FLAG", False)
        assert torch.equal(compiled(x), x.sin() * 2)  # stale, as the filter requested
        assert K.count == 1
        compiled(torch.ones(4))
        assert K.count == 2

    def test_values_and_sizes(self, K):
        keep = lambda guards: [g.name not in ("x", "scale") for g in guards]  # noqa: E731
        compiled = stator.compile(f, backend=K, guard_filter_fn=keep)
        compiled(torch.ones(3), 2)
        y = torch.ones(5, dtype=torch.float64)
        assert torch.equal(compiled(y, 7), y.sin() * 2)
        assert K.count == 1
        # Guards that make reading safe stay: the object must have the same class.
        with pytest.raises((TypeError, AttributeError)):
            compiled("text", 2)

    def test_all_of_them(self, K):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)])
                self.table = {"a": [1.5, (2, 3)]}

            def forward(self, x, extra=None):
                for layer in self.layers:
                    x = layer(x) * self.table["a"][0] + self.table["a"][1][1]
                return x if extra is None else x + extra

        net = Net()
        x = torch.randn(2, 3)
        wanted = net(x)
        compiled = stator.compile(net, backend=K, guard_filter_fn=lambda guards: [False] * len(guards))
        for _ in range(20):
            assert torch.equal(compiled(x), wanted)
        assert K.count == 1
        # Shorter, empty and different objects: new captures or errors, but no crash.
        net.table = {"a": []}
        with pytest.raises(IndexError):
            compiled(x)
        net.table = {}
        with pytest.raises(KeyError):
            compiled(x)
        del net.table
        with pytest.raises(AttributeError):
            compiled(x)
        net.table = {"a": (0.5, [1, 1])}
        compiled(x)

    def test_others_are_not_touched(self, K, monkeypatch):
        x = torch.ones(3)
        stator.compile(f, backend=K, guard_filter_fn=lambda guards: [False] * len(guards))(x)
        other = stator.compile(f, backend=K)
        other(x)
        monkeypatch.setitem(globals(), "FLAG", False)
        assert torch.equal(other(x), f(x))

    @pytest.mark.parametrize(("answer", "error"), [([], ValueError), (None, TypeError), ([1, 2, 3, 4] * 9, ValueError)])
    def test_answers_that_are_none(self, answer, error):
        with pytest.raises(error):
            stator.compile(f, guard_filter_fn=lambda guards: answer)(torch.ones(3))

    def test_its_error_is_the_users(self):
        def refuse(guards):
            raise KeyError("refused")

        with pytest.raises(KeyError, match="refused"):
            stator.compile(f, guard_filter_fn=refuse)(torch.ones(3))

    def test_filters_that_torch_has(self, K, monkeypatch):
        compiled = stator.compile(f, backend=K, guard_filter_fn=torch.compiler.skip_guard_on_globals_unsafe)
        x = torch.ones(3)
        compiled(x)
        monkeypatch.setitem(globals(), "FLAG", False)
        assert torch.equal(compiled(x), x.sin() * 2) and K.count == 1

        only_tensors = stator.compile(f, backend=K, guard_filter_fn=torch.compiler.keep_tensor_guards_unsafe)
        only_tensors(x, 2)
        only_tensors(x, 3)
        assert K.count == 2
        only_tensors(torch.ones(4), 2)
        assert K.count == 3


def test_callbacks_are_callables():
    for name in ("guard_filter_fn", "guard_export_fn", "guard_fail_fn"):
        with pytest.raises(stator.InvalidOption, match=name):
            stator.compile(f, **{name: 3})
