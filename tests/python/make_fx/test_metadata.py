"""What nodes remember: lines, modules, annotations, values in the caller's mode, symbols."""

import gc
import logging

import pytest
import torch
import torch.fx.traceback as fx_traceback
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv, is_symbolic  # noqa: F401

import stator
from tests.python.make_fx.helpers import calls, node

MODES = ["real", "fake", "symbolic"]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).sin()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Block()
        self.b = Block()

    def forward(self, x):
        return self.b(self.a(self.a(x)))


# ---- lines and modules


@pytest.mark.parametrize("mode", MODES)
def test_lines_of_the_program(x, mode):
    module = stator.make_fx(Block(), tracing_mode=mode, record_stack_traces=True, _allow_non_fake_inputs=True)(x)
    trace = node(module, "sin").meta["stack_trace"]
    assert trace.rstrip().endswith("return self.linear(x).sin()")
    assert "torch/nn" not in trace and "stator/tracing" not in trace
    assert all("stack_trace" not in n.meta for n in module.graph.nodes if n.op in ("placeholder", "output"))
    plain = stator.make_fx(Block(), tracing_mode=mode, _allow_non_fake_inputs=True)(x)
    assert all("stack_trace" not in n.meta for n in plain.graph.nodes)


def test_lines_of_a_backward_pass(x):
    def gradient(a):
        a = a.detach().requires_grad_()
        loss = a.sin().sum()
        return torch.autograd.grad(loss, a)[0]

    module = stator.make_fx(gradient, record_stack_traces=True)(x)
    assert "a.sin().sum()" in node(module, "sin").meta["stack_trace"]
    assert "autograd.grad" in node(module, "cos").meta["stack_trace"]


def test_modules_that_run(x):
    net = Net()
    module = stator.make_fx(net, record_module_stack=True)(x)
    stacks = [n.meta["nn_module_stack"] for n in module.graph.nodes if n.name.startswith("addmm")]
    assert [list(stack) for stack in stacks] == [
        ["", "a", "a.linear"],
        ["", "a@1", "a.linear@1"],
        ["", "b", "b.linear"],
    ]
    path, name = stacks[1]["a@1"]
    assert path == "a" and name.endswith("test_metadata.Block")
    assert node(module, "addmm").meta["torch_fn"][0] == "linear_1"
    assert node(module, "addmm_1").meta["torch_fn"][0] == "linear_2"
    assert all("nn_module_stack" not in n.meta for n in module.graph.nodes if n.op in ("placeholder", "output"))
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_modules_of_a_function_without_one(x):
    module = stator.make_fx(lambda a: a.sin(), record_module_stack=True)(x)
    assert "nn_module_stack" not in node(module, "sin").meta


def test_modules_after_an_error(x):
    class Fails(Block):
        def forward(self, x):
            self.linear(x)
            raise ZeroDivisionError

    net = torch.nn.Sequential(Block(), Fails())
    with pytest.raises(ZeroDivisionError):
        stator.make_fx(net, record_module_stack=True)(x)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    assert torch._C._len_torch_function_stack() == 0


def test_annotations(x):
    def program(a):
        with fx_traceback.annotate({"tag": 1}):
            a = a.sin()
        return a.cos()

    with fx_traceback.preserve_node_meta():
        module = stator.make_fx(program)(x)
    assert node(module, "sin").meta["custom"] == {"tag": 1}
    assert not node(module, "cos").meta.get("custom")
    assert all("seq_nr" in n.meta for n in module.graph.nodes if n.op == "call_function")


def test_numbers_tie_forward_and_backward(x):
    def gradient(a):
        a = a.detach().requires_grad_()
        return torch.autograd.grad(a.sin().sum(), a)[0]

    with fx_traceback.preserve_node_meta():
        module = stator.make_fx(gradient)(x)
    assert node(module, "sin").meta["seq_nr"] == node(module, "cos").meta["seq_nr"]


# ---- FakeTensors as inputs


@pytest.mark.parametrize("is_active", [False, True])
def test_fake_tensors_as_inputs(x, is_active):
    mode = FakeTensorMode()
    a, b = mode.from_tensor(x), mode.from_tensor(x)
    traced = stator.make_fx(lambda a, b: (a @ b.t()).sum())
    if is_active:
        with mode:
            module = traced(a, b)
    else:
        module = traced(a, b)
    assert calls(module) == ["t.default", "mm.default", "sum.default"]
    assert all(n.meta["val"].fake_mode is mode for n in module.graph.nodes if n.op != "output")
    assert torch.allclose(module(x, x), (x @ x.t()).sum())


def test_symbolic_fake_tensors_as_inputs(x):
    mode = FakeTensorMode(shape_env=ShapeEnv())
    a = mode.from_tensor(x)

    def program(a):
        return a.view(-1) * 2 if a.shape[0] > 2 else a

    module = stator.make_fx(program, tracing_mode="symbolic")(a)
    assert node(module, "a_1").meta["val"].fake_mode is mode
    assert node(module, "a_1").meta["val"].shape[1].node.expr == a.shape[1].node.expr
    assert node(module, "mul").meta["val"].shape[0].node.expr == (a.shape[0] * a.shape[1]).node.expr
    assert module.shape_env is mode.shape_env
    other = torch.randn(5, 2)
    assert torch.equal(module(other), program(other))


def test_views_among_fake_tensors(x):
    mode = FakeTensorMode()
    base = mode.from_tensor(x)

    def program(a, row):
        row.add_(1)
        return a * 2

    module = stator.make_fx(program)(base, base[0])
    assert calls(module) == ["add_.Tensor", "mul.Tensor"]
    given = x.clone()
    assert torch.equal(
        module(given, given[0]),
        program(x.clone(), x.clone()[0]) + torch.zeros(3, 1).index_fill(0, torch.tensor([0]), 2.0),
    )


def test_fake_tensors_of_two_modes(x):
    with pytest.raises(AssertionError, match="inputs 0 and 1"):
        stator.make_fx(torch.add)(FakeTensorMode().from_tensor(x), FakeTensorMode().from_tensor(x))


def test_a_gradient_on_fake_tensors(x):
    mode = FakeTensorMode()
    a = mode.from_tensor(x.requires_grad_())

    def program(a):
        return torch.autograd.grad(a.sin().sum(), a)[0]

    assert torch.allclose(stator.make_fx(program)(a)(x), x.cos())


# ---- symbols


def test_environment_of_the_symbols(x):
    module = stator.make_fx(lambda a: a.sin() if a.shape[0] == 3 else a, tracing_mode="symbolic")(x)
    assert len(module.shape_env.guards) == 1
    assert "Eq(" in str(module.shape_env.guards[0].expr)
    assert node(module, "a_1").meta["val"].shape[0] == 3
    assert module.shape_env is module.shape_env
    for mode in ("real", "fake"):
        assert stator.make_fx(torch.sin, tracing_mode=mode)(x).shape_env is None


def test_an_environment_without_guards(x):
    module = stator.make_fx(torch.sin, tracing_mode="symbolic")(x)
    assert module.shape_env.guards == []
    assert node(module, "sin").meta["val"].fake_mode.shape_env is module.shape_env


def test_nodes_that_bind_symbols(x):
    module = stator.make_fx(lambda a: (a[a > 0].sin(), a.sum().item()), tracing_mode="symbolic")(x)
    bound = {n.name: n.meta["unbacked_bindings"] for n in module.graph.nodes if "unbacked_bindings" in n.meta}
    assert set(bound) == {"index", "_local_scalar_dense"}
    ((symbol, path),) = bound["index"].items()
    assert symbol == node(module, "index").meta["val"].shape[0].node.expr
    assert pytree_get(node(module, "index").meta["val"], path) == node(module, "index").meta["val"].shape[0]
    ((_, path),) = bound["_local_scalar_dense"].items()
    assert path == ()


def test_a_result_among_several_binds_a_symbol(x):
    module = stator.make_fx(lambda a: torch.unique(a, return_counts=True), tracing_mode="fake")(x)
    (found,) = [n for n in module.graph.nodes if "unbacked_bindings" in n.meta]
    ((_, path),) = found.meta["unbacked_bindings"].items()
    assert path[0].idx == 0 and found.target is torch.ops.aten._unique2.default


def pytree_get(value, path):
    for key in path:
        value = key.get(value)
    return value


def test_values_of_symbolic_numbers(x):
    module = stator.make_fx(lambda a: a.new_zeros(a.shape[0] + 1), tracing_mode="symbolic")(x)
    assert isinstance(node(module, "sym_size_int").meta["val"], torch.SymInt)
    assert isinstance(node(module, "add").meta["val"], torch.SymInt)


# ---- failures


def test_the_graph_before_a_read_of_data(x):
    with pytest.raises(RuntimeError) as raised:
        stator.make_fx(lambda a: a.sin().sum().item())(x)
    assert "sin" in raised.value.partial_fx_graph and "f32[3, 4]" in raised.value.partial_fx_graph


def test_the_graph_before_an_error_is_logged(x, caplog):
    def program(a):
        return a.sin() * (1 // 0)

    with caplog.at_level(logging.DEBUG, logger="stator.make_fx"), pytest.raises(ZeroDivisionError):
        stator.make_fx(program)(x)
    assert "sin.default" in caplog.text and "f32[3, 4]" in caplog.text
    caplog.clear()
    with pytest.raises(ZeroDivisionError):
        stator.make_fx(program)(x)
    assert not caplog.text


def test_nothing_is_kept_after_an_error(x):
    import weakref

    seen = []

    def program(a):
        b = a.sin()
        seen.append(weakref.ref(b))
        raise ZeroDivisionError

    for options in ({}, {"record_stack_traces": True}, {"record_module_stack": True}):
        try:
            stator.make_fx(program, **options)(x)
        except ZeroDivisionError:
            pass
    gc.collect()
    assert [ref() for ref in seen] == [None, None, None]
    assert stator.tracing.current_tracer() is None


# ---- casts, storages


def marked(module):
    return [n.name for n in module.graph.nodes if n.meta.get("low_precision_pointwise_barrier")]


@pytest.mark.parametrize("mode", MODES)
def test_casts_that_a_compiler_emulates_are_marked(x, mode):
    import torch._inductor.config as config

    def program(a):
        return (a.to(torch.bfloat16) + 1).float() * 2

    table = {torch.ops.aten.silu.default: lambda t: t * t.sigmoid()}
    with config.patch(emulate_precision_casts=True):
        module = stator.make_fx(program, tracing_mode=mode)(x)
        decomposed = stator.make_fx(lambda a: torch.nn.functional.silu(a), table, tracing_mode=mode)(x.half())
    assert marked(module) == ["_to_copy", "add", "_to_copy_1"]
    assert marked(decomposed) == ["mul"]
    assert marked(stator.make_fx(program, tracing_mode=mode)(x)) == []


@pytest.mark.parametrize("mode", MODES)
def test_values_of_nodes_share_storages(x, mode):
    module = stator.make_fx(lambda a: (a.t(), a.view(-1)[2:], a + 1), tracing_mode=mode)(x)
    given, transposed, view, part, added = (n.meta["val"] for n in module.graph.nodes if n.op != "output")
    storages = [v.untyped_storage()._cdata for v in (transposed, view, part, added)]
    assert [s == given.untyped_storage()._cdata for s in storages] == [True, True, True, False]
    assert part.storage_offset() == 2
