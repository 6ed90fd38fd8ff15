"""What a graph consists of: names, results, numbers, dead code, values of nodes."""

import threading

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import ShapeEnv

import stator
from stator.tracing import current_tracer, keep_first_values
from tests.python.make_fx.helpers import calls, names, node

MODES = ["real", "fake", "symbolic"]
aten = torch.ops.aten


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


def test_names_overloads_and_order(x):
    module = stator.make_fx(lambda a: (a + 1).add(2).add_(3).sum().max())(x)
    assert names(module, "call_function") == ["add", "add_1", "add_", "sum_1", "max_1"]
    (added,) = [n for n in stator.make_fx(lambda a: torch.add(a, a, alpha=2))(x).graph.nodes if n.name == "add"]
    assert added.target is aten.add.Tensor and dict(added.kwargs) == {"alpha": 2}
    assert calls(stator.make_fx(lambda a: (a.sin(), a)[1])(x)) == ["sin.default"]


@pytest.mark.parametrize("mode", MODES)
def test_each_result_has_a_node_and_the_whole_a_value(x, mode):
    module = stator.make_fx(lambda a: F.layer_norm(a, (4,)), tracing_mode=mode)(x)
    assert calls(module) == ["native_layer_norm.default", "getitem", "getitem", "getitem"]
    value = node(module, "native_layer_norm").meta["val"]
    assert [tuple(part.shape)[-1] for part in value] == [4, 1, 1]
    module = stator.make_fx(lambda a: torch.unbind(a)[1], tracing_mode="fake")(x)
    assert calls(module) == ["unbind.int", "getitem", "getitem", "getitem"]
    assert [tuple(part.shape) for part in node(module, "unbind").meta["val"]] == [(4,)] * 3


def test_values_of_a_trace_are_its_own(x):
    seen, other = [], torch.ones(2)

    def inner(b):
        seen.append([current_tracer().tracer.has(b), current_tracer().tracer.has(x)])
        return b.sin()

    def outer(a):
        outside = current_tracer().tracer

        def nested(b):
            seen.append(outside.has(b))
            return inner(b)

        stator.make_fx(nested)(other)
        return a.cos()

    assert calls(stator.make_fx(outer)(x)) == ["cos.default"]
    assert seen == [False, [True, False]]
    assert current_tracer() is None


def test_writes_that_hang_off_the_first_value(x):
    def program(a, b, c):
        with keep_first_values():
            a.copy_(b)
            a.copy_(c)
        return a

    module = stator.make_fx(program)(x.clone(), x, x + 1)
    assert [n.args for n in module.graph.nodes if n.op == "call_function"] == [
        (node(module, "a_1"), node(module, "b_1")),
        (node(module, "a_1"), node(module, "c_1")),
    ]
    assert module(x.clone(), x + 2, x + 3).equal(x + 3)


def test_a_symbol_of_another_environment(x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    foreign = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.randn(5)).shape[0]
    assert isinstance(foreign, torch.SymInt)
    with pytest.raises(RuntimeError, match="cannot be traced: aten::new_zeros"):
        stator.make_fx(lambda a: a.new_zeros(foreign), tracing_mode="symbolic")(x)


def test_questions_about_sizes(x):
    assert tuple(stator.make_fx(aten.size.default)(x)(x)) == (3, 4)
    assert calls(stator.make_fx(aten.size.default)(x)) == []
    module = stator.make_fx(lambda a: tuple(a.size()), tracing_mode="symbolic")(x)
    assert calls(module) == ["sym_size.int", "sym_size.int"]
    assert module(torch.ones(5, 6)) == (5, 6)
    module = stator.make_fx(aten.size.default, tracing_mode="symbolic")(x)
    assert calls(module) == ["sym_size.int", "sym_size.int"]
    assert list(module(torch.ones(5, 6))) == [5, 6]
    module = stator.make_fx(lambda a: a.numel(), tracing_mode="symbolic")(x)
    assert module(torch.ones(5, 6)) == 30


def test_an_input_and_a_size_that_are_one_number(x):
    module = stator.make_fx(lambda a, n: a.new_zeros(n + a.shape[0]), tracing_mode="symbolic")(x, 3)
    assert module(x, 3).shape == (6,)
    module = stator.make_fx(lambda a, n: a.new_zeros(n + a.shape[0]), tracing_mode="symbolic")(x, 5)
    assert "sym_size.int" in calls(module)
    assert module(torch.ones(7, 2), 9).shape == (16,)


@pytest.mark.parametrize("mode", MODES)
def test_the_truth_of_tensors(x, mode):
    with pytest.raises(RuntimeError, match="ambiguous|more than one value"):
        stator.make_fx(lambda a: a if a else -a, tracing_mode=mode)(x)
    module = stator.make_fx(lambda a: a + 1 if torch.is_nonzero(torch.tensor(1)) else a, tracing_mode=mode)(x)
    assert calls(module)[-1] == "add.Tensor" and "_local_scalar_dense.default" not in calls(module)


def test_numbers_that_nothing_uses(x):
    def program(a):
        a.shape[0] + 1
        a.sum().item()
        return a.sin()

    assert calls(stator.make_fx(program, tracing_mode="symbolic")(x)) == [
        "sum.default",
        "_local_scalar_dense.default",
        "sin.default",
    ]


def test_values_of_operands_that_need_exact_strides(x):
    with torch.library._scoped_library("make_fx_strides", "FRAGMENT") as lib:
        lib.define("both(Tensor a, Tensor b, int n) -> Tensor", tags=(torch.Tag.needs_exact_strides,))
        lib.impl("both", lambda a, b, n: a + b, "CPU")
        torch.library.register_fake("make_fx_strides::both", lambda a, b, n: torch.empty_like(a), lib=lib)
        module = stator.make_fx(lambda a, b: torch.ops.make_fx_strides.both(a.t(), b.t(), 2), tracing_mode="fake")(x, x)
        args, kwargs = node(module, "both").meta["eager_input_vals"]
        assert [(tuple(a.shape), a.stride()) for a in args[:2]] == [((4, 3), (1, 4))] * 2
        assert args[2] is None and kwargs == {}
        assert "eager_input_vals" not in node(module, "t").meta


# ---- checks of the program


def test_a_check_on_data_is_in_the_graph():
    def program(a):
        n = a.item()
        torch._check(n >= 2, lambda: "too small")
        return torch.zeros(n)

    for mode in ("fake", "symbolic"):
        module = stator.make_fx(program, tracing_mode=mode)(torch.tensor(3))
        assert "_assert_scalar.default" in calls(module)
        assert module(torch.tensor(5)).shape == (5,)
        with pytest.raises(RuntimeError):
            module(torch.tensor(1))


def test_a_check_in_a_branch():
    def long(a):
        n = a.nonzero().shape[0]
        torch._check(n < 100)
        return a.sum() + n

    def program(a):
        return torch.cond(a.sum() > 0, long, lambda t: t.sum(), (a,))

    module = stator.make_fx(program, tracing_mode="symbolic")(torch.ones(3))
    assert "_assert_scalar.default" in calls(module.true_graph_0)
    assert "_assert_scalar.default" not in calls(module)
    assert module(torch.ones(50)) == 100
    with pytest.raises(RuntimeError):
        module(torch.ones(200))


# ---- other threads


@pytest.mark.parametrize("mode", MODES)
def test_an_operator_in_another_thread(x, mode):
    errors = []

    def program(a):
        def work():
            try:
                a.add_(1)
            except RuntimeError as error:
                errors.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return a * 2

    with pytest.raises(RuntimeError, match="another thread"):
        stator.make_fx(program, tracing_mode=mode)(x.clone())
    assert "does not trace" in errors[0]
    assert calls(stator.make_fx(torch.sin, tracing_mode=mode)(x)) == ["sin.default"]


def test_other_tensors_in_another_thread(x):
    found = []

    def program(a):
        thread = threading.Thread(target=lambda: found.append(stator.make_fx(torch.cos)(torch.ones(2))))
        thread.start()
        thread.join()
        return a.sin()

    assert calls(stator.make_fx(program)(x)) == ["sin.default"]
    assert calls(found[0]) == ["cos.default"]


# ---- data that the program replaces


@pytest.mark.parametrize("mode", MODES)
def test_data_that_is_replaced(x, mode):
    def program(a):
        b, c = a.clone(), a * 2
        b.data = c
        b.add_(1)
        return b, c

    module = stator.make_fx(program, tracing_mode=mode)(x)
    for found, wanted in zip(module(x + 1), program(x + 1), strict=True):
        assert torch.equal(found, wanted)

    def shorter(a):
        b = a.sin()
        b.data = a.new_ones(2)
        return b * 2

    module = stator.make_fx(shorter, tracing_mode=mode)(x)
    assert torch.equal(module(x), shorter(x))


def test_data_of_an_input_that_is_replaced(x):
    def program(a):
        a.data = a.data * 2
        return a + 1

    with pytest.raises(RuntimeError, match="replaces the data"):
        stator.make_fx(program, tracing_mode="fake")(x.clone())
