"""__torch_function__ of subclasses, of other classes and of modes: captured, in torch's own order, and guarded."""

import pytest
import torch
from torch import nn
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode, handle_torch_function, has_torch_function_unary

import stator
from tests.python.helpers import assert_same, captures, check_parity

log = []


def name(func):
    return getattr(func, "__name__", "?")


class Tagged(torch.Tensor):
    pass


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        log.append((cls.__name__, name(func), tuple(t.__name__ for t in types), len(args), sorted(kwargs or {})))
        return super().__torch_function__(func, types, args, kwargs or {})


class Derived(Logged):
    pass


class Sibling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        log.append(("Sibling", name(func), tuple(t.__name__ for t in types)))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {})).as_subclass(torch.Tensor)


class Silent(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Rich(torch.Tensor):
    """Defines methods, a property, operators and attributes."""

    scale = 3

    @property
    def doubled(self):
        return self * 2

    def scaled(self, by):
        return self * by * self.scale

    def __matmul__(self, other):
        return "matmul", other

    def __len__(self):
        return 7

    def __getitem__(self, key):
        return super().__getitem__(key) + 100

    def __getattr__(self, name):
        if name == "imagined":
            return self + 5
        raise AttributeError(name)


class Physical:
    """Not a tensor."""

    def __init__(self, x, unit):
        self.x, self.unit = x, unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        log.append((name(func), [t.__name__ for t in types]))
        plain = [a.x if isinstance(a, cls) else a for a in args]
        unit = "".join(a.unit for a in args if isinstance(a, cls))
        return cls(func(*plain, **(kwargs or {})), unit)


class Noting(TorchFunctionMode):
    def __init__(self, title):
        self.title = title

    def __torch_function__(self, func, types, args=(), kwargs=None):
        log.append((self.title, name(func), tuple(t.__name__ for t in types), kwargs and sorted(kwargs)))
        return func(*args, **(kwargs or {}))


class Halving(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result / 2 if func is torch.mul or func is torch.Tensor.mul else result


class Declining(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


def t(cls, *values):
    return torch.tensor(values).as_subclass(cls)


def logged(fn, *args):
    """The result of a call, and the log."""
    log.clear()
    return fn(*args), list(log)


def same_calls(fn, compiled, *calls):
    for _ in range(2):
        for args in calls:
            expected, seen = logged(fn, *args)
            actual, mine = logged(compiled, *args)
            assert mine == seen
            assert_same(actual, expected)
            assert torch._C._len_torch_function_stack() == 0


def check_one_graph(fn, *calls):
    """Captured in one graph, with the same log in the same order, over several calls."""
    same_calls(fn, stator.compile(fn, fullgraph=True), *calls)


def test_subclass_stays():
    def fn(x, y):
        return x + 1, torch.relu(x), x * y, y * x, torch.stack([y, x]), x.max(dim=0), x.shape, x.view(-1).split(1)

    check_one_graph(fn, (t(Tagged, 1.0, -2.0), torch.ones(2)), (t(Tagged, 3.0, -2.0), torch.zeros(2)))


def test_calls_are_seen():
    def fn(x, y):
        z = x.add(y, alpha=2) - 1
        z = 2 - z
        z += y
        return z.sum(), torch.add(y, other=x), z.shape, z.dtype, len(z), z[0], -z, z > 0, z.T

    check_one_graph(fn, (t(Logged, 1.0, -2.0), torch.ones(2)))


def test_python_functions_of_torch():
    def fn(x, w):
        y = torch.nn.functional.linear(x, w)
        return torch.nn.functional.gelu(y), torch.einsum("ij->ji", x), torch.nn.functional.dropout(x, 0.0), x.norm()

    check_one_graph(fn, (torch.randn(2, 3).as_subclass(Logged), torch.randn(4, 3)))


def test_precedence():
    def fn(a, b, c):
        return a + b, b + a, torch.cat([a, b]), a * c, torch.where(a > 0, c, b)

    check_one_graph(
        fn, (t(Logged, 1.0), t(Derived, 2.0), torch.ones(1)), (t(Derived, 1.0), t(Logged, 2.0), torch.ones(1))
    )


def test_siblings_from_left_to_right():
    def fn(a, b):
        return torch.add(a, b), torch.add(b, a)

    check_one_graph(fn, (t(Sibling, 1.0), t(Logged, 2.0)))


def test_overrides_that_return_not_implemented():
    check_parity(lambda a: torch.sin(a * 2).as_subclass(Declining) + 1, (torch.ones(2),))


def test_disabled_implementation():
    check_one_graph(lambda x: (x + 1, x.sum(), x.shape), (t(Silent, 1.0, 2.0),))


def test_what_a_subclass_defines():
    def fn(x):
        return x.doubled, x.scaled(2), x @ 3, len(x), x[0], x.scale, x.imagined, hasattr(x, "nothing")

    check_one_graph(fn, (t(Rich, 1.0, 2.0),), (t(Rich, 5.0, 2.0),))


def test_subclass_made_in_the_program():
    def fn(x):
        y = x * 2
        made = y.as_subclass(Logged)
        made.label = "made"
        made.mul_(3)
        return made, y, made.label, made + 1, x.as_subclass(Tagged)

    check_one_graph(fn, (torch.ones(3),), (torch.zeros(3),))


def test_each_call_makes_a_new_object():
    def fn(x):
        return x.as_subclass(Tagged)

    compiled = stator.compile(fn, fullgraph=True)
    x = torch.ones(3)
    first, second = compiled(x), compiled(x)
    assert type(x) is torch.Tensor and type(first) is type(second) is Tagged
    assert first is not second and first._base is x and first.data_ptr() == x.data_ptr()


def test_gradients_through_a_subclass():
    def fn(x, w):
        y = (x.as_subclass(Tagged) * w).sum()
        (g,) = torch.autograd.grad(y, w)
        return y, g

    calls = (torch.ones(3), torch.full((3,), 2.0, requires_grad=True))
    expected = fn(*calls)
    actual = stator.compile(fn)(*calls)
    assert_same(actual, expected)


def test_attributes():
    def fn(x):
        x.label = x.label + "!"
        return x * 2, x.label

    def again():
        x = t(Tagged, 1.0)
        x.label = "a"
        return x

    compiled = stator.compile(fn, fullgraph=True)
    for _ in range(2):
        mine, theirs = again(), again()
        assert_same(compiled(mine), fn(theirs))
        assert mine.label == theirs.label == "a!"


def test_other_class():
    def fn(p, x):
        return torch.add(p, x), torch.mul(p, p), x + p, torch.stack([p.x, x])

    compiled = stator.compile(fn, fullgraph=True)
    for value in (1.0, 2.0):
        p, x = Physical(torch.tensor([value]), "m"), torch.ones(1)
        expected, seen = logged(fn, p, x)
        actual, mine = logged(compiled, p, x)
        assert mine == seen
        assert_same(actual[3], expected[3])
        for a, e in zip(actual[:3], expected[:3], strict=True):
            assert a.unit == e.unit
            assert_same(a.x, e.x)


def test_class_is_guarded():
    class Changing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    def fn(x):
        return x + 1

    compiled = stator.compile(fn, fullgraph=True)
    x = t(Changing, 1.0)
    assert_same(compiled(x), fn(x))
    Changing.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: "changed")
    assert compiled(x) == fn(x) == "changed"
    assert_same(compiled(t(Tagged, 1.0)), fn(t(Tagged, 1.0)))
    assert_same(compiled(torch.ones(1)), fn(torch.ones(1)))


def test_user_functions_that_can_be_overridden():
    def twice(x):
        if has_torch_function_unary(x):
            return handle_torch_function(twice, (x,), x)
        return x * 2

    check_one_graph(lambda x: twice(x) + twice(x.as_subclass(torch.Tensor)), (t(Logged, 1.0),))


def test_modes():
    def fn(x):
        with Noting("outer"):
            y = torch.sin(x) + 1
            with Noting("inner"), Halving():
                y = y * 4
                z = torch.ones(2)
            y = 2 - y
            y[0] = 5
            return y, z, y.shape, len(y), x.t() * 2

    check_one_graph(fn, (torch.ones(2),))


def test_modes_before_subclasses():
    def fn(x, y):
        with Noting("mode"):
            return x + y, torch.nn.functional.relu(x)

    check_one_graph(fn, (t(Logged, 1.0), torch.ones(1)), (t(Derived, 1.0), t(Logged, 1.0)))


def test_mode_that_raises():
    class Refusing(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            raise ValueError(name(func))

    def fn(x):
        y = x + 1
        try:
            with Refusing():
                y = y * 2
        except ValueError as error:
            return y, str(error), torch._C._len_torch_function_stack()

    check_parity(fn, (torch.ones(2),))


def test_disabled_for_all():
    def fn(x):
        with Noting("a"):
            y = x + 1
            with torch._C.DisableTorchFunction():
                y = y * 2
            with torch._C.DisableTorchFunctionSubclass():
                y = y - 1
        return y

    check_one_graph(fn, (torch.ones(2),), (t(Logged, 1.0),))


def test_break_under_a_mode():
    def fn(x):
        with Noting("a") as mode:
            y = x + 1
            print("break")
            y = y * 2
        return y + 1, mode.title

    def nested(x):
        with Noting("a"):
            y = torch.sin(x)
            with Noting("b"):
                print("break")
                y = torch.cos(y)
            y = y * torch.ones(2)
        return y

    for function in (fn, nested):
        same_calls(function, stator.compile(function), (torch.ones(2),))


def test_break_where_subclasses_are_disabled():
    def fn(x):
        y = x + 1
        with torch._C.DisableTorchFunctionSubclass():
            y = y * 2
            print("break")
            y = y * 2
        return y + 1

    same_calls(fn, stator.compile(fn), (t(Logged, 1.0),))


def test_mode_left_open():
    def fn(x, mode):
        mode.__enter__()
        return x + 1

    def close(x, mode):
        mode.__exit__(None, None, None)
        return x * 2

    opening, closing = stator.compile(fn), stator.compile(close)
    x = torch.ones(2)
    for _ in range(3):
        log.clear()
        opened = opening(x, Noting("open"))
        assert torch._C._len_torch_function_stack() == 1
        closed = closing(x, torch.overrides._get_current_function_mode())
        assert torch._C._len_torch_function_stack() == 0
        assert [entry[:2] for entry in log] == [("open", "add")]
        assert_same([opened, closed], [x + 1, x * 2])


def test_modes_around_the_call():
    def fn(x):
        return x + 1, torch.zeros(2)

    compiled = stator.compile(fn, fullgraph=True)
    x = torch.ones(2)
    for title in ("a", "b", "b"):
        with Noting(title):
            expected, seen = logged(fn, x)
            actual, mine = logged(compiled, x)
        assert mine == seen
        assert_same(actual, expected)
    assert captures() > 0
    same_calls(fn, compiled, (x,))
    with Noting("a"), Noting("b"):
        assert [entry[0] for entry in logged(compiled, x)[1]] == ["b", "a", "b", "a"]


def test_devices():
    def fn(x):
        with torch.device("cpu"):
            y = torch.ones(3)
        with BaseTorchFunctionMode():
            y = y * 2
        return x + y, y.device

    def other(x):
        with torch.device("cpu"):
            y = torch.ones(3)
            with torch.device("meta"):
                z = torch.empty(4)
            y = y + torch.ones(3)
        return x + y, z.device, torch.zeros(1).device

    check_one_graph(fn, (torch.ones(3),))
    same_calls(other, stator.compile(other), (torch.ones(3),))


def test_default_device_around_the_call():
    def fn(x):
        return x + torch.ones(3), torch.zeros(1).device

    compiled = stator.compile(fn, fullgraph=True)
    torch.set_default_device("cpu")
    try:
        for _ in range(2):
            assert_same(compiled(torch.ones(3)), fn(torch.ones(3)))
    finally:
        torch.set_default_device(None)
    assert captures() == 1
    assert_same(compiled(torch.ones(3)), fn(torch.ones(3)))


def test_backends_see_no_mode():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    compiled = stator.compile(lambda x: x.sin() * 2, backend=backend, fullgraph=True)
    with Noting("a"):
        x = torch.ones(2)
        for _ in range(2):
            log.clear()
            compiled(x)
            assert [entry[1] for entry in log] == ["sin", "mul"]
    assert len(graphs) == 1


def test_parameters_made_in_the_program():
    def fn(x):
        w = nn.Parameter(x * 2)
        frozen = nn.Parameter(x, requires_grad=False)
        return w, frozen, isinstance(w, nn.Parameter), (w * x).sum(), w.is_leaf, frozen.requires_grad

    check_one_graph(fn, (torch.ones(3),), (torch.zeros(3),))
    made = stator.compile(fn)(torch.ones(3))
    made[3].backward()
    assert_same(made[0].grad, torch.ones(3))


def test_a_wrapper_subclass_without_a_torch_function_of_its_own():
    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = [a.inner if isinstance(a, cls) else a for a in args]
            return cls(func(*plain, **(kwargs or {})))

    fn = lambda x: x + 1  # noqa: E731
    x = Wrapped(torch.ones(2))
    compiled = stator.compile(fn, fullgraph=True)
    for _ in range(2):
        assert type(compiled(x)) is Wrapped
        assert_same(compiled(x).inner, fn(x).inner)
    assert captures() == 1


class Left:
    def __add__(self, other):
        return "add"

    def __radd__(self, other):
        return "radd"


class Right(Left):
    pass


class Refusing(Left):
    def __add__(self, other):
        return NotImplemented


class Reversed(Left):
    def __radd__(self, other):
        return "own radd"


def test_reflected_operators():
    def fn(x, a, b):
        return x + 1, a + b

    x = torch.ones(1)
    for a, b in ((Left(), Right()), (Left(), Reversed()), (Right(), Left())):
        assert_same(stator.compile(fn)(x, a, b), fn(x, a, b))
    with pytest.raises(TypeError, match="unsupported operand"):
        stator.compile(fn)(x, Refusing(), Refusing())


def test_index_lists_through_the_method():
    check_one_graph(lambda x: (x.__getitem__([1, 0]), torch.Tensor.__getitem__(x, [0])), (torch.arange(4.0),))


@pytest.mark.parametrize("backend", ["aot_eager", lambda gm, example_inputs: torch.fx.GraphModule(gm, gm.graph)])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_backends_that_trace_get_plain_tensors(requires_grad, backend):
    class Named(torch.Tensor):
        pass

    class Overriding(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    def fn(x, y):
        y.add_(1)
        return x * 2 + y, x.sum()

    for cls in (Named, Overriding):
        stator.reset()
        compiled = stator.compile(fn, backend=backend)
        for start in (1.0, 2.0):
            found = []
            for f in (fn, compiled):
                x = torch.full((3,), start).as_subclass(cls).requires_grad_(requires_grad)
                y = torch.zeros(3).as_subclass(cls)
                results = f(x, y)
                if requires_grad:
                    results[0].sum().backward()
                kinds = [type(t) for t in results]
                plain = [t.detach().as_subclass(torch.Tensor) for t in (*results, y)]
                grad = x.grad if x.grad is None else x.grad.as_subclass(torch.Tensor)
                found.append((kinds, [t.requires_grad for t in results], plain, grad))
            assert_same(found[1], found[0])
        assert captures() == 1
