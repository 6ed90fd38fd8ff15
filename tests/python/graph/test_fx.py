"""Graphs to torch.fx and back."""

import copy
import pickle

import pytest
import torch

from stator import _C, fx
from stator.fx_module import ExportedGraphModule
from tests.python.helpers import check_parity

aten = torch.ops.aten

MLP = """graph "mlp" (%x: float32[2, 3], %"self.fc.weight": float32[4, 3] grad, %bias: float32[4] grad) {
  state 0 grad
  location 1 "nowhere.py":12 in "forward"
  %linear: float32[2, 4] grad = aten::linear(%x, %"self.fc.weight", %bias) at 1
  %relu: float32[2, 4] grad = aten::relu(%linear) at 1
  %half = aten::mul.Tensor(%relu, number(0.5))
  return (%half, %x)
}
"""


def mlp_inputs():
    torch.manual_seed(0)
    return torch.randn(2, 3), torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)


def mlp_eager(x, w, b):
    return torch.relu(torch.nn.functional.linear(x, w, b)) * 0.5, x


def grads(outputs, tensors):
    return torch.autograd.grad(outputs[0].sum(), [t for t in tensors if t.requires_grad])


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert x.dtype == y.dtype and x.stride() == y.stride() and x.requires_grad == y.requires_grad
        assert torch.equal(x, y)


def check_against(run, eager, inputs):
    got, wanted = run(*inputs), eager(*inputs)
    same(got, wanted)
    if wanted[0].requires_grad:
        same(grads(got, inputs), grads(wanted, inputs))


class TestNative:
    def test_runs(self):
        check_against(_C.Graph.parse(MLP), mlp_eager, mlp_inputs())
        check_against(_C.Graph.parse(MLP).run, mlp_eager, mlp_inputs())

    def test_tells_what_raised(self):
        graph = _C.Graph.parse(MLP)
        x, w, b = mlp_inputs()
        assert graph.failed_op() is None
        with pytest.raises(RuntimeError):
            graph(x.t(), w, b)
        assert graph.failed_op() == (0, "aten::linear", [("nowhere.py", "forward", 12)])

    def test_input_given_back_is_the_same_object(self):
        inputs = mlp_inputs()
        assert _C.Graph.parse(MLP)(*inputs)[1] is inputs[0]

    def test_text_and_properties(self):
        graph = _C.Graph.parse(MLP)
        assert graph.text() == str(graph) == MLP
        assert (graph.name, graph.num_nodes, len(graph.inputs), len(graph.outputs)) == ("mlp", 3, 3, 2)
        assert graph.names()[graph.inputs[1]] == "self.fc.weight"
        assert graph.meta(graph.inputs[1]) == (torch.float32, (4, 3), (3, 1), torch.device("cpu"), True)
        assert graph.meta(graph.outputs[0]) is None

    def test_nodes(self):
        name, overload, args, kwargs, results, state, location = _C.Graph.parse(MLP).nodes()[2]
        assert (name, overload, kwargs, state, location) == ("aten::mul", "Tensor", {}, 0, 0)
        assert isinstance(args[0], _C.Value) and args[1] == 0.5 and not isinstance(args[1], _C.Value)
        assert isinstance(results[0], _C.Value)

    def test_constants_have_their_python_types(self):
        graph = _C.Graph.parse(
            """graph "g" (%x) {
            state 0 grad
            %a = aten::full([2, 3], True, dtype=float16, layout=strided, device=device("cpu"), pin_memory=False)
            %b = aten::clone(%x, memory_format=channels_last)
            %c = aten::add.Tensor(%x, number(complex(1.0, 2.0)), alpha=2)
            %d = aten::index.Tensor(%x, [None, %a])
            return () }"""
        )
        nodes = graph.nodes()
        assert nodes[0][2] == ([2, 3], True)
        assert nodes[0][3] == {
            "dtype": torch.float16,
            "layout": torch.strided,
            "device": torch.device("cpu"),
            "pin_memory": False,
        }
        assert nodes[1][3] == {"memory_format": torch.channels_last}
        assert nodes[2][2][1] == 1 + 2j and nodes[2][3] == {"alpha": 2}
        assert nodes[3][2][1][0] is None and isinstance(nodes[3][2][1][1], _C.Value)

    def test_bad_calls(self):
        graph = _C.Graph.parse(MLP)
        with pytest.raises(TypeError, match="argument 1 is int"):
            graph(torch.ones(2, 3), 1, 2)
        with pytest.raises(TypeError, match="keyword"):
            graph(x=torch.ones(1))
        with pytest.raises(RuntimeError, match="mlp takes 3 tensors, not 1"):
            graph(torch.ones(2, 3))
        with pytest.raises(RuntimeError, match="mat1 and mat2|size mismatch|shapes cannot"):
            graph(torch.ones(2, 5), *mlp_inputs()[1:])
        with pytest.raises(ValueError, match="line 1"):
            _C.Graph.parse("nonsense")
        with pytest.raises(TypeError):
            _C.Graph()

    def test_pickle_with_big_constants(self):
        tracer = _C.Tracer("big")
        fake = tracer.constant(torch.arange(1000.0))
        graph = tracer.finish([tracer.call(torch.add, fake, 1)])
        again = pickle.loads(pickle.dumps(graph))
        same(again(), graph())
        assert again.text() == graph.text()


class TestTracer:
    def test_records_python_calls(self):
        inputs = mlp_inputs()
        tracer = _C.Tracer("mlp")
        fakes = [tracer.input(t, n) for t, n in zip(inputs, ("x", "w", "b"), strict=True)]
        out = tracer.call(lambda x, w, b: torch.relu(torch.nn.functional.linear(x, w, b)) * 0.5, *fakes)
        graph = tracer.finish([out, fakes[0]])
        assert [node[0] for node in graph.nodes()] == ["aten::linear", "aten::relu", "aten::mul"]
        check_against(graph, mlp_eager, inputs)

    @pytest.mark.parametrize("number", [2, 2.5, True, 1j])
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.bool, torch.complex64])
    def test_numbers_promote_as_in_eager(self, number, dtype):
        x = torch.ones(3).to(dtype)
        tracer = _C.Tracer()
        fake = tracer.input(x, "x")
        graph = tracer.finish([tracer.call(torch.mul, fake, number)])
        same(graph(x), (torch.mul(x, number),))
        same(fx.to_graph_module(graph)(x), (torch.mul(x, number),))

    def test_operators_that_take_numbers(self):
        """In a torch.fx graph, these take a Python number in a tensor's place."""
        for name, overload in (("add", "Tensor"), ("mul_", "Tensor"), ("true_divide", "Tensor"), ("floor_divide", "")):
            assert _C.takes_numbers(f"aten::{name}", overload)
        for name in ("aten::pow.Tensor_Tensor", "aten::matmul", "stator::item", "other::add.Tensor"):
            assert not _C.takes_numbers(*(*name.split("."), "")[:2])

    def test_data_exits_poison(self):
        tracer = _C.Tracer()
        fake = tracer.input(torch.ones(2), "x")

        def hidden(x):
            try:
                return x.sum().item()
            except Exception:
                return 1.0

        with pytest.raises(RuntimeError, match="cannot be traced"):
            tracer.call(hidden, fake)

    def test_unknown_tensor(self):
        tracer = _C.Tracer()
        fake = tracer.input(torch.ones(2), "x")
        with pytest.raises(RuntimeError, match="not an input"):
            tracer.call(torch.add, fake, torch.ones(2))
        with pytest.raises(ValueError, match="output 0"):
            tracer.finish([torch.ones(1)])

    def test_profiler_marks_are_no_nodes(self):
        def marked(x):
            with torch.profiler.record_function("mark"):
                return torch.sin(x)

        tracer = _C.Tracer()
        fake = tracer.input(torch.ones(2), "x")
        graph = tracer.finish([tracer.call(marked, fake)])
        assert [node[0] for node in graph.nodes()] == ["aten::sin"]

    def test_foreach_in_place(self):
        tensors = [torch.ones(2), torch.ones(3)]
        tracer = _C.Tracer()
        fakes = [tracer.input(t, "t") for t in tensors]
        try:
            tracer.call(torch._foreach_add_, fakes, 1)
        except RuntimeError as error:
            pytest.skip(str(error))
        graph = tracer.finish(fakes)
        out = graph(*tensors)
        assert out[0] is tensors[0] and tensors[1].tolist() == [2.0] * 3

    def test_vmap_leaves_only_what_it_calls(self):
        tracer = _C.Tracer()
        x = torch.randn(2, 3)
        fake = tracer.input(x, "x")
        graph = tracer.finish([tracer.call(torch.vmap(torch.dot, in_dims=(0, None)), fake, tracer.input(x[0], "y"))])
        assert "vmap" not in str(graph) and "dot" not in str(graph)
        assert torch.equal(graph.run(x, x[0])[0], torch.vmap(torch.dot, in_dims=(0, None))(x, x[0]))


STATES = """graph "states" (%x: float32[4, 4], %w: float32[4, 4] grad) {
  state 0 grad
  state 1 no_grad
  state 2 grad autocast(cpu=bfloat16)
  state 3 no_grad inference
  state 4 grad autocast(cpu=bfloat16) region 1
  %a = aten::mm(%x, %w)
  %b = aten::mm(%x, %w) state 1
  %c = aten::mm(%x, %w) state 2
  %d = aten::mm(%x, %w)
  %e = aten::mm(%x, %w) state 2
  %f = aten::mm(%x, %w) state 3
  %g = aten::mm(%x, %w) state 4
  %h = aten::mm(%x, %w) state 1
  return (%a, %b, %c, %d, %e, %g, %h)
}
"""


def states_eager(x, w):
    a = x @ w
    with torch.no_grad():
        b = x @ w
    with torch.autocast("cpu", torch.bfloat16):
        c = x @ w
        with torch.autocast("cpu", enabled=False):
            d = x @ w
        e = x @ w
    with torch.inference_mode():
        x @ w
    with torch.autocast("cpu", torch.bfloat16):
        g = x @ w
    with torch.no_grad():
        h = x @ w
    return a, b, c, d, e, g, h


class TestExport:
    def test_is_a_graph_module_that_runs(self):
        gm = fx.to_graph_module(_C.Graph.parse(MLP))
        assert isinstance(gm, torch.fx.GraphModule)
        gm.graph.lint()
        check_against(gm, mlp_eager, mlp_inputs())
        assert "torch.ops.aten.linear.default" in gm.code
        assert [n.target for n in gm.graph.nodes if n.op == "call_function"] == [
            aten.linear.default,
            aten.relu.default,
            aten.mul.Tensor,
        ]
        assert gm.graph_name == "mlp"

    def test_metadata(self):
        gm = fx.to_graph_module(_C.Graph.parse(MLP))
        linear = next(n for n in gm.graph.nodes if n.target is aten.linear.default)
        assert linear.name == "linear"
        assert linear.meta["tensor_meta"].shape == (2, 4) and linear.meta["tensor_meta"].dtype == torch.float32
        assert 'File "nowhere.py", line 12, in forward' in linear.meta["stack_trace"]

    def test_states(self):
        inputs = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
        graph = _C.Graph.parse(STATES)
        gm = fx.to_graph_module(graph)
        check_against(graph, states_eager, inputs)
        check_against(gm, states_eager, inputs)
        same(gm(*inputs), states_eager(*inputs))
        gm.graph.eliminate_dead_code()
        gm.recompile()
        same(gm(*inputs), states_eager(*inputs))

    def test_lists_holes_and_in_place(self):
        text = """graph "g" (%x: float32[4, 2]) {
          state 0 grad
          [%a, %b] = aten::split.Tensor(%x, 2)
          %values, %index = aten::max.dim(%b, 0)
          _, %only = aten::min.dim(%b, 0)
          %c = aten::cat([%a, %b], 1)
          %c = aten::add_.Tensor(%c, number(1))
          %d = aten::index.Tensor(%c, [None, %only])
          return (%d, %c, %values, %index)
        }"""

        def eager(x):
            a, b = x.split(2)
            values, index = b.max(0)
            c = torch.cat([a, b], 1)
            c += 1
            return c[:, b.min(0)[1]], c, values, index

        graph = _C.Graph.parse(text)
        inputs = (torch.randn(4, 2),)
        check_against(graph, eager, inputs)
        gm = fx.to_graph_module(graph)
        gm.graph.eliminate_dead_code()
        gm.recompile()
        check_against(gm, eager, inputs)

    def test_constants_are_fresh_in_each_call(self):
        tracer = _C.Tracer("constant")
        fake = tracer.constant(torch.tensor([1.0, 2.0]))
        graph = tracer.finish([fake])
        for module in (fx.to_graph_module(graph), graph, fx.lazy_graph_module(graph)):
            module()[0].add_(100)
            assert module()[0].tolist() == [1.0, 2.0]

    @pytest.mark.parametrize("text, eager, inputs", [(MLP, mlp_eager, mlp_inputs), (STATES, states_eager, None)])
    @pytest.mark.parametrize("how", ["pickle", "deepcopy", "pickle of deepcopy"])
    def test_copies(self, text, eager, inputs, how):
        given = inputs() if inputs else (torch.randn(4, 4), torch.randn(4, 4, requires_grad=True))
        gm = fx.to_graph_module(_C.Graph.parse(text))
        other = copy.deepcopy(gm) if "deepcopy" in how else gm
        other = pickle.loads(pickle.dumps(other)) if "pickle" in how else other
        assert other is not gm and isinstance(other, ExportedGraphModule)
        check_against(other, eager, given)
        assert other.graph_name == gm.graph_name and other.code == gm.code
        assert [n.meta.get("stack_trace") for n in other.graph.nodes] == [
            n.meta.get("stack_trace") for n in gm.graph.nodes
        ]

    def test_changes_survive_pickling(self):
        gm = fx.to_graph_module(_C.Graph.parse(MLP))
        for node in gm.graph.nodes:
            if node.target is aten.relu.default:
                node.target = aten.tanh.default
        gm.recompile()
        inputs = mlp_inputs()
        same(pickle.loads(pickle.dumps(gm))(*inputs), gm(*inputs))
        assert "tanh" in pickle.loads(pickle.dumps(gm)).code


def is_lazy(module):
    return type(module) is fx.LazyGraphModule


class TestLazy:
    def test_calls_do_not_build_fx(self):
        lazy = fx.lazy_graph_module(_C.Graph.parse(MLP))
        assert isinstance(lazy, torch.fx.GraphModule) and isinstance(lazy, torch.nn.Module)
        check_against(lazy, mlp_eager, mlp_inputs())
        check_against(lazy.forward, mlp_eager, mlp_inputs())
        assert isinstance(lazy.forward, _C.Graph)
        assert lazy.graph_name == "mlp" and callable(lazy)
        assert is_lazy(lazy)

    @pytest.mark.parametrize(
        "look",
        [
            lambda gm: gm.graph,
            lambda gm: gm.code,
            lambda gm: gm.training,
            lambda gm: gm.meta,
            lambda gm: list(gm.parameters()),
            lambda gm: gm.state_dict(),
            lambda gm: gm.print_readable(print_output=False),
            lambda gm: gm.recompile(),
            lambda gm: gm.eval(),
            lambda gm: gm.to("cpu"),
            lambda gm: str(gm),
            lambda gm: repr(gm),
            lambda gm: dir(gm),
            lambda gm: gm.named_modules(),
            lambda gm: setattr(gm, "note", 3),
            lambda gm: gm.register_forward_hook(lambda *_: None),
            lambda gm: pickle.dumps(gm),
            lambda gm: copy.deepcopy(gm),
        ],
    )
    def test_a_look_inside_makes_it_real(self, look):
        lazy = fx.lazy_graph_module(_C.Graph.parse(MLP))
        look(lazy)
        assert not is_lazy(lazy) and isinstance(lazy, ExportedGraphModule)
        assert lazy.graph.owning_module is lazy
        assert lazy.graph_name == "mlp"
        check_against(lazy, mlp_eager, mlp_inputs())

    def test_missing_attributes(self):
        lazy = fx.lazy_graph_module(_C.Graph.parse(MLP))
        with pytest.raises(AttributeError):
            lazy.nothing_like_it  # noqa: B018
        assert not hasattr(fx.lazy_graph_module(_C.Graph.parse(MLP)), "__nothing__")

    def test_edits_of_the_graph_count(self):
        lazy = fx.lazy_graph_module(_C.Graph.parse(MLP))
        for node in lazy.graph.nodes:
            if node.target is aten.relu.default:
                node.target = aten.tanh.default
        lazy.recompile()
        x, w, b = mlp_inputs()
        same(lazy(x, w, b), (torch.tanh(torch.nn.functional.linear(x, w, b)) * 0.5, x))

    def test_looking_into_one_leaves_others_alone(self):
        one, other = (fx.lazy_graph_module(_C.Graph.parse(MLP)) for _ in range(2))
        one.recompile()
        assert is_lazy(other) and isinstance(other.forward, _C.Graph)
        check_against(other, mlp_eager, mlp_inputs())
        assert is_lazy(other)

    def test_hooks_run(self):
        lazy = fx.lazy_graph_module(_C.Graph.parse(MLP))
        seen = []
        lazy.register_forward_hook(lambda *_: seen.append(1))
        lazy(*mlp_inputs())
        assert seen == [1]

    def test_copies_and_pickles(self):
        for copied in (
            copy.copy(fx.lazy_graph_module(_C.Graph.parse(MLP))),
            copy.deepcopy(fx.lazy_graph_module(_C.Graph.parse(MLP))),
            pickle.loads(pickle.dumps(fx.lazy_graph_module(_C.Graph.parse(MLP)))),
        ):
            check_against(copied, mlp_eager, mlp_inputs())


class TestImport:
    @pytest.mark.parametrize(
        "text, inputs",
        [(MLP, mlp_inputs), (STATES, lambda: (torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)))],
    )
    def test_there_and_back(self, text, inputs):
        graph = _C.Graph.parse(text)
        given = inputs()
        imported = fx.from_graph_module(fx.to_graph_module(graph), given)
        assert not imported.attributes
        assert [n[:2] for n in imported.graph.nodes()] == [n[:2] for n in graph.nodes()]
        check_against(imported, graph, given)
        states = [(s[0], s[1], s[2]) for s in graph.states()]
        again = [(s[0], s[1], s[2]) for s in imported.graph.states()]
        assert [again[n[5]] for n in imported.graph.nodes()] == [states[n[5]] for n in graph.nodes()]

    def test_symbolically_traced_module(self):
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = torch.nn.Linear(3, 4)
                self.register_buffer("scale", torch.tensor([2.0]))

            def forward(self, x):
                y = self.fc(x).relu()
                a, b = torch.split(y, 2, dim=1)
                return torch.cat([b, a], 1) * self.scale + 1

        net = Net()
        x = torch.randn(5, 3)
        imported = fx.from_graph_module(torch.fx.symbolic_trace(net), [x])
        assert set(imported.attributes) == {"fc.weight", "fc.bias", "scale"}
        (out,) = imported(x)
        assert torch.equal(out, net(x))
        got = torch.autograd.grad(out.sum(), net.parameters())
        same(got, torch.autograd.grad(net(x).sum(), net.parameters()))

    def test_literals_become_constants(self):
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        literal = graph.call_function(torch.tensor, ([1.0, 2.0],))
        graph.output(graph.call_function(torch.add, (x, literal)))
        gm = torch.fx.GraphModule(torch.nn.Module(), graph)
        x = torch.ones(2)
        assert fx.from_graph_module(gm, [x])(x)[0].tolist() == [2.0, 3.0]

    def test_errors_leave_no_trace(self):
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        graph.call_function(torch._C._set_grad_enabled, (False,))
        graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, True))
        graph.output(graph.call_method("item", (x,)))
        gm = torch.fx.GraphModule(torch.nn.Module(), graph)
        with pytest.raises(RuntimeError, match="cannot be traced"):
            fx.from_graph_module(gm, [torch.ones(())])
        with pytest.raises(ValueError, match="no example input"):
            fx.from_graph_module(gm, [])


def test_constants_above_the_largest_int64():
    def fn(x):
        return torch.full((2,), 2**63 + 5, dtype=torch.uint64), x + 1

    check_parity(fn, (torch.ones(2),), (torch.zeros(2),), backend=lambda gm, inputs: torch.fx.Interpreter(gm).run)
