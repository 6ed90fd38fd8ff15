"""disable, run, nesting of the two with compile, and threads."""

import functools
import pickle
import threading

import pytest
import torch

import stator
from tests.python.helpers import assert_same, check_parity


def f(x):
    return x.sin() + 1


@pytest.fixture
def x():
    return torch.ones(3)


def test_disable_runs_plain(x, K):
    inner = stator.compile(f, backend=K)

    @stator.disable
    def outer(x):
        return inner(x)

    assert outer.__name__ == "outer"
    assert torch.equal(outer(x), f(x))
    assert K.count == 0
    inner(x)
    assert K.count == 1


def test_disable_is_undone_after_an_error(x, K):
    compiled = stator.compile(f, backend=K)

    @stator.disable
    def fails():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fails()
    compiled(x)
    assert K.count == 1


def test_disabled_function_breaks_its_caller_with_the_reason(x, K):
    @stator.disable(reason="talks to hardware")
    def helper(x):
        return x * 2

    def caller(x):
        return helper(x) + 1

    assert torch.equal(stator.compile(caller, backend=K)(x), x * 2 + 1)
    with pytest.raises(stator.Unsupported, match="talks to hardware"):
        stator.compile(caller, fullgraph=True)(x)


def test_torchs_own_disable_is_honoured(x):
    @torch.compiler.disable
    def helper(x):
        return x * 2

    def caller(x):
        return helper(x) + 1

    assert torch.equal(stator.compile(caller)(x), x * 2 + 1)
    with pytest.raises(stator.Unsupported):
        stator.compile(caller, fullgraph=True)(x)


def test_disable_without_recursion_lets_callees_compile(x, K):
    inner = stator.compile(f, backend=K)

    @stator.disable(recursive=False)
    def outer(x):
        return inner(x)

    assert torch.equal(outer(x), f(x))
    assert K.count == 1


def test_disable_on_a_class(x, K):
    inner = stator.compile(f, backend=K)

    @stator.disable
    class Thing:
        def __init__(self):
            self.made = inner(x)

        def __call__(self, x):
            return inner(x)

    thing = Thing()
    assert torch.equal(thing(x), f(x)) and torch.equal(thing.made, f(x))
    assert K.count == 0
    assert Thing.__init__._torchdynamo_disable and Thing.__call__._torchdynamo_disable


def test_disable_on_a_module(x, K):
    module = torch.nn.Linear(3, 3)
    disabled = stator.disable(module)
    assert torch.equal(disabled(x), module(x))
    assert isinstance(disabled, torch.nn.Linear)
    assert not hasattr(type(disabled).__call__, "get_compiler_config")
    assert list(disabled.state_dict()) == list(module.state_dict())


def test_disable_as_block(x, K):
    compiled = stator.compile(f, backend=K)
    with stator.disable():
        compiled(x)
        with stator.disable():
            compiled(x)
        compiled(x)
    assert K.count == 0
    with pytest.raises(AssertionError):
        stator.disable().__exit__(None, None, None)


def test_disabled_inside_compiled_inside_disabled(x, K):
    inner = stator.compile(f, backend=K)

    @stator.disable
    def middle(x):
        return inner(x)

    outer = stator.compile(lambda x: middle(x) + 1, backend=K)
    assert torch.equal(outer(x), f(x) + 1)


def test_run_uses_what_is_cached(x, K):
    compiled = stator.compile(f, backend=K)
    compiled(x)
    ran = stator.run(compiled)
    before = stator.counters()["cache"]["hits"]
    assert torch.equal(ran(x), f(x))
    assert stator.counters()["cache"]["hits"] == before + 1
    y = torch.ones(4, 2)
    assert torch.equal(ran(y), f(y))
    assert K.count == 1
    compiled(y)
    assert K.count == 2


def test_run_on_a_compiled_module_and_as_block(x, K):
    module = stator.compile(torch.nn.Linear(3, 3), backend=K)
    with stator.run():
        module(x)
    assert K.count == 0
    assert torch.equal(stator.run(module)(x), module(x))
    assert K.count == 1


def test_modes_pickle():
    mode = stator.disable(reason="because")
    again = pickle.loads(pickle.dumps(mode))
    assert again(f)._torchdynamo_disable_msg == "because"


def test_bad_targets():
    for mode in (stator.disable, stator.run):
        with pytest.raises(AssertionError, match="int"):
            mode(3)


def test_errors_of_the_program_pass_as_they_are(x, K):
    def fails(x):
        y = x + 1
        raise ValueError("mine")

    compiled = stator.compile(fails, backend=K)
    for _ in range(2):
        with pytest.raises(ValueError, match="mine") as error:
            compiled(x)
        assert error.traceback[-1].name == "fails"
    works = stator.compile(f, backend=K)
    assert torch.equal(works(x), f(x))


def test_threads_have_their_own_mode(x, K):
    compiled = stator.compile(f, backend=K)
    results = []
    with stator.disable():
        thread = threading.Thread(target=lambda: results.append(compiled(x)))
        thread.start()
        thread.join()
        compiled(x)
    assert torch.equal(results[0], f(x))
    assert K.count == 1


def test_threads_share_one_capture(x):
    started, release = threading.Event(), threading.Event()
    calls = []

    def slow(gm, example_inputs):
        calls.append(1)
        started.set()
        release.wait(10)
        return gm.forward

    compiled = stator.compile(f, backend=slow)
    results = []
    threads = [threading.Thread(target=lambda: results.append(compiled(x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert started.wait(10)
    release.set()
    for thread in threads:
        thread.join(30)
    assert len(results) == 4 and all(torch.equal(r, f(x)) for r in results)
    assert len(calls) == 1


def test_a_hit_does_not_wait_for_a_capture(x):
    started, release = threading.Event(), threading.Event()

    def slow(gm, example_inputs):
        started.set()
        release.wait(10)
        return gm.forward

    warm = stator.compile(f)
    warm(x)
    thread = threading.Thread(target=lambda: stator.compile(lambda t: t.cos(), backend=slow)(x))
    thread.start()
    assert started.wait(10)
    assert torch.equal(warm(x), f(x))
    assert not release.is_set()
    release.set()
    thread.join(30)


def test_thread_started_by_compiled_code_is_not_captured(x, K):
    results = []

    @stator.compile(backend=K)
    def starts(x):
        y = x + 1
        thread = threading.Thread(target=lambda: results.append(x.cos() + stator.is_compiling()))
        thread.start()
        thread.join()
        return y

    assert torch.equal(starts(x), x + 1)
    assert torch.equal(results[0], x.cos())


def test_a_function_marked_constant_is_called_at_capture_only(x):
    calls = []

    @torch.compiler.assume_constant_result
    def scale(name, *, factor=1):
        calls.append((name, factor))
        return {"two": 2, "three": 3}[name] * factor

    @torch.compiler.assume_constant_result
    def table(self):
        calls.append("table")
        return [float(ord(c)) for c in self.letters]

    @functools.lru_cache
    @torch.compiler.assume_constant_result
    def cached():
        return 5

    class Holder:
        letters = "ab"

    holder = Holder()

    def fn(x):
        return x * scale("two", factor=4) + scale("three") + table(holder)[1] + cached()

    compiled = stator.compile(fn, fullgraph=True)
    for _ in range(3):
        assert_same(compiled(x), fn(x))
    captured = calls[:]
    del calls[:]
    assert_same(compiled(x), x * 8 + 3 + 98.0 + 5)
    assert not calls
    assert captured.count("table") >= 1 and ("two", 4) in captured


def test_a_function_marked_constant_may_fail(x):
    @torch.compiler.assume_constant_result
    def table(name):
        return {"a": 1}[name]

    def fn(x, name):
        try:
            return x + table(name)
        except KeyError as error:
            return x - len(error.args[0])

    check_parity(fn, (x, "a"), (x, "bcd"), (x, "a"))


def test_function_transforms_are_left_after_an_error():
    def bad(x):
        y = x.sin()
        return torch.vmap(lambda row: row + torch.ones(7))(y)

    def good(x):
        return torch.vmap(lambda row: row * 2)(x.sin())

    x = torch.ones(3, 2)
    compiled = stator.compile(bad)
    for _ in range(2):
        for call in (compiled, torch.vmap(compiled)):
            with pytest.raises(RuntimeError):
                call(x if call is compiled else x[None])
            assert torch._C._functorch.peek_interpreter_stack() is None
            assert torch.equal(stator.compile(good)(x), good(x))
            assert torch.equal(torch.vmap(stator.compile(good))(x[None]), good(x)[None])
    assert stator.counters["captures"]["graphs"] >= 1
