"""`stator.compile` as function and decorator, on every kind of callable."""

import copy
import functools
import inspect
import pickle
import types

import pytest
import torch

import stator
from tests.python.helpers import captures, run_program


def f(x):
    """Sine, plus one."""
    return x.sin() + 1


@stator.compile
def at_module_level(x):
    return x * 2


@pytest.fixture
def x():
    return torch.ones(3)


def test_captured_once(x, K):
    compiled = stator.compile(f, backend=K)
    for _ in range(3):
        assert torch.equal(compiled(x), f(x))
    assert K.count == 1


@pytest.mark.parametrize("settings", [{}, {"fullgraph": True}, {"dynamic": False}])
def test_decorator_with_and_without_arguments(x, K, settings):
    @stator.compile(backend=K, **settings)
    def with_arguments(x):
        return x.sin() + 1

    @stator.compile
    def without(x):
        return x.sin() + 1

    for _ in range(2):
        assert torch.equal(with_arguments(x), f(x))
        assert torch.equal(without(x), f(x))
    assert K.count == 1
    assert captures() == 2


def test_default_backend_is_native(x):
    compiled = stator.compile(f)
    assert torch.equal(compiled(x), f(x))
    assert captures() == 1
    (entry,) = stator.cache_entries(compiled)
    assert entry["backend"] == "reference"


def test_disable_returns_the_same_object(x):
    assert stator.compile(f, disable=True) is f
    assert stator.compile(disable=True)(f) is f
    module = torch.nn.Linear(3, 3)
    assert stator.compile(module, disable=True) is module
    with pytest.raises(AssertionError, match="int"):
        stator.compile(3, disable=True)


def test_environment_variable_disables():
    program = """
        import stator, torch
        def f(x): return x + 1
        print(stator.compile(f) is f, stator.compile(backend="eager")(f) is f)
    """
    assert run_program(program, STATOR_DISABLE="1") == "True True"
    assert run_program(program, STATOR_DISABLE="0") == "False False"


def test_setting_disable_runs_plain(x, K):
    compiled = stator.compile(f, backend=K)
    with stator.config.patch(disable=True):
        for _ in range(3):
            assert torch.equal(compiled(x), f(x))
    assert K.count == 0
    compiled(x)
    assert K.count == 1


def test_metadata_of_the_function_is_kept():
    compiled = stator.compile(f)
    assert compiled.__name__ == "f"
    assert compiled.__qualname__ == "f"
    assert compiled.__doc__ == "Sine, plus one."
    assert compiled.__module__ == f.__module__
    assert compiled.__wrapped__ is f
    assert inspect.signature(compiled) == inspect.signature(f)
    compiled.note = 5
    assert compiled.note == 5 and not hasattr(f, "note")


def test_nested_compiles_collapse(x, K):
    compiled = stator.compile(stator.compile(stator.compile(f)), backend=K)
    assert compiled.__wrapped__ is f
    compiled(x)
    assert K.count == 1
    assert stator.compile(stator.disable(f)).__wrapped__ is f
    assert stator.compile(stator.disable(stator.compile(f))).__wrapped__ is f


@pytest.mark.parametrize("recursive", [True, False])
def test_a_function_disabled_by_torch_is_compiled_if_asked(x, K, recursive):
    disabled = torch.compiler.disable(f, recursive=recursive)
    compiled = stator.compile(disabled, backend=K, fullgraph=True)
    assert compiled.__wrapped__ is f
    assert torch.equal(compiled(x), f(x)) and K.count == 1
    caller = stator.compile(lambda x: disabled(x) + 1)  # elsewhere it stays disabled
    assert torch.equal(caller(x), f(x) + 1) and stator.counters()["breaks"] == {"disabled": 1}


def test_users_wrapper_is_not_taken_for_ours(x, K):
    inner = stator.compile(f)

    @functools.wraps(inner)
    def doubled(x):
        return inner(x) * 2

    compiled = stator.compile(doubled, backend=K, fullgraph=True)
    assert torch.equal(compiled(x), f(x) * 2)
    assert K.count == 1


class Scaler:
    def __init__(self, k):
        self.k = k

    @stator.compile
    def decorated(self, x):
        return x * self.k

    def plain(self, x):
        return x * self.k

    @stator.compile
    @staticmethod
    def static(x):
        return x + 1

    @stator.compile
    @classmethod
    def of_class(cls, x):
        return x + len(cls.__name__)


def test_methods(x):
    two, three = Scaler(2), Scaler(3)
    for _ in range(2):
        assert torch.equal(two.decorated(x), x * 2)
        assert torch.equal(three.decorated(x), x * 3)
    assert torch.equal(Scaler.decorated(two, x), x * 2)
    assert torch.equal(Scaler.static(x), x + 1)
    assert torch.equal(two.static(x), x + 1)
    assert torch.equal(Scaler.of_class(x), x + 6)
    assert captures() == 4


def test_bound_methods(x, K):
    two = Scaler(2)
    compiled = stator.compile(two.plain, backend=K)
    assert torch.equal(compiled(x), x * 2)
    two.k = 5
    assert torch.equal(compiled(x), x * 5)
    again = stator.compile(two.decorated, backend=K)
    assert again.__self__ is two
    assert torch.equal(again(x), x * 5)
    assert K.count == 3


def test_class_is_patched_in_place(x, K):
    class Adder:
        def __init__(self, n):
            self.n = n

        def __call__(self, x):
            return x + self.n

    original = Adder
    assert stator.compile(Adder, backend=K) is original
    for _ in range(2):
        assert torch.equal(Adder(1)(x), x + 1)
    assert K.count == 1
    assert torch.equal(Adder(4)(x), x + 4)
    assert K.count == 2


def test_module_class_is_patched_alone(x, K):
    class Mine(torch.nn.Module):
        def forward(self, x):
            return x.cos()

    stator.compile(Mine, backend=K)
    assert torch.equal(Mine()(x), x.cos())
    assert K.count == 1
    torch.nn.ReLU()(x)
    assert K.count == 1 and "__call__" not in vars(torch.nn.ReLU)


def test_class_without_call():
    class Nothing:
        pass

    with pytest.raises(stator.InvalidTarget, match="Nothing"):
        stator.compile(Nothing)


def test_builtins_and_callable_objects(x, K):
    class Doubler:
        def __call__(self, x):
            return x + x

    assert torch.equal(stator.compile(torch.sin, backend=K)(x), x.sin())
    assert K.count == 1
    assert torch.equal(stator.compile(torch.cos, backend=K)(x), x.cos())
    assert torch.equal(stator.compile(Doubler(), backend=K)(x), x + x)
    assert torch.equal(stator.compile(functools.partial(torch.add, alpha=3), backend=K)(x, x), 4 * x)
    assert torch.equal(stator.compile(lambda t: t - 1, backend=K)(x), x - 1)
    assert K.count == 5
    assert stator.compile(torch.sin).__name__ == "sin"


def test_callables_through_a_shim_do_not_share_entries(x):
    compiled = [stator.compile(op) for op in (torch.sin, torch.cos, torch.tan, torch.exp) * 4]
    for op in compiled:
        op(x)
    for op in compiled:
        assert len(stator.cache_entries(op)) == 1


def test_closures_and_defaults(x, K):
    offset = 3

    def shifted(x, scale=2, *rest, flag=True, **more):
        return x * scale + offset + sum(rest) + len(more) + flag

    compiled = stator.compile(shifted, backend=K)
    for args, kwargs in [((x,), {}), ((x, 5), {}), ((x, 5, 1, 2), {"flag": False}), ((x,), {"a": 1, "b": 2})]:
        assert torch.equal(compiled(*args, **kwargs), shifted(*args, **kwargs))
        assert torch.equal(compiled(*args, **kwargs), shifted(*args, **kwargs))
    assert K.count == 4
    offset = 10
    assert torch.equal(compiled(x), shifted(x))


def test_wrong_calls_raise_what_python_raises(x):
    def strict(a, b, /, c=1, *, d):
        return a + b + c + d

    compiled = stator.compile(strict)
    wrong = [
        lambda g: g(),
        lambda g: g(x),
        lambda g: g(x, x),
        lambda g: g(x, x, 1, 2, d=3),
        lambda g: g(x, b=x, d=1),
        lambda g: g(x, x, d=1, e=2),
        lambda g: g(x, x, 1, c=2, d=3),
    ]
    for call in wrong:
        with pytest.raises(TypeError) as expected:
            call(strict)
        with pytest.raises(TypeError) as actual:
            call(compiled)
        assert str(actual.value) == str(expected.value)
    assert torch.equal(compiled(x, x, d=1), strict(x, x, d=1))


def test_pickle_and_copy_of_a_compiled_function(x):
    restored = pickle.loads(pickle.dumps(at_module_level))
    assert restored is at_module_level
    assert copy.deepcopy(at_module_level) is at_module_level
    assert torch.equal(restored(x), x * 2)


def test_same_code_two_backends(x, K, K2):
    first, second = stator.compile(f, backend=K), stator.compile(f, backend=K2)
    for _ in range(2):
        first(x), second(x)
    assert (K.count, K2.count) == (1, 1)
    assert len(stator.cache_entries(f)) == 2


def test_two_functions_of_one_code(x, K):
    def make(n):
        def inner(x):
            return x + n

        return inner

    functions = [make(n) for n in range(3)]
    compiled = [stator.compile(fn, backend=K) for fn in functions]
    for _ in range(2):
        for fn, plain in zip(compiled, functions, strict=True):
            assert torch.equal(fn(x), plain(x))


def test_dynamic_only_bool_or_none():
    for wrong in ("yes", 1, 0.0):
        with pytest.raises(AssertionError, match="dynamic"):
            stator.compile(f, dynamic=wrong)


def test_interpreter_version_is_checked(monkeypatch):
    assert stator.is_supported()
    monkeypatch.setattr("sys.version_info", (4, 0, 0, "final", 0))
    assert not stator.is_supported()
    with pytest.raises(RuntimeError, match=r"4\.0") as error:
        stator.compile(f)
    assert "3.11" in str(error.value)


def test_context_manager_use_is_refused(K):
    with pytest.raises(RuntimeError, match="context manager"):
        with stator.compile(backend=K):
            pass
    with pytest.raises(AssertionError):
        stator.compile(backend=K).__exit__(None, None, None)
    with stator.compile(disable=True):
        pass


def test_compiled_calling_compiled_is_one_graph(x, K):
    inner = stator.compile(f)

    @stator.compile(backend=K, fullgraph=True)
    def outer(x):
        return inner(x) * 2

    assert torch.equal(outer(x), f(x) * 2)
    assert K.count == 1


def test_is_compiling_is_true_in_captured_code(x):
    def asks(x):
        return x + (1 if stator.is_compiling() else 100)

    def asks_torch(x):
        return x + (1 if torch.compiler.is_compiling() else 100)

    assert not stator.is_compiling()
    for ask in (asks, asks_torch):
        assert torch.equal(ask(x), x + 100)
        assert torch.equal(stator.compile(ask, fullgraph=True)(x), x + 1)
    assert not stator.is_compiling()


def test_types_survive():
    compiled = stator.compile(f)
    assert callable(compiled)
    assert type(compiled) is not types.FunctionType
    assert isinstance(compiled.__get__(5, int), types.MethodType)


def test_calls_of_a_block_are_captured_where_that_is_allowed(K, K2):
    def f(x):
        return x.sin() * 2

    def g(x):
        return f(x) + 1

    x = torch.ones(3)
    block = stator.compile(backend=K, dynamic=False)
    with stator.config.patch(raise_on_ctx_manager_usage=False):
        for _ in range(2):
            with block:
                assert torch.equal(f(x), x.sin() * 2) and torch.equal(g(x), x.sin() * 2 + 1)
        assert K.count == 2
        f(x + 1)
        f(torch.ones(4))
        assert K.count == 2, "outside of the block nothing is captured"
        with pytest.raises(ZeroDivisionError), block:
            f(torch.ones(5))
            1 // 0  # noqa: B018
        f(torch.ones(6))
        assert K.count == 3
        with block:
            with stator.compile(backend=K2):
                f(torch.ones(7))
            assert (K.count, K2.count) == (3, 1)
            f(torch.ones(7))
        assert (K.count, K2.count) == (4, 1)
        with pytest.raises(AssertionError, match="never entered"):
            block.__exit__(None, None, None)
    assert torch.equal(f(x), x.sin() * 2)
