"""A failure leaves nothing behind, and nested traces."""

import gc

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import stator
from stator.tracing import current_tracer
from tests.python.make_fx.helpers import calls


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


def state():
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_cache_enabled(),
        str(torch._C._dispatch_tls_local_include_set()),
        str(torch._C._dispatch_tls_local_exclude_set()),
        torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(),
        torch._C._functorch.maybe_current_level(),
        stator._C._fake.take_poison(),
    )


class Fails(Exception):
    pass


class FailAt(TorchDispatchMode):
    def __init__(self, count):
        super().__init__()
        self.left = count

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.left -= 1
        if self.left < 0:
            raise Fails
        return func(*args, **(kwargs or {}))


def training_step(a):
    w = torch.ones(4, 2, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = (a @ w).float().sum()
    (g,) = torch.autograd.grad(loss, w)
    with torch.no_grad():
        w.sub_(g)
    return torch.func.vmap(torch.func.grad(lambda z: (z * z).sum()))(w.detach())


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_failing_at_each_operator(x, mode):
    before = state()
    failed = 0
    while True:

        def program(a, count=failed):
            with FailAt(failed):
                return training_step(a)

        try:
            stator.make_fx(program, tracing_mode=mode)(x, failed)
        except Fails:
            failed += 1
            gc.collect()
            assert state() == before
            assert calls(stator.make_fx(torch.sin, tracing_mode=mode)(x)) == ["sin.default"]
            continue
        break
    assert failed > 8
    assert state() == before


def test_an_exception_of_the_function_goes_on(x):
    before = state()
    with pytest.raises(ZeroDivisionError):
        stator.make_fx(lambda a: a.sin() * (1 // 0))(x)
    assert state() == before


def test_state_that_the_function_leaves_changed(x):
    def program(a):
        torch.set_grad_enabled(False)
        return a.sin()

    before = state()
    stator.make_fx(program)(x)
    assert state() == before


def test_a_nested_trace_does_not_show(x):
    def program(a):
        inner = stator.make_fx(torch.sin)(a)
        return inner(a) + 1

    for mode in ("real", "fake"):
        assert calls(stator.make_fx(program, tracing_mode=mode)(x)) == ["sin.default", "add.Tensor"]


def test_modes_of_the_program_inside_and_outside(x):
    class AddIsMul(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.add.Tensor:
                return torch.ops.aten.mul.Tensor(*args)
            return func(*args, **(kwargs or {}))

    def inside(a):
        with AddIsMul():
            return a + a

    assert calls(stator.make_fx(inside)(x)) == ["mul.Tensor"]
    with AddIsMul():
        assert calls(stator.make_fx(lambda a: a + a)(x)) == ["mul.Tensor"]


def test_intermediate_tensors_are_freed(x):
    import weakref

    seen = []

    def program(a):
        b = a.sin()
        seen.append(weakref.ref(b))
        c = b + 1
        del b
        gc.collect()
        seen.append(seen[0]() is None)
        return c

    stator.make_fx(program)(x)
    assert seen[1]


# ---- what the function keeps


class Keeps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.linear = torch.nn.Linear(4, 4)
        self.last = self.part = None

    def forward(self, a):
        self.total = self.total + a.sum(0)
        self.last = self.linear(a) * 2
        self.part = self.last[0]
        return a + self.total


def test_what_a_module_keeps_is_real_after_the_trace(x):
    module = Keeps()
    stator.make_fx(module)(x)
    assert torch.equal(module.total, x.sum(0)) and "tensor" in str(module.last)
    torch.testing.assert_close(module.last, module.linear(x) * 2)
    assert module.part.data_ptr() == module.last.data_ptr()
    module.last.sum().backward()
    torch.testing.assert_close(module.linear.weight.grad, (2 * x.sum(0)).expand(4, 4))
    with torch.no_grad():
        module(x)
    torch.testing.assert_close(module.total, 2 * x.sum(0))


def test_what_a_closure_keeps_is_real_after_the_trace(x):
    kept = []

    def program(a):
        kept.append(a)
        kept.append(a * 2)
        kept.append(kept[1].view(-1))
        kept[2].add_(1)
        return a

    module = stator.make_fx(program)(x)
    assert torch.equal(kept[0], x) and torch.equal(kept[1], x * 2 + 1) and torch.equal(kept[2], kept[1].view(-1))
    kept[2].zero_()
    assert not kept[1].any() and torch.equal(module(x), x)


def test_what_a_failed_trace_keeps_is_real(x):
    kept = []

    def program(a):
        kept.append(a * 2)
        raise Fails

    with pytest.raises(Fails):
        stator.make_fx(program)(x)
    assert torch.equal(kept[0], x * 2)


def test_intermediate_tensors_end_in_the_trace(x):
    seen = []

    def program(a):
        b = a * 2
        seen.append(torch._C._storage_Use_Count(current_tracer().tracer.real_of(b).untyped_storage()._cdata))
        real = current_tracer().tracer.real_of(b)
        del b
        seen.append(torch._C._storage_Use_Count(real.untyped_storage()._cdata))
        return a

    stator.make_fx(program)(x)
    assert seen[1] <= seen[0]


def test_a_fake_tensor_after_its_trace_says_so(x):
    kept = []
    stator.make_fx(lambda a: kept.append(a * 2) or a, tracing_mode="fake")(x)
    with pytest.raises(RuntimeError, match="trace that has ended"):
        kept[0] + torch.ones(3, 4)
    with pytest.raises(RuntimeError, match="trace that has ended"):
        str(kept[0])


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_function_of_another_compiler_is_refused(x, mode):
    compiled = torch.compile(lambda a: a.sin(), backend="eager")
    before = state()
    with pytest.raises(RuntimeError, match="torch.compile compiles"):
        stator.make_fx(lambda a: compiled(a * 2), tracing_mode=mode)(x)
    assert state() == before and torch.equal(compiled(x), x.sin())


@pytest.mark.parametrize("above", [False, True])
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_trace_inside_of_a_dispatch_mode(x, mode, above):
    """There, torch excludes the keys above Python's."""

    def program(a):
        return torch.nn.functional.linear(a, a).cos() + 1

    class Traces(TorchDispatchMode):
        module = None

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten.sin.default:
                self.module = stator.make_fx(program, tracing_mode=mode, pre_dispatch=above)(args[0])
            return func(*args, **(kwargs or {}))

    with Traces() as traces:
        x.sin()
    linear = ["linear.default"] if above else ["t.default", "mm.default"]
    assert calls(traces.module) == [*linear, "cos.default", "add.Tensor"]
    torch.testing.assert_close(traces.module(x + 1), program(x + 1))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_a_trace_after_a_guard_of_torch_outlived_an_error(x, mode):
    keys = torch._C.DispatchKeySet(torch._C._parse_dispatch_key("DeferredInit"))
    with torch._C._ExcludeDispatchKeyGuard(keys | torch._C.DispatchKeySet(torch._C._parse_dispatch_key("Fake"))):
        module = stator.make_fx(lambda a: a.sin() + 1, tracing_mode=mode)(x)
    assert calls(module) == ["sin.default", "add.Tensor"]
