"""The scenarios of torch's own tests of make_fx (`test/test_proxy_tensor.py`), as tests of ours; the table in
docs/make_fx_scenarios.md says which test here shows which."""

import contextlib
import operator
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import bind_symbols, eval_guards

import stator
from stator.tracing import get_isolated_graph_module
from tests.python.make_fx.helpers import calls, node

MODES = ["real", "fake", "symbolic"]
aten = torch.ops.aten


def check(program, inputs, mode, others=None):
    """The graph does what the program does, on other values too. Gives the module."""
    module = stator.make_fx(program, tracing_mode=mode, _allow_non_fake_inputs=True)(*inputs)
    for given in [inputs] if others is None else others:
        torch.testing.assert_close(module(*given), program(*given), equal_nan=True)
    return module


def symbolic(program, *inputs):
    return stator.make_fx(program, tracing_mode="symbolic")(*inputs)


def dynamic(program, shapes, others):
    """Traced at some shapes, right at others."""
    module = symbolic(program, *[torch.randn(shape) for shape in shapes])
    for other in others:
        given = [torch.randn(shape) for shape in other]
        torch.testing.assert_close(module(*given), program(*given))
    return module


# ---- each mode


@pytest.mark.parametrize("mode", MODES)
def test_a_scalar_tensor_and_a_vector(mode):
    check(torch.add, [torch.randn(3), torch.tensor(5)], mode)


@pytest.mark.parametrize("mode", MODES)
def test_any_number_of_arguments(mode):
    check(lambda *tensors: sum(tensors), [torch.randn(2), torch.randn(2)], mode)


def test_composites_above_autograd():
    module = stator.make_fx(lambda a: torch.matmul(a, torch.ones(4, 4)), pre_dispatch=True)(torch.ones(4, 4))
    assert calls(module) == ["ones.default", "matmul.default"]


class Logging(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("with_mode", [False, True])
def test_isolated_traces_three_deep(with_mode):
    found = {}

    def innermost():
        value = torch.tensor(1.0)
        value.add_(2)
        return torch.full((4, 4), value).sum()

    def middle(x):
        with Logging() if with_mode else contextlib.nullcontext():
            found["innermost"] = get_isolated_graph_module(innermost, (), {})
        return torch.sigmoid(x)

    def outer(x):
        with Logging() if with_mode else contextlib.nullcontext():
            found["middle"] = get_isolated_graph_module(middle, (x,), {})
        return torch.digamma(x)

    module = stator.make_fx(outer)(torch.randn(3))
    assert "sum.default" in calls(found["innermost"])
    assert calls(found["middle"]) == ["sigmoid.default"]
    assert calls(module) == ["digamma.default"]


def test_calling_the_result_of_an_inner_trace_is_recorded():
    def program(x):
        inner = stator.make_fx(torch.sigmoid)(x)
        return torch.digamma(inner(x))

    assert calls(stator.make_fx(program)(torch.randn(3))) == ["sigmoid.default", "digamma.default"]


def test_defaults_of_factories_are_not_burned_in():
    module = stator.make_fx(torch.empty_like)(torch.randn(3))
    (made,) = [n for n in module.graph.nodes if n.op == "call_function"]
    assert not {"dtype", "device", "layout"} & made.kwargs.keys()


@pytest.mark.parametrize("mode", MODES)
def test_factories_in_a_decomposition_are_recorded(mode):
    def program(x):
        y = x.new_zeros(x.size())
        y.copy_(x)
        return y

    def new_zeros(t, size, dtype=None, layout=None, device=None, pin_memory=None):
        return torch.zeros(size, dtype=t.dtype, device=t.device)

    module = stator.make_fx(program, {aten.new_zeros.default: new_zeros}, mode)(torch.ones(2))
    assert [name for name in calls(module) if not name.startswith("sym_size")] == ["zeros.default", "copy_.default"]


@pytest.mark.parametrize("mode", MODES)
def test_a_decomposition_that_calls_composites(mode):
    def norm(x, p=2.0):
        return torch.sqrt(torch.sum(torch.square(x)))

    module = stator.make_fx(lambda x: aten.norm.Scalar(x, 2.0), {aten.norm.Scalar: norm}, mode)(torch.rand(3))
    assert calls(module) == ["pow.Tensor_Scalar", "sum.default", "sqrt.default"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["grad", "backward"])
def test_gradients_of_an_input(mode, how):
    def program(x):
        loss = x.cos().cos().sum()
        if how == "grad":
            return torch.autograd.grad(loss, x)
        x.grad = None
        loss.backward()
        return x.grad

    x = torch.randn(3, requires_grad=True)
    module = stator.make_fx(program, tracing_mode=mode)(x)
    given = torch.randn(3, requires_grad=True)
    wanted = program(given)
    torch.testing.assert_close(module(given.detach().requires_grad_()), wanted)


@pytest.mark.parametrize("mode", MODES)
def test_an_input_can_be_pickled_after_a_trace(mode):
    x = torch.randn(2)
    stator.make_fx(lambda a: a * 2, tracing_mode=mode)(x)
    assert torch.equal(pickle.loads(pickle.dumps(x)), x)


@pytest.mark.parametrize("mode", MODES)
def test_metadata_that_is_changed_in_place(mode):
    def program(x):
        y = x.clone()
        y.unsqueeze_(0)
        assert y.shape[0] == 1
        return y

    module = check(program, [torch.randn(3)], mode)
    shapes = [tuple(n.meta["val"].shape) for n in module.graph.nodes if "val" in n.meta]
    assert [len(shape) for shape in shapes] == [1, 1, 2]


@pytest.mark.parametrize("mode", MODES)
def test_random_factories_are_nodes(mode):
    assert "randn.default" in calls(
        stator.make_fx(lambda x: x + torch.randn(x.shape), tracing_mode=mode)(torch.ones(3))
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_constant_as_a_number(mode):
    module = check(lambda: torch.full((5, 5), torch.tensor(float("inf"))), [], mode)
    assert "full.default" in calls(module)


@pytest.mark.parametrize("mode", MODES)
def test_a_constant_that_is_written_to(mode):
    def program():
        value = torch.tensor(1.0)
        value.add_(2)
        return torch.full((5, 5), value)

    module = check(program, [], mode)
    assert torch.equal(module(), module())


@pytest.mark.parametrize("mode", MODES)
def test_a_constant_that_is_unbound(mode):
    def program():
        (value,) = torch.unbind(torch.tensor([2]), 0)
        return value.item()

    assert stator.make_fx(program, tracing_mode=mode)()() == 2


@pytest.mark.parametrize("mode", MODES)
def test_comparisons_of_data_are_errors(mode):
    with pytest.raises(RuntimeError, match="aten::(allclose|equal|_local_scalar_dense)|data"):
        stator.make_fx(torch.allclose, tracing_mode=mode)(torch.zeros(3), torch.zeros(3))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", ["blowup", "random"])
def test_values_that_are_not_followed(mode, case):
    def program():
        value = torch.tensor([2.0])
        if case == "blowup":
            return bool(value.repeat(1000).sum().item() == 2)
        value.normal_()
        return bool(value.item() == 2.1)

    with pytest.raises(RuntimeError, match="data"):
        stator.make_fx(program, tracing_mode=mode)()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(5, 5)

    def forward(self, x):
        return self.linear(x).relu()


@pytest.mark.parametrize("mode", MODES)
def test_training_with_a_functional_call(mode):
    model = Model()

    def program(x, parameters):
        for p in parameters.values():
            p.grad = None
        torch.func.functional_call(model, parameters, (x,)).sum().backward()
        return [p - 1e-2 * p.grad for p in parameters.values()]

    x, parameters = torch.randn(3, 5), dict(model.named_parameters())
    module = stator.make_fx(program, tracing_mode=mode)(x, parameters)
    torch.testing.assert_close(module(x + 1, parameters), program(x + 1, parameters))


def test_a_module_that_is_used_twice():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.LayerNorm(6)

        def forward(self, x):
            return self.norm(self.norm(x))

    module = stator.make_fx(Twice())(torch.randn(2, 6))
    assert set(calls(module)) == {"native_layer_norm.default", "getitem"}
    assert len(module.state_dict()) == 2


class Unwraps(torch.Tensor):
    """Computes a cosine when it is used."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, tensor):
        made = torch.Tensor._make_wrapper_subclass(cls, tensor.size(), dtype=tensor.dtype, device=tensor.device)
        made.inner = tensor
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = torch.utils._pytree.tree_map(lambda t: t.inner.cos() if isinstance(t, Unwraps) else t, args)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", MODES)
def test_subclasses_that_the_function_makes(mode):
    check(lambda x: Unwraps(x) * 2, [torch.randn(5)], mode)
    check(lambda x: x * Unwraps(x), [torch.randn(5)], mode)


def test_a_decomposition_for_some_calls():
    def program(a, b, c):
        return torch.addmm(a, b, c) + torch.addmm(a, b, c, beta=2, alpha=1)

    def addmm(a, b, c, beta=1, alpha=1):
        return NotImplemented if beta == 1 and alpha == 1 else beta * a + alpha * (b @ c)

    inputs = [torch.randn(5, 5) for _ in range(3)]
    module = stator.make_fx(program, {aten.addmm.default: addmm})(*inputs)
    assert calls(module).count("addmm.default") == 1
    torch.testing.assert_close(module(*inputs), program(*inputs))


def test_a_decomposition_of_a_captured_tensor():
    value = torch.randn(5)
    module = stator.make_fx(lambda x: x.t() + value.t(), {aten.t.default: lambda x: x.cos()})(torch.randn(5))
    assert calls(module) == ["cos.default", "cos.default", "add.Tensor"]


@pytest.mark.parametrize("mode", MODES)
def test_strides_that_the_program_asks_for(mode):
    def program(x):
        assert x.is_contiguous() and not x.is_contiguous(memory_format=torch.channels_last)
        y = x.permute(0, 3, 1, 2)
        assert not y.is_contiguous() and y.is_contiguous(memory_format=torch.channels_last)
        assert not x[:, 1].is_contiguous() and not x[:, ::2].is_contiguous()
        return y

    check(program, [torch.randn(2, 3, 4, 5)], mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_loss_with_a_class_that_counts_for_nothing(mode):
    check(
        lambda a, b: aten.nll_loss_forward(a, b, None, 1, 10),
        [torch.randn(1, 10), torch.zeros(1, dtype=torch.long)],
        mode,
    )


@pytest.mark.parametrize("mode", MODES)
def test_casts_of_a_second_trace_are_not_from_a_cache(mode):
    layer = torch.nn.Conv2d(3, 3, 3)
    inputs = (torch.randn(4, 3, 10, 10), layer.weight)
    with torch.autocast("cpu", torch.bfloat16):
        first, second = [stator.make_fx(F.conv2d, tracing_mode=mode)(*inputs) for _ in range(2)]
    assert calls(first) == calls(second) and calls(first).count("_to_copy.default") == 2


# ---- fakes


def test_a_parameter_from_outside_is_an_error():
    x = torch.nn.Parameter(torch.randn(3, 3))
    with pytest.raises(AssertionError, match="_allow_non_fake_inputs"):
        stator.make_fx(lambda: aten.t.default(x), tracing_mode="fake")()


def test_a_constant_of_the_function_is_no_tensor_from_outside():
    check(lambda x, y: x + y + torch.tensor([2.0, 3.0]), [torch.randn(2), torch.randn(2)], "fake")


def test_a_fused_optimizer_has_values():
    def tensors():
        return [torch.randn(4, 4) for _ in range(3)]

    def step(params, grads, first, second, most, steps):
        made = aten._fused_adam.default(
            params, grads, first, second, most, steps,
            lr=0.1, beta1=0.9, beta2=0.999, weight_decay=0.01, eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip
        for param, new in zip(params, made[0], strict=True):
            param.copy_(new)
        return params

    steps = [torch.tensor(0.0) for _ in range(3)]
    module = stator.make_fx(step, tracing_mode="fake")(tensors(), tensors(), tensors(), tensors(), tensors(), steps)
    assert all("val" in n.meta for n in module.graph.nodes if n.target in (aten._fused_adam.default, operator.getitem))


def test_an_alias_is_one_node():
    assert calls(stator.make_fx(aten.alias, tracing_mode="fake")(torch.randn(2))) == ["alias.default"]


def test_every_node_has_a_value():
    def program(x):
        return torch.var_mean(x.cos(), dim=0)[0] * 2

    module = stator.make_fx(program, tracing_mode="fake")(torch.randn(5, 5))
    assert all("val" in n.meta for n in module.graph.nodes if n.op != "output")


# ---- symbols


def test_a_resize_to_a_symbol():
    module = symbolic(lambda x, y: x.resize_(y.size(0)), torch.empty(0), torch.empty(2))
    assert calls(module) == ["sym_size.int", "resize_.default"]
    assert module(torch.empty(0), torch.empty(7)).shape == (7,)


def test_guards_can_be_asked():
    def program(x):
        assert x.shape[0] < 20
        return x.cos()

    module = dynamic(program, [(3, 4)], [[(2, 5)], [(6, 8)]])
    assert eval_guards(module, torch.randn(4, 5)) and not eval_guards(module, torch.randn(25, 5))
    assert sorted(bind_symbols(module, torch.randn(4, 5)).values()) == [4, 5]


def test_programs_without_guards():
    tokens = torch.randint(1, 64, (4, 64))

    def generate(tokens):
        batch, length = tokens.size()
        made = torch.zeros(batch, length + 64).to(tokens).long().fill_(0)
        made[:, :length] = tokens.repeat_interleave(1, 0)
        return made

    module = symbolic(lambda t, n: t.repeat_interleave(n.size(0), 0), tokens, torch.randn(5))
    assert module.shape_env.guards == []
    module = symbolic(generate, tokens)
    assert module.shape_env.guards == []
    other = torch.randint(1, 64, (3, 10))
    assert torch.equal(module(other), generate(other))
    module = dynamic(torch.mul, [(1, 2), (3, 1)], [[(1, 5), (3, 1)], [(1, 4), (4, 1)]])
    assert module.shape_env.guards == []


SIZES = {
    "product": lambda a: torch.empty(a.shape[0] * 2),
    "negative": lambda a: torch.empty(-a.shape[0] + 10),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_factories(name):
    module = symbolic(SIZES[name], torch.empty(4))
    for count in (2, 5):
        assert module(torch.empty(count)).shape == SIZES[name](torch.empty(count)).shape


def test_an_item_as_an_operand_and_as_a_size():
    module = symbolic(lambda a: a.item() * a, torch.randn(1))
    assert calls(module) == ["_local_scalar_dense.default", "mul.Tensor"]

    def program(a):
        n = a.item()
        torch._check(n >= 2)
        return torch.empty(n)

    module = symbolic(program, torch.tensor([3]))
    assert module(torch.tensor([4])).shape == (4,)


def test_masked_rows():
    def negate(gravity, mask):
        gravity[mask, 0] = gravity[mask, 0] * -1

    module = symbolic(negate, torch.randn(12, 4), torch.rand(12) > 0.5)
    mine, mask = torch.randn(7, 4), torch.rand(7) > 0.3
    wanted = mine.clone()
    module(mine, mask)
    negate(wanted, mask)
    torch.testing.assert_close(mine, wanted)


def test_slices_of_rows_whose_number_depends_on_data():
    module = symbolic(lambda x, m: x[m][:, :, :2], torch.randn(12, 3, 3), torch.rand(12) > 0.5)
    x, m = torch.randn(5, 3, 3), torch.tensor([True, False, True, True, False])
    assert torch.equal(module(x, m), x[m][:, :, :2])


OPEN = {
    "products around masked rows": lambda x, m: torch.eye(3) @ x[m] @ torch.eye(3),
    "two masks of one size": lambda x, m: x[m][x[m][:, 0, 0] > 0],
    "normalised rows": lambda x, m: F.batch_norm(x[m], torch.zeros(3), torch.ones(3)),
}


@pytest.mark.parametrize("name", OPEN)
def test_what_numbers_of_rows_that_depend_on_data_do_not_take_yet(name):
    """An error, not another graph."""
    x, m = torch.randn(12, 3, 3), torch.rand(12) > 0.5
    try:
        module = symbolic(OPEN[name], x, m)
    except RuntimeError as error:
        assert "depends on data" in str(error)
        return
    other = torch.rand(12) > 0.2
    torch.testing.assert_close(module(x, other), OPEN[name](x, other))


def test_numbers_of_rows_before_and_after_a_write():
    def program(a):
        b = a.clone()
        x, y = b.nonzero(), b.nonzero()
        b.normal_()
        return x.shape[0] - y.shape[0], b.nonzero()

    with pytest.raises(RuntimeError, match="depends on data"):
        symbolic(lambda a: a.sin() if a.nonzero().shape[0] == a.normal_().nonzero().shape[0] else a, torch.randn(4))
    assert symbolic(program, torch.randn(4))(torch.randn(6))[0] == 0


@pytest.mark.parametrize(
    "program",
    [lambda a: a / a.size(-1) ** 0.5, lambda a: a / a.shape[0], lambda a: a.size(0) + a],
    ids=["root", "divided", "added"],
)
def test_numbers_as_operands(program):
    dynamic(program, [(4,)], [[(5,)], [(9,)]])


def test_a_guard_on_a_product():
    def program(a, b):
        out = torch.cat([a * b, a * b])
        return out.cos() if out.shape[0] * out.shape[1] > 20 else out

    module = dynamic(program, [(1, 6), (8, 1)], [[(1, 5), (6, 1)], [(1, 4), (3, 1)]])
    assert eval_guards(module, torch.randn(1, 10), torch.randn(6, 1))
    assert not eval_guards(module, torch.randn(1, 2), torch.randn(4, 1))


def test_new_empty_and_expand():
    module = symbolic(lambda a, b: a.new_empty(b.shape[0], b.shape[1] * 2), torch.randn(2, 3), torch.randn(4, 5))
    assert module(torch.randn(3, 7), torch.randn(9, 3)).shape == (9, 6)
    dynamic(lambda a: torch.mul(a, a).expand(a.shape), [(3,)], [[(3,)], [(4,)], [(2,)]])
    dynamic(lambda a: torch.mul(a, a).expand(a.shape), [(5, 1)], [[(4, 1)], [(3, 1)], [(6, 1)]])


def test_a_size_out_of_a_tensor():
    def program(a):
        most = torch.tensor([800, 1216])
        return a.new_empty([2, *a.shape[:-2], *most])

    with pytest.raises(RuntimeError, match="data"):
        stator.make_fx(program)(torch.randn(3, 8, 9))


def test_values_share_expressions():
    module = symbolic(lambda a, b: a.new_empty(a.shape[0] + b.shape[0]), torch.randn(5), torch.randn(4))
    added = next(n for n in module.graph.nodes if n.target is operator.add)
    assert node(module, "new_empty").meta["val"].shape[0].node.expr == added.meta["val"].node.expr


@pytest.mark.parametrize(
    ("offset", "as_float", "dtype"), [(2.0, False, torch.float32), (2, False, torch.int64), (2, True, torch.float32)]
)
def test_a_sum_of_numbers_as_a_tensor(offset, as_float, dtype):
    def program(x, offset, as_float):
        size = torch.sym_float(x.size(0)) if as_float else x.size(0)
        return torch.add(size, offset)

    module = symbolic(program, torch.rand(2, 3), offset, as_float)
    value = next(n for n in module.graph.nodes if n.target is aten.add.Tensor).meta["val"]
    assert value.shape == () and value.dtype is dtype
    assert module(torch.rand(5, 3), offset, as_float) == program(torch.rand(5, 3), offset, as_float)


def test_numbers_as_results():
    dynamic(lambda x: (x.shape[0], x.cos(), x.shape[0] / 5), [(5,)], [[(4,)], [(12,)]])
    module = symbolic(lambda x: x.shape, torch.randn(5, 3))
    assert tuple(module(torch.randn(4, 6))) == (4, 6)


def test_a_guard_over_two_inputs():
    def program(a, b):
        assert a.shape[0] == b.shape[0] * 2
        return a.cos()

    module = symbolic(program, torch.randn(16), torch.randn(8))
    assert eval_guards(module, torch.randn(6), torch.randn(3))
    assert not eval_guards(module, torch.randn(6), torch.randn(4))


def test_ranges_of_guards():
    module = symbolic(lambda a: a.cos() if a.shape[0] > 5 and a.shape[0] > 12 else a, torch.randn(15))
    assert [eval_guards(module, torch.randn(n)) for n in (5, 12, 13, 40)] == [False, False, True, True]
    module = symbolic(lambda a: a.cos() if a.shape[0] < 20 and a.shape[0] < 30 else a, torch.randn(15))
    assert [eval_guards(module, torch.randn(n)) for n in (13, 19, 20, 40)] == [True, True, False, False]
    module = symbolic(lambda a: a.cos() if a.shape[0] == 10 else a, torch.randn(10))
    assert node(module, "a_1").meta["val"].shape[0] == 10


def test_views_with_an_offset():
    module = symbolic(torch.add, torch.randn(8)[3:], torch.randn(5))
    given = torch.randn(8)[3:], torch.randn(5)
    assert torch.equal(module(*given), torch.add(*given))


def test_sizes_that_must_be_equal():
    """Sizes that are equal now have one symbol, which is a guard."""
    module = symbolic(torch.mul, torch.randn(5, 6), torch.randn(5, 6))
    assert eval_guards(module, torch.randn(3, 4), torch.randn(3, 4))
    assert not eval_guards(module, torch.randn(3, 4), torch.randn(2, 4))

    def chain(*tensors):
        made = tensors[0]
        for a, b in zip(tensors, tensors[1:]):
            made = torch.cat([made, a]) + b
        return made

    sizes = (2, 4, 8, 16)
    module = symbolic(chain, *[torch.randn(n) for n in sizes])
    assert eval_guards(module, *[torch.randn(3 * n) for n in sizes])
    given = [torch.randn(3 * n) for n in sizes]
    assert torch.equal(module(*given), chain(*given))


def test_a_view_of_a_size_of_another_input():
    dynamic(lambda a, b: a.view(b.shape[0]) + b.sum(), [(4, 2), (8, 5)], [[(3, 2), (6, 4)]])
