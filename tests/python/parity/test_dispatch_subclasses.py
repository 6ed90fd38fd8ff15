"""Classes with a `__torch_dispatch__`: operators on their instances are interpreted, and captured in one graph."""

import copy

import pytest
import torch
import torch.utils._pytree as pytree
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

import stator
from tests.python.helpers import Counting, assert_same, captures

aten = torch.ops.aten
seen = []


class Scaled(torch.Tensor):
    """`inner * scale`. Products and sums with numbers stay scaled, views too; all else is computed on plain tensors."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner, scale, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=torch.float32,
            device=inner.device,
            requires_grad=requires_grad,
        )

    def __init__(self, inner, scale, requires_grad=False):
        self.inner = inner
        self.scale = scale

    def dequantize(self):
        return self.inner.to(torch.float32) * self.scale

    def __tensor_flatten__(self):
        return ["inner"], self.scale

    @staticmethod
    def __tensor_unflatten__(inner_tensors, scale, outer_size, outer_stride):
        return Scaled(inner_tensors["inner"], scale)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        kwargs = kwargs or {}
        if func is aten.mul.Tensor and isinstance(args[1], (int, float)):
            return cls(args[0].inner, args[0].scale * args[1])
        if func in (aten.t.default, aten.view.default, aten.transpose.int):
            return cls(func(args[0].inner, *args[1:], **kwargs), args[0].scale)
        if func is aten.detach.default:
            return cls(args[0].inner.detach(), args[0].scale)
        if func is aten.zero_.default:
            args[0].inner.zero_()
            return args[0]
        if func is aten.mul_.Tensor:
            args[0].scale = args[0].scale * args[1]
            return args[0]
        if func is aten.addmm.default and isinstance(args[2], cls):
            return torch.mm(args[1], args[2].inner.to(torch.float32)) * args[2].scale + args[0]
        plain = pytree.tree_map_only(cls, lambda x: x.dequantize(), (args, kwargs))
        return func(*plain[0], **plain[1])


class Other(Scaled):
    pass


class Counted(Scaled):
    """Each operator on it is seen."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        seen.append((func.__name__, [t.__name__ for t in types], len(args), sorted(kwargs or {})))
        return super().__torch_dispatch__(func, types, args, kwargs)


class Quantized(torch.Tensor):
    """Overrides `linear` above autograd, and some operators below it, by a table of functions."""

    table = {}

    @staticmethod
    def __new__(cls, data, scale, shape):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=scale.dtype, device=data.device)

    def __init__(self, data, scale, shape):
        self.data_, self.scale = data, scale

    def dequantize(self):
        return (self.data_.to(self.dtype) * self.scale).view(self.shape)

    def mapped(self, fn):
        return type(self)(fn(self.data_), fn(self.scale), self.shape)

    @classmethod
    def implements(cls, *functions):
        return lambda made: cls.table.update(dict.fromkeys(functions, made))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in cls.table:
            return cls.table[func](func, args, kwargs or {})
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs):
        if func in cls.table:
            return cls.table[func](func, args, kwargs)
        raise NotImplementedError(f"{cls.__name__} has no {func}")


@Quantized.implements(nn.functional.linear)
def _(func, args, kwargs):
    x, weight, bias = args
    return nn.functional.linear(x, weight.dequantize(), bias)


@Quantized.implements(aten.mm.default)
def _(func, args, kwargs):
    return func(*(x.dequantize() if isinstance(x, Quantized) else x for x in args))


@Quantized.implements(aten.detach.default, aten.clone.default)
def _(func, args, kwargs):
    return args[0].mapped(lambda x: func(x, **kwargs))


class Aliasing(Scaled):
    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        out = func(*pytree.tree_map_only(cls, lambda x: x.inner, args), **(kwargs or {}))
        out = pytree.tree_map_only(torch.Tensor, lambda x: cls(x, args[0].scale), out)
        return return_and_correct_aliasing(func, args, kwargs or {}, out)


def parts(value):
    """What a test compares of a result: for an instance with a `__torch_dispatch__`, its class, metadata and parts."""
    if not isinstance(value, (Scaled, TwoTensor)):
        return value
    names, context = value.__tensor_flatten__()
    metadata = (tuple(value.shape), value.stride(), value.storage_offset(), value.dtype, value.requires_grad)
    own = {k: v for k, v in vars(value).items() if k not in names}
    return type(value).__name__, metadata, context, {n: parts(getattr(value, n)) for n in names}, own


def compared(value):
    return pytree.tree_map(parts, value)


def scaled(*size, scale=0.5, cls=Scaled, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return cls(torch.randint(-50, 50, size, dtype=torch.int8, generator=generator), scale)


def check(fn, *calls, graphs=1, **settings):
    """Compares each call with eager: results, arguments afterwards, operators seen. All calls share one capture."""
    settings.setdefault("fullgraph", True)
    compiled = stator.compile(fn, **settings)
    for args in calls * 2:
        mine, theirs = copied(args), copied(args)
        seen.clear()
        expected, operators = compared(fn(*theirs)), list(seen)
        assert_same(compared(compiled(*mine)), expected)
        assert_same(compared(mine), compared(theirs))
    if graphs is not None:
        assert captures() == graphs, stator.counters()
    return operators


def copied(args):
    """Copies of arguments, which share what the arguments share."""
    known = {}

    def copy_of(value):
        if isinstance(value, Scaled):
            made = type(value)(copy_of(value.inner), value.scale, value.requires_grad)
        elif isinstance(value, TwoTensor):
            made = TwoTensor(copy_of(value.a), copy_of(value.b))
        elif isinstance(value, torch.Tensor):
            made = value.detach().clone().requires_grad_(value.requires_grad)
        else:
            return copy.deepcopy(value)
        return known.setdefault(id(value), made)

    return pytree.tree_map(lambda value: known.get(id(value), None) or copy_of(value), args)


def test_a_plain_result():
    check(lambda w, x: w + x, (scaled(2, 3), torch.randn(2, 3)), (scaled(2, 3, seed=1), torch.randn(2, 3)))


def test_an_instance_as_result():
    def fn(w):
        return w * 2.0, w.inner + 1

    check(fn, (scaled(2, 3),), (scaled(2, 3, seed=1),))


def test_an_instance_that_is_given_back():
    w = scaled(2, 3)
    assert stator.compile(lambda w: (w, w.inner), fullgraph=True)(w) == (w, w.inner)


def test_metadata_and_attributes():
    def fn(w, x):
        if w.dim() == 2 and w.dtype == torch.float32 and not w.requires_grad and w.shape[0] == 2:
            return w.inner + 1, w.scale * x, w.shape, w.device, isinstance(w, Scaled), type(w) is Scaled
        return x

    check(fn, (scaled(2, 3), torch.randn(2)), (scaled(2, 3, seed=1), torch.randn(2)))


def test_instances_that_the_program_makes():
    def fn(x):
        made = Scaled(x.to(torch.int8), 0.25)
        other = made * 2
        return made + x, other, other.scale, made.dequantize()

    check(fn, (torch.randn(3, 2) * 10,), (torch.randn(3, 2) * 10,))


def test_an_instance_is_one_object():
    def fn(x):
        made = Scaled(x.to(torch.int8), 0.25)
        return [made, made, {"again": made}]

    result = stator.compile(fn, fullgraph=True)(torch.ones(2))
    assert result[0] is result[1] is result[2]["again"] and type(result[0]) is Scaled


def test_attributes_that_are_set_later():
    def fn(x):
        made = Scaled(x.to(torch.int8), 0.25)
        made.scale = 3.0
        made.note = "set"
        made.inner = made.inner + 1
        return made

    check(fn, (torch.ones(2),), (torch.zeros(2),))


def test_an_attribute_of_an_argument_is_set():
    def fn(w, x):
        w.scale = 3.0
        return w + x

    check(fn, (scaled(2), torch.ones(2)), (scaled(2), torch.zeros(2)))


def test_operators_seen_are_those_of_eager():
    def fn(w, x):
        return nn.functional.linear(x, w), w * 2, torch.relu(w), torch.stack([w, x])

    args = (scaled(2, 2, cls=Counted), torch.randn(2, 2))
    names = check(fn, args)
    compiled = stator.compile(fn)
    seen.clear()
    compiled(*args)
    assert seen == names and len(names) == 5


def test_a_composite_operator():
    def fn(w, x, bias):
        return nn.functional.linear(x, w, bias), x @ w.t(), torch.matmul(x, w.t())

    check(
        fn, (scaled(4, 3), torch.randn(2, 3), torch.randn(4)), (scaled(4, 3, seed=2), torch.ones(2, 3), torch.ones(4))
    )


def test_writes():
    def fn(w, x):
        w.zero_()
        w.mul_(2)
        return w + x, w.scale

    check(fn, (scaled(2), torch.ones(2)), (scaled(2), torch.zeros(2)))


def test_a_written_instance_is_given_back():
    w = scaled(2)
    result = stator.compile(lambda w: w.mul_(2), fullgraph=True)(w)
    assert result is w and w.scale == 1.0


def test_two_classes():
    def fn(w, v):
        return w + v, v + w

    calls = [(scaled(2), scaled(2, cls=Counted)), (scaled(2, seed=3), scaled(2, cls=Counted, seed=4))]
    assert check(fn, *calls) == [("add.Tensor", ["Counted", "Scaled"], 2, [])] * 2


def test_two_tensors():
    def fn(w, x):
        return w + x, w * w, w.sum(), torch.relu(w).t() @ w

    calls = [(TwoTensor(torch.randn(2, 2), torch.randn(2, 2)), torch.randn(2, 2)) for _ in range(2)]
    check(fn, *calls)


def test_nested_instances():
    def fn(w):
        return w * w

    check(fn, (TwoTensor(TwoTensor(torch.randn(2), torch.randn(2)), TwoTensor(torch.randn(2), torch.randn(2))),))


def test_composite_operators_inside_of_the_method():
    """Autograd sees no operator there, so the inner class gets the composite ones."""

    inner = scaled(2, 2, cls=Counted)

    def fn(x, w):
        return torch.mul(x, w)

    class Weighted(Scaled):
        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs=None):
            return nn.functional.linear(args[0], args[1].inner)

    outer = Weighted(inner, 1)
    operators = check(fn, (torch.randn(2, 2), outer))
    compiled = stator.compile(fn)
    seen.clear()
    compiled(torch.randn(2, 2), outer)
    assert seen == operators and [name for name, *_ in seen] == ["linear.default"]


def test_return_and_correct_aliasing():
    def fn(w):
        w.add_(1)
        return w.sum(), w.t().sum(), w + 1

    check(fn, (scaled(2, 3, cls=Aliasing),))


def shown(view, base):
    """What autograd and the storage tell of a view."""
    return view._is_view(), view._base is base, view._version, view.untyped_storage()._cdata == storage_of(base)


def storage_of(tensor):
    return tensor.untyped_storage()._cdata


@pytest.mark.parametrize("cls", [Scaled, Aliasing])
def test_views_are_views(cls):
    def fn(w, x):
        y = x + 1
        return w.t(), y, w.view(-1), w.inner.sum()

    w, x = scaled(2, 3, cls=cls), torch.ones(2)
    compiled = stator.compile(fn, fullgraph=True)
    for _ in range(2):
        actual, expected = compiled(w, x), fn(w, x)
        assert_same(compared(actual), compared(expected))
        for i in (0, 2):
            assert type(actual[i]) is cls
            assert shown(actual[i], w) == shown(expected[i], w)
            assert shown(actual[i].inner, w.inner) == shown(expected[i].inner, w.inner)
    assert captures() == 1


def test_views_of_views_and_of_made_instances():
    def fn(w, x):
        first = w.t()
        made = Scaled(x.to(torch.int8), 2)
        return first.view(3, 2), first, made.t(), made, w.detach()

    w, x = TwoTensor(torch.ones(2, 3), torch.zeros(2, 3)), torch.ones(2, 2)
    compiled = stator.compile(fn, fullgraph=True)
    fn_results = [fn(w, x), compiled(w, x), compiled(w, x)]
    for results in fn_results[1:]:
        assert_same(compared(results), compared(fn_results[0]))
        for mine, theirs in zip(results, fn_results[0], strict=True):
            assert mine._is_view() == theirs._is_view() and mine._version == theirs._version
        assert results[0]._base is w and results[1]._base is w and results[2]._base is results[3]


def test_one_of_several_views():
    def fn(w, x):
        y = x + 1
        return w.unbind(0)[0], y

    w, x = TwoTensor(torch.ones(2, 3), torch.zeros(2, 3)), torch.ones(2)
    compiled = stator.compile(fn)
    for _ in range(2):
        actual, expected = compiled(w, x), fn(w, x)
        assert_same(compared(actual), compared(expected))
        assert actual[0]._base is w
    assert captures() > 0


def in_block(fn):
    def inside(*args):
        with torch.inference_mode():
            return fn(*args)

    return inside


@pytest.mark.parametrize("which", ["around", "inside"])
@pytest.mark.parametrize(
    "fn",
    [
        lambda w, x: w + x,
        lambda w, x: w * 2,
        lambda w, x: nn.functional.linear(x, w),
        lambda w, x: w.t(),
        lambda w, x: (x + 1, Scaled(x.to(torch.int8), 2)),
    ],
)
def test_inference_mode(fn, which):
    def result(fn):
        w, x = scaled(2, 2), torch.ones(2, 2)
        try:
            made = in_block(fn)(w, x)
        except RuntimeError as error:
            return str(error)
        return compared(made), [t.is_inference() for t in pytree.tree_leaves(made)]

    expected = result(fn)
    compiled = in_block(stator.compile(fn)) if which == "around" else stator.compile(in_block(fn))
    for _ in range(2):
        assert_same(result(compiled), expected)


def test_quantized_linear():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2, bias=False)

        def forward(self, x):
            return self.second(torch.relu(self.first(x)))

    def quantized(seed):
        torch.manual_seed(seed)
        model = Model()
        for layer, size in ((model.first, (8, 4)), (model.second, (2, 8))):
            layer.weight = nn.Parameter(scaled(*size, scale=0.01, seed=seed), requires_grad=False)
        return model.eval().requires_grad_(False)

    for seed in range(2):
        model = quantized(seed)
        assert type(model.first.weight) is Scaled
        for backend in (None, Counting(), "eager", "aot_eager"):
            compiled = stator.compile(model, fullgraph=True, **({"backend": backend} if backend else {}))
            for _ in range(2):
                x = torch.randn(3, 4)
                assert_same(compiled(x), model(x))


def test_both_overrides():
    def quantized(seed):
        generator = torch.Generator().manual_seed(seed)
        data = torch.randint(-99, 99, (3, 4), dtype=torch.int8, generator=generator)
        return Quantized(data, torch.rand(3, 1, generator=generator), torch.Size([3, 4]))

    layer = nn.Linear(4, 3)
    layer.weight = nn.Parameter(quantized(0), requires_grad=False)
    compiled = stator.compile(layer, fullgraph=True)
    for _ in range(2):
        x = torch.randn(2, 4, requires_grad=True)
        assert_same(compiled(x), layer(x))
        mine, theirs = ([*torch.autograd.grad(fn(x).square().sum(), [x, layer.bias])] for fn in (compiled, layer))
        assert_same(mine, theirs)
    assert captures() == 1

    def fn(x, w):
        return torch.mm(x, w), w.clone().dequantize(), type(w.clone()) is Quantized

    compiled = stator.compile(fn, fullgraph=True)
    for seed in range(2):
        x, w = torch.randn(4, 3), quantized(seed)
        assert_same(compiled(x, w), fn(x, w))
    with pytest.raises(NotImplementedError, match=r"has no aten\.sin"):
        stator.compile(torch.sin)(quantized(0))


def test_weights_that_require_grad_are_captured_without_grad_mode():
    layer = nn.Linear(3, 2)
    layer.weight = nn.Parameter(scaled(2, 3, scale=0.1))
    assert layer.weight.requires_grad
    compiled = stator.compile(layer, fullgraph=True)
    with torch.no_grad():
        x = torch.randn(2, 3)
        assert_same(compiled(x), layer(x))
    assert captures() == 1


@pytest.mark.parametrize("which", ["outer", "plain"])
def test_autograd_around_an_operator_is_a_break(which):
    def fn(w, x):
        y = x + 1
        return (w + y).sum()

    def gradients(fn):
        torch.manual_seed(0)
        w = TwoTensor(torch.randn(2), torch.randn(2)) if which == "plain" else None
        x = torch.randn(2, requires_grad=which == "plain")
        if w is None:
            w = TwoTensor(torch.randn(2, requires_grad=True), torch.randn(2, requires_grad=True))
        result = fn(w, x)
        if which == "plain":
            w2 = result.a if isinstance(result, TwoTensor) else result
            assert w2 is not None
        result.backward()
        return compared((result.detach(), x.grad, w.grad))

    expected = gradients(fn)
    compiled = stator.compile(fn)
    for _ in range(2):
        assert_same(gradients(compiled), expected)


def test_guards():
    def fn(w, x):
        return w + x

    compiled = stator.compile(fn, fullgraph=True)
    x = torch.ones(2)
    for step, w in enumerate(
        [
            scaled(2),
            scaled(2, cls=Other),
            scaled(2, scale=2.0),
            Scaled(torch.ones(2, dtype=torch.int16), 0.5),
            torch.ones(2),
        ],
        1,
    ):
        for _ in range(2):
            assert_same(compiled(w, x), fn(w, x))
        assert captures() == step
    assert_same(compiled(scaled(2, seed=9), x), fn(scaled(2, seed=9), x))
    assert captures() == 5


def test_the_class_changes():
    class Changing(Scaled):
        pass

    def fn(w):
        return w + 1

    compiled = stator.compile(fn, fullgraph=True)
    w = scaled(2, cls=Changing)
    assert_same(compiled(w), fn(w))
    Changing.__torch_dispatch__ = classmethod(lambda cls, func, types, args, kwargs=None: args[0].inner + 100)
    assert_same(compiled(w), fn(w))
    assert captures() == 2


def test_an_error_in_the_method():
    class Failing(Scaled):
        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs=None):
            raise ValueError(f"no {func.__name__}")

    def fn(w, x):
        try:
            return w + x
        except ValueError as error:
            return x * 2, str(error)

    w, x = scaled(2, cls=Failing), torch.ones(2)
    compiled = stator.compile(fn)
    for _ in range(2):
        assert_same(compiled(w, x), fn(w, x))
    for call in (lambda w: w + 1, stator.compile(lambda w: w + 1)):
        with pytest.raises(ValueError, match=r"no add\.Tensor"):
            call(w)
    assert torch._C._len_torch_dispatch_stack() == 0


def test_a_method_that_breaks(capsys):
    class Printing(Scaled):
        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs=None):
            print(float(args[0].inner.sum()))
            return super().__torch_dispatch__(func, types, args, kwargs)

    def fn(w, x):
        y = x * 3
        return w + y, y

    w, x = scaled(2, cls=Printing), torch.ones(2)
    compiled = stator.compile(fn)
    for _ in range(2):
        assert_same(compiled(w, x), fn(w, x))
    lines = capsys.readouterr().out.split()
    assert len(lines) == 4 and len(set(lines)) == 1
    assert captures() > 0


def test_autocast_does_not_reach_the_method():
    def fn(w, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return w @ x, x @ x

    w, x = scaled(2, 2), torch.randn(2, 2)
    compiled = stator.compile(fn)
    for _ in range(2):
        assert_same(compiled(w, x), fn(w, x))


class Doubling(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is aten.add.Tensor else result


def test_dispatch_modes():
    def inside(x, w):
        y = x + 1
        with Doubling():
            z = y + 1
        return z + w

    def around(x, w):
        return x + w

    x, w = torch.ones(2), scaled(2)
    first, second = stator.compile(inside), stator.compile(around)
    for _ in range(2):
        assert_same(first(x, w), inside(x, w))
        assert_same(second(x, w), around(x, w))
        with Doubling():
            assert_same(second(x, w), around(x, w))


def test_sizes_that_change():
    def fn(w, x):
        return w + x, w * 2

    compiled = stator.compile(fn)
    for size in (2, 3, 4, 5):
        w, x = scaled(size), torch.randn(size)
        assert_same(compared(compiled(w, x)), compared(fn(w, x)))
    assert captures() > 0


def test_a_method_that_calls_its_operator_again():
    class Endless(Scaled):
        left = [0]

        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs=None):
            if cls.left[0] == 0:
                return args[0].inner + 1
            cls.left[0] -= 1
            return func(*args, **(kwargs or {}))

    def fn(w, x):
        return w + x

    w, x = scaled(2, cls=Endless), torch.ones(2)
    compiled = stator.compile(fn)
    for count in (0, 3, 100):
        results = []
        for call in (fn, compiled, compiled):
            Endless.left[0] = count
            results.append((call(w, x), Endless.left[0]))
        assert_same(results[1:], results[:1] * 2)


def test_instances_that_share_what_is_inside():
    def fn(w, v):
        w.zero_()
        v.scale = 2.0
        return v + 1, w * 1

    def shared():
        w = scaled(2)
        return w, Scaled(w.inner, 3.0)

    def same():
        w = scaled(2)
        return w, w

    def apart():
        return scaled(2), scaled(2, seed=1)

    for order in ([apart, shared, same], [same, shared, apart], [shared, apart, same]):
        compiled = stator.compile(fn)
        for make in order * 2:
            mine, theirs = make(), make()
            assert_same(compared(compiled(*mine)), compared(fn(*theirs)))
            assert_same(compared(mine), compared(theirs))
    assert captures() > 0


@pytest.mark.parametrize("dynamic", [True, False])
def test_breaks_at_every_instruction(dynamic):
    def fn(w, x):
        made = Scaled(x.to(torch.int8), 0.5) * 2
        made.note = "set"
        view = w.t()
        w.mul_(2)
        y = nn.functional.linear(x, w) + made
        return y.relu(), made, view, w + 1

    def result(fn):
        w, x = scaled(2, 2), torch.ones(2, 2)
        made = fn(w, x)
        return compared((made, w)), made[2]._base is w, made[2]._is_view()

    expected = result(fn)
    for after in range(1, 60):
        stator.reset()
        with stator.config.patch(break_after=after):
            compiled = stator.compile(fn, dynamic=dynamic)
            for _ in range(2):
                assert_same(result(compiled), expected)


def test_a_view_of_what_the_method_gave():
    """Autograd does not know the inner view, so the next one is a view of it, and not of what it is a view of."""

    def fn(w, x):
        y = x + 1
        made = w.t()
        return made.inner.t(), made, y

    w, x = scaled(2, 3), torch.ones(2)
    compiled = stator.compile(fn)
    for _ in range(2):
        actual, expected = compiled(w, x), fn(w, x)
        assert_same(compared(actual), compared(expected))
        assert actual[0]._base is actual[1].inner and expected[0]._base is expected[1].inner
    assert captures() > 0


def test_a_plain_view_of_an_instance():
    class Opened(Scaled):
        @classmethod
        def __torch_dispatch__(cls, func, types, args, kwargs=None):
            return func(args[0].inner, *args[1:])

    def fn(w, x):
        y = x + 1
        return w.t(), w + 1, y

    w, x = scaled(2, 3, cls=Opened), torch.ones(2)
    compiled = stator.compile(fn)
    for _ in range(2):
        actual, expected = compiled(w, x), fn(w, x)
        assert_same(compared(actual), compared(expected))
        assert actual[0]._base is expected[0]._base is w
    assert captures() > 0


def test_the_default_dtype_of_the_moment():
    class Plain(Scaled):
        @staticmethod
        def __new__(cls, inner, scale, requires_grad=False):
            return torch.Tensor._make_wrapper_subclass(cls, inner.size())

    def fn(x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        made = Plain(x, 1.0)
        torch.set_default_dtype(before)
        return made, x + 1

    check(fn, (torch.ones(2),), (torch.zeros(2),))
