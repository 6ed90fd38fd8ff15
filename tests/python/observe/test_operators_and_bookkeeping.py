"""Shapes of nodes, errors of operators, and what captures leave behind, as rows of the observation seed ask."""

from __future__ import annotations

import collections
import contextlib
import gc
import math
import weakref

import pytest
import torch

import stator
from stator import metrics
from tests.python.helpers import captures

aten = torch.ops.aten


def outcome(f, *args):
    try:
        return f(*args)
    except Exception as error:
        return type(error), str(error)


class TestShapesOfNodes:
    def test_each_node_is_evaluated_once(self):
        seen = []

        @torch.library.custom_op("stator_rows::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @twice.register_fake
        def _(x):
            seen.append(tuple(x.shape))
            return torch.empty_like(x)

        def f(x):
            return twice(twice(x)[:2]) + twice(x).sum()

        x = torch.ones(3, 2)
        assert torch.equal(stator.compile(f, fullgraph=True)(x), f(x))
        assert seen == [(3, 2), (2, 2), (3, 2)]
        assert metrics.records()[-1]["compliant_custom_ops"] == {"stator_rows::twice"}

    def test_results_of_another_capture_are_external(self):
        """A node refers to nodes of its own graph: what an earlier graph made is an input."""
        kept = []

        @stator.compile
        def first(x):
            kept.append(x * 2)
            return x

        graphs = []

        def backend(gm, inputs):
            graphs.append([node.op for node in gm.graph.nodes])
            return gm

        first(torch.ones(2))
        second = stator.compile(lambda x: kept[0] + x, backend=backend)
        assert torch.equal(second(torch.ones(2)), torch.full((2,), 3.0))
        assert graphs == [["placeholder", "placeholder", "call_function", "output"]]


class TestErrorsOfOperators:
    PROGRAMS = {
        "IndexError": lambda x: x.sum(dim=7),
        "RuntimeError": lambda x: x.view(7),
        "TypeError": lambda x: torch.add(x, nope=3),
        "AttributeError": lambda x: x.nosuch(),
        "of two shapes": lambda x: torch.ones(3, 3) @ torch.ones(4, 4),
        "of two devices": lambda x: x + torch.ones(3, device="meta"),
    }

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_are_eagers_own(self, name):
        f = self.PROGRAMS[name]
        ref = outcome(f, torch.ones(3))
        assert outcome(stator.compile(f), torch.ones(3)) == ref and isinstance(ref, tuple)
        if name != "of two devices":  # a tensor on the meta device is none that can be captured
            assert outcome(stator.compile(f, fullgraph=True), torch.ones(3)) == ref
            record = metrics.records()[-1]
            assert record["fail_type"] == ref[0].__name__ and ref[1] in record["fail_reason"].replace("\\'", "'")
            assert record["fail_user_frame_filename"] == __file__
            assert record["fail_user_frame_lineno"] == f.__code__.co_firstlineno

    def test_with_symbolic_sizes(self):
        f = stator.compile(lambda x: x @ torch.ones(4, 4), dynamic=True)
        error = outcome(f, torch.ones(3, 10))
        assert error == outcome(lambda x: x @ torch.ones(4, 4), torch.ones(3, 10)) and "3x10" in error[1]

    @pytest.mark.parametrize("f", [lambda x: x.nonzero() + 1, lambda x: x.sum().item() + 1], ids=["nonzero", "item"])
    def test_data_that_a_graph_can_hold(self, f):
        compiled, x = stator.compile(f, fullgraph=True), torch.tensor([0.0, 2.0])
        assert outcome(lambda: compiled(x).tolist()) == outcome(lambda: f(x).tolist()) or compiled(x) == f(x)
        assert captures() == 1

    def test_data_that_is_needed_names_the_operator(self):
        with pytest.raises(stator.Unsupported, match="aten::equal") as caught:
            stator.compile(lambda x: torch.equal(x, x), fullgraph=True)(torch.ones(2))
        assert "try:" in str(caught.value)

    def test_an_operator_without_a_shape_function(self):
        with contextlib.ExitStack() as stack:
            library = stack.enter_context(torch.library._scoped_library("stator_rows2", "DEF"))
            library.define("plain(Tensor x) -> Tensor")
            library.impl("plain", lambda x: x.clone(), "CPU")
            f = lambda x: torch.ops.stator_rows2.plain(x) + 1  # noqa: E731
            with pytest.raises(stator.Unsupported, match="stator_rows2::plain: no shape function"):
                stator.compile(f, fullgraph=True)(torch.ones(2))
            assert metrics.records()[-1]["non_compliant_ops"] == {"stator_rows2::plain"}
            assert torch.equal(stator.compile(f)(torch.ones(2)), torch.full((2,), 2.0))
            found = [record["non_compliant_ops"] for record in metrics.records()]
            assert {"stator_rows2::plain"} in found
        stator.compile(lambda x: x + 1)(torch.ones(2))
        assert metrics.records()[-1]["non_compliant_ops"] == set()

    def test_parameters_are_not_touched_by_a_capture(self):
        net = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.BatchNorm1d(4))
        x = torch.randn(3, 5)
        compiled = stator.compile(net)
        compiled(x)
        assert net[0].weight.shape == (4, 5)
        net.eval()
        versions = [tensor._version for tensor in (*net.parameters(), *net.buffers())]
        result = compiled(x)
        assert [tensor._version for tensor in (*net.parameters(), *net.buffers())] == versions
        torch.testing.assert_close(result, net(x))


class TestBookkeeping:
    def test_a_hook_that_comes_later_is_seen(self):
        net, seen = torch.nn.Linear(2, 2), []
        compiled = stator.compile(net)
        compiled(torch.ones(1, 2))
        net.register_forward_hook(lambda *_: seen.append(1))
        compiled(torch.ones(1, 2))
        assert seen == [1]

    def test_an_object_that_died_is_no_key(self):
        class Key:
            def __eq__(self, other):
                return True

            __hash__ = None

        # Entries know objects by identity, and keep none of them alive.
        first, second = Key(), Key()
        f = stator.compile(lambda key, x: x + (1 if key is first else 2))
        assert [f(key, torch.zeros(1)).item() for key in (first, second)] == [1, 2]
        dead = weakref.ref(second)
        del second
        gc.collect()
        assert dead() is None

    def test_a_module_has_no_new_names(self):
        names = set(globals())

        def f(x):
            y = x.sin()
            stator.graph_break()
            return [item * 2 for item in (y, x)]

        stator.compile(f)(torch.ones(2))
        stator.compile(f, backend="eager")(torch.ones(2))
        assert set(globals()) == names and set(f.__globals__) == names

    def test_reasons_of_each_recompilation_and_a_lifted_limit(self):
        metrics.clear()
        f = stator.compile(lambda x: x + 1, dynamic=False, fullgraph=True)
        with stator.config.patch(recompile_limit=100):
            for n in range(1, 21):
                f(torch.ones(n))
        reasons = [record["recompile_reason"] for record in metrics.records()]
        assert len(reasons) == 20 and reasons[0] is None and all("x" in reason for reason in reasons[1:])
        assert stator.config.recompile_limit < 20
        with pytest.raises(stator.RecompileLimitExceeded):
            f(torch.ones(30))

    def test_timed_runs(self):
        calls = []

        def f(x):
            calls.append(torch.rand(1))
            return x + 1

        result, seconds = stator.testing.timed_run(f, [torch.ones(2)], times=3)
        assert torch.equal(result, torch.full((2,), 2.0)) and seconds > 0 and len(calls) == 3
        torch.manual_seed(1337)
        assert torch.equal(calls[0], torch.rand(1))

    def test_python_ints(self):
        """An argument that changes becomes a symbol; so does a global; a default is a constant until it is passed."""
        f = stator.compile(lambda x, n: x + n)
        for n in (3, 4, 5):
            assert f(torch.zeros(1), n).item() == n
        assert captures() == 2
        parameter = torch.nn.Parameter(torch.ones(3, 2))
        with pytest.warns(UserWarning, match="sizes of parameters are static"):
            stator.mark_dynamic(parameter, 0)
        assert "[3, 2]" in stator.explain(lambda p: p * 2)(parameter).details()


class TestClosuresAndTypes:
    def test_cells_are_shared_rebound_and_empty(self):
        def program(x):
            count, log = 0, []

            def add():
                nonlocal count
                count += 1
                return count

            def read():
                return count

            def late():
                return never  # noqa: F821

            add(), add()
            log.append(outcome(late))
            if count > 5:
                never = 1  # noqa: F841
            return x + count, add, read, log

        for function in (program, stator.compile(program)):
            value, add, read, log = function(torch.zeros(1))
            assert value.item() == 2 and add() == 3 and read() == 3
            assert add.__closure__[0] is read.__closure__[0] and log[0][0] is NameError

    def test_swaps_and_small_tools(self):
        def program(x):
            a, b, c, d = x, x + 1, x + 2, x + 3
            a, b = b, a
            a, b, c = c, a, b
            a, b, c, d = d, c, b, a
            return a * 1 + b * 10 + c * 100 + d * 1000 + math.prod([]) + math.prod([2, 3])

        x = torch.tensor([0.0, 1.0])
        assert torch.equal(stator.compile(program, fullgraph=True)(x), program(x))

    @pytest.mark.parametrize(
        "base, method, call",
        [
            (list, "append", lambda o: (o.append(1), len(o))),
            (set, "add", lambda o: (o.add(1), len(o))),
            (str, "upper", lambda o: o.upper()),
            (dict, "get", lambda o: o.get(1)),
            (Exception, "__str__", lambda o: str(o)),
            (collections.OrderedDict, "__len__", lambda o: len(o)),
        ],
        ids=lambda value: getattr(value, "__name__", ""),
    )
    def test_an_overridden_method_counts(self, base, method, call):
        made = type("Own", (base,), {method: lambda self, *args: 7 if method == "__len__" else "own"})

        def program(x):
            return x + 1, call(made())

        ref, res = program(torch.ones(1)), stator.compile(program)(torch.ones(1))
        assert res[1] == ref[1] and torch.equal(res[0], ref[0])

    def test_nested_arguments_are_flat_for_a_backend(self):
        seen = []

        def backend(gm, inputs):
            seen.append([type(item) for item in inputs])
            return gm

        f = stator.compile(lambda tree: {"sum": [tree["a"][0] + tree["b"]], "same": tree}, backend=backend)
        tree = {"a": [torch.ones(2), 3], "b": torch.ones(2)}
        result = f(tree)
        assert seen == [[torch.Tensor, torch.Tensor]] and result["same"] is tree
        assert torch.equal(result["sum"][0], torch.full((2,), 2.0))
