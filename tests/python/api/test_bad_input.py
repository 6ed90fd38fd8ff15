"""Invalid or unusual input gives eager's behaviour, or a Stator error with a hint."""

import asyncio
import signal
import sys

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures, collect


@pytest.mark.parametrize("target", [3, "text", [], {"a": 1}, torch.ones(2), object()], ids=lambda t: type(t).__name__)
def test_not_callable(target):
    with pytest.raises(stator.InvalidTarget, match=type(target).__name__) as error:
        stator.compile(target)
    assert isinstance(error.value, TypeError) and isinstance(error.value, AssertionError)
    assert "try:" in str(error.value)


def test_function_that_deletes_its_argument():
    def deletes(x):
        y = x + 1
        del x
        return y

    def uses_deleted(x):
        del x
        return x + 1  # noqa: F821

    x = torch.ones(3)
    compiled = stator.compile(deletes)
    for _ in range(2):
        assert torch.equal(compiled(x), x + 1)
    broken = stator.compile(uses_deleted)
    for _ in range(2):
        with pytest.raises(UnboundLocalError, match="'x'"):
            broken(x)


def test_recursion_without_end():
    def forever(x):
        return forever(x + 1)

    compiled = stator.compile(forever)
    for _ in range(2):
        with pytest.raises(RecursionError):
            compiled(torch.ones(3))

    @stator.compile
    def itself(x):
        return itself(x + 1)

    with pytest.raises(RecursionError):
        itself(torch.ones(3))
    assert torch.equal(stator.compile(lambda x: x + 1)(torch.ones(3)), torch.ones(3) + 1)


def test_recursion_with_an_end():
    def down(x, n):
        return x if n == 0 else down(x + 1, n - 1)

    x = torch.ones(3)
    assert torch.equal(stator.compile(down)(x, 5), x + 5)
    assert torch.equal(stator.compile(down)(x, 300), x + 300)


def test_unhashable_and_odd_arguments():
    class Odd:
        __hash__ = None

        def __eq__(self, other):
            raise RuntimeError("never compare me")

    def keeps(x, thing):
        return x + 1, thing

    x = torch.ones(3)
    compiled = stator.compile(keeps)
    for thing in ([1], {"a": [2]}, {1, 2}, Odd(), slice(1, 2), range(3), ..., NotImplemented, Odd, keeps):
        out, same = compiled(x, thing)
        assert torch.equal(out, x + 1)
        # The identity of equal slices and ranges is not compared.
        assert same is thing or (isinstance(thing, (slice, range)) and same == thing)


def test_tensors_of_other_kinds():
    def add(x):
        return x + x

    compiled = stator.compile(add)
    sparse = torch.eye(3).to_sparse()
    assert torch.equal(compiled(sparse).to_dense(), 2 * torch.eye(3))
    csr = torch.eye(3).to_sparse_csr()
    assert torch.equal(compiled(csr).to_dense(), 2 * torch.eye(3))
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert [t.tolist() for t in compiled(nested).unbind()] == [[2, 2], [2, 2, 2]]
    meta = torch.ones(3, device="meta")
    assert compiled(meta).device.type == "meta"
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    stator.compile(lambda q: q.dequantize())(quantized)


def test_tensor_subclasses_keep_their_behaviour():
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    seen = []
    x = torch.ones(3).as_subclass(Loud)
    compiled = stator.compile(lambda x: x + 1)
    for _ in range(2):
        before = len(seen)
        out = compiled(x)
        assert type(out) is Loud and len(seen) > before


def test_generator_functions():
    def generates(x):
        for i in range(3):
            yield x + i

    x = torch.ones(2)
    compiled = stator.compile(generates)
    for _ in range(2):
        assert_same(list(compiled(x)), list(generates(x)))
    with pytest.raises(stator.Unsupported, match="generator"):
        list(stator.compile(generates, fullgraph=True)(x))


def test_coroutine_functions():
    async def adds(x):
        await asyncio.sleep(0)
        return x + 1

    async def yields(x):
        yield x + 1

    x = torch.ones(2)
    compiled = stator.compile(adds)
    for _ in range(2):
        assert torch.equal(asyncio.run(compiled(x)), x + 1)

    async def collect():
        return [item async for item in stator.compile(yields)(x)]

    assert torch.equal(asyncio.run(collect())[0], x + 1)


def test_forward_that_raises_from_torch():
    def wrong(x, y):
        return x @ y

    compiled = stator.compile(wrong)
    for _ in range(2):
        with pytest.raises(RuntimeError) as expected:
            wrong(torch.ones(2, 3), torch.ones(2, 3))
        with pytest.raises(RuntimeError) as actual:
            compiled(torch.ones(2, 3), torch.ones(2, 3))
        assert type(actual.value) is type(expected.value) and str(actual.value) == str(expected.value)


def test_data_never_leaves_as_garbage():
    exits = [
        lambda x: x.numpy().sum(),
        lambda x: x.tolist(),
        lambda x: x.sum().item(),
        lambda x: float(x.sum()),
        lambda x: int(x.sum()),
        lambda x: bool(x.sum() > 0),
        lambda x: repr(x),
        lambda x: f"{x.sum()}",
        lambda x: [v.item() for v in x],
        lambda x: 1 if x.sum() > 2 else 0,
        lambda x: x.data_ptr() == 0,
        lambda x: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)).tolist(),
    ]
    for leave in exits:
        compiled = stator.compile(leave)
        for x in (torch.arange(3.0), torch.ones(3), torch.zeros(3)):
            assert compiled(x) == leave(x)


def test_no_tensors_at_all():
    compiled = stator.compile(lambda a, b: a * 2 + b)
    for _ in range(3):
        assert compiled(3, 4) == 10
        assert compiled("ab", "c") == "ababc"


def test_interrupt_during_capture_leaves_a_clean_state(monkeypatch):
    def slow(x):
        for _ in range(300_000):
            x = x + 1
        return x

    compiled = stator.compile(slow)
    # A capture holds the GIL, so the signal comes from the system and not from a thread. It is repeated when a garbage
    # collector callback that happens to run swallowed the exception.
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: signal.setitimer(signal.ITIMER_REAL, 0.1))
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            compiled(torch.ones(3))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert captures() == 0
    collect()
    x = torch.ones(3)
    before = captures()
    fine = stator.compile(lambda x: x.sin() + 1, fullgraph=True)
    assert torch.equal(fine(x), x.sin() + 1)
    assert captures() == before + 1
    assert torch.is_grad_enabled() and not stator.is_compiling()


def test_errors_carry_code_cause_hint_and_place():
    def breaks(x):
        y = x + 1
        stator.graph_break()
        return y

    with pytest.raises(stator.Unsupported) as caught:
        stator.compile(breaks, fullgraph=True)(torch.ones(3))
    error = caught.value
    assert error.code and error.cause and error.hint
    assert __file__ in str(error)
    assert error.code in str(error) and error.hint in str(error)
    assert error.reason["line"] == breaks.__code__.co_firstlineno + 2


def test_errors_pickle():
    import pickle

    for error in (
        stator.StatorError("cause", hint="hint", code="code", where="here"),
        stator.Unsupported({"id": "data", "text": "t", "file": "a.py", "line": 3, "hint": "h"}),
        stator.BackendCompilerFailed("b", "g", ValueError("boom")),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and again.code == error.code
