"""Guards, cache entries and limits, as a user sees them."""

import os
import subprocess
import sys
import warnings
import weakref

import pytest
import torch

import stator
from tests.python.helpers import captures, collect


def f(x):
    return x.sin() + 1


@pytest.mark.parametrize(
    "changed",
    [
        lambda x: x.double(),
        lambda x: torch.ones(5, 4),
        lambda x: torch.ones(3, 4).t().contiguous().t(),
        lambda x: torch.ones(3, 4, requires_grad=True),
        lambda x: torch.ones(3, 4, device="meta"),
        lambda x: torch.ones(12),
        lambda x: torch.nn.Parameter(torch.ones(3, 4), requires_grad=False),
    ],
    ids=["dtype", "size", "stride", "requires_grad", "device", "rank", "class"],
)
def test_each_fact_of_a_tensor_is_guarded(K, changed):
    x = torch.ones(3, 4)
    compiled = stator.compile(f, backend=K, dynamic=False)
    compiled(x), compiled(x + 1)
    assert K.count == 1
    y = changed(x)
    out = compiled(y)
    assert out.dtype == y.dtype and out.shape == y.shape and out.device == y.device
    assert out.stride() == f(y).stride() and out.requires_grad == f(y).requires_grad
    compiled(x)
    assert K.count <= 2
    if "meta" not in str(y.device):
        assert torch.equal(out, f(y))


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 2), (1.0, 1), (True, 1), (0.0, -0.0), ("a", "b"), (None, 0), ((1, 2), (1, 3)), ([1], [1, 2]), (b"a", b"b")],
    ids=repr,
)
def test_python_values_are_guarded(first, second):
    def uses(x, value):
        return x + 1, value, isinstance(value, bool), str(value)

    compiled = stator.compile(uses)
    x = torch.ones(3)
    for value in (first, second, first, second):
        a, b = compiled(x, value), uses(x, value)
        assert torch.equal(a[0], b[0]) and repr(a[1:]) == repr(b[1:])
        assert type(a[1]) is type(b[1])


def test_grad_mode_is_guarded(K):
    x = torch.ones(3, requires_grad=True)
    compiled = stator.compile(f, backend=K)
    assert compiled(x).requires_grad
    with torch.no_grad():
        assert not compiled(x).requires_grad
    with torch.inference_mode():
        assert compiled(x).is_inference()
    assert compiled(x).requires_grad
    assert K.count == 3


def test_globals_and_closures_are_guarded():
    namespace = {"scale": 2}
    exec("def scaled(x): return x * scale", namespace)
    offset = 1

    def shifted(x):
        return x + offset

    x = torch.ones(3)
    by_global, by_cell = stator.compile(namespace["scaled"]), stator.compile(shifted)
    for value in (2, 3, 2):
        namespace["scale"] = offset = value
        assert torch.equal(by_global(x), x * value)
        assert torch.equal(by_cell(x), x + value)
    assert captures() == 4


def test_limit_stops_capturing_and_old_entries_still_run(K):
    def add(x, other):
        return x + other

    def of_rank(rank):  # tensors of other ranks need other graphs
        return torch.full([1] * rank, 2.0)

    compiled = stator.compile(add, backend=K, dynamic=False)
    x = torch.ones(3)
    with pytest.warns(RuntimeWarning) as caught:
        for rank in range(12):
            assert torch.equal(compiled(x, of_rank(rank)), x + of_rank(rank))
    assert K.count == 8
    (warning,) = [str(w.message) for w in caught if "recompile_limit" in str(w.message)]
    assert "add" in warning and __file__.rsplit("/", 1)[-1] in warning and "8" in warning
    assert "other" in warning, "the last reason is told"
    before = stator.counters()["cache"]["hits"]
    assert torch.equal(compiled(x, of_rank(3)), x + of_rank(3))
    assert stator.counters()["cache"]["hits"] == before + 1
    assert torch.equal(compiled(x, of_rank(12)), x + of_rank(12))
    assert K.count == 8


def test_one_capture_at_the_limit_serves_all_numbers(K):
    def add(x, n):
        return x + n

    compiled = stator.compile(add, backend=K, dynamic=False)
    x = torch.ones(3)
    for n in range(12):
        assert torch.equal(compiled(x, n), x + n)
    assert K.count == 9


def test_limit_as_error():
    def add(x, n):
        return x + n

    x = torch.ones(3)
    with stator.config.patch(recompile_limit=2):
        strict = stator.compile(add, fullgraph=True, dynamic=False)
        strict(x, 0), strict(x, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(stator.RecompileLimitExceeded, match=r"add[\s\S]*docs/errors.md, recompile-limit"):
                strict(x, 2)
        stator.reset()
        with stator.config.patch(fail_on_recompile_limit_hit=True):
            tolerant = stator.compile(add, dynamic=False)
            tolerant(x, 0), tolerant(x, 1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with pytest.raises(stator.RecompileLimitExceeded):
                    tolerant(x, 2)


def test_objects_guarded_by_identity_do_not_use_up_the_limit():
    class Adder(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.n = n

        def forward(self, x):
            return x + self.n

    x = torch.ones(3)
    modules = [Adder(n) for n in range(12)]
    compiled = [stator.compile(module) for module in modules]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for module, fast in zip(modules, compiled, strict=True):
            assert torch.equal(fast(x), module(x))
    assert captures() == 12


def test_entries_can_be_read():
    compiled = stator.compile(f)
    x = torch.ones(3)
    compiled(x)
    (entry,) = stator.cache_entries(compiled)
    assert entry["id"] == "0/0"
    assert entry["guards"] and all(isinstance(guard, str) for guard in entry["guards"])
    assert any("x" in guard for guard in entry["guards"])
    assert "sin" in str(entry["graph"])
    assert entry["hits"] == 0
    compiled(x)
    assert stator.cache_entries(compiled)[0]["hits"] == 1
    compiled(x.double())
    assert {entry["id"] for entry in stator.cache_entries(f)} == {"0/0", "0/1"}
    assert len(stator.cache_entries(f.__code__)) == 2


def test_compile_ids():
    first, second = stator.compile(f), stator.compile(lambda x: x.cos())
    x = torch.ones(3)
    first(x), first(x.double()), second(x)
    assert [entry["id"] for entry in stator.cache_entries(second)] == ["1/0"]
    stator.reset()
    first(x)
    assert [entry["id"] for entry in stator.cache_entries(first)] == ["0/0"]


def test_recompile_reason_names_the_guard():
    from stator import _C

    records = []
    before = _C.set_capture_listener(records.append)
    try:
        compiled = stator.compile(f)
        compiled(torch.ones(3))
        compiled(torch.ones(3, dtype=torch.float64))
    finally:
        _C.set_capture_listener(before)
    assert records[0]["recompile_reason"] is None
    reason = records[1]["recompile_reason"]
    assert "x" in reason and "0/0" in reason
    assert "float" in reason.lower() or "double" in reason.lower()


def test_counters():
    compiled = stator.compile(f)
    x = torch.ones(3)
    compiled(x), compiled(x), compiled(x.double())
    counts = stator.counters()
    assert counts["captures"]["total"] == counts["captures"]["graphs"] == 2
    assert counts["captures"]["ops"] == 4 and counts["captures"]["guards"] > 0
    assert counts["cache"]["hits"] == 1 and counts["cache"]["misses"] == 2
    assert counts["frames"]["total"] == 2 and counts["frames"]["ok"] == 2
    assert stator.counters["captures"] == counts["captures"]
    assert "graphs: 2" in repr(stator.counters)
    assert set(counts) <= set(stator.counters)


def test_breaks_are_counted_by_reason():
    def breaks(x):
        stator.graph_break()
        return x + 1

    compiled = stator.compile(breaks)
    x = torch.ones(3)
    assert torch.equal(compiled(x), x + 1)
    breaks_seen = stator.counters()["breaks"]
    assert breaks_seen == {"user": 1}


def test_reset_forgets(K):
    compiled = stator.compile(f, backend=K)
    x = torch.ones(3)
    compiled(x)
    stator.reset()
    assert captures() == 0
    assert stator.cache_entries(compiled) == []
    compiled(x)
    assert K.count == 2


def test_reset_calls_the_backends_reset_once():
    class Backend:
        resets = 0

        def __call__(self, gm, example_inputs):
            return gm.forward

        def reset(self):
            self.resets += 1

    backend = Backend()
    x = torch.ones(3)
    stator.compile(f, backend=backend)(x)
    stator.compile(lambda t: t.cos(), backend=backend)(x)
    stator.reset()
    stator.reset()
    assert backend.resets == 1


def test_entries_keep_no_input_alive():
    def scope(compiled):
        big = torch.ones(1000)
        compiled(big)
        return weakref.ref(big)

    compiled = stator.compile(f)
    dead = scope(compiled)
    collect()
    assert dead() is None
    assert len(stator.cache_entries(compiled)) == 1


def test_local_function_over_a_tensor_dies():
    def scope():
        weight = torch.ones(1000)

        def local(x):
            return x * weight

        compiled = stator.compile(local)
        compiled(torch.ones(1000))
        return weakref.ref(weight), weakref.ref(local)

    refs = scope()
    collect()
    assert [ref() for ref in refs] == [None, None]


def test_one_function_is_forgotten(K):
    def fn(a):
        return a + 1

    def other(a):
        return a + 2

    compiled, kept = stator.compile(fn, backend=K), stator.compile(other, backend=K)
    x = torch.ones(3)
    compiled(x), kept(x)
    for target in (fn, compiled, fn.__code__):
        before = K.count
        stator.forget(target)
        assert not stator.cache_entries(fn) and stator.cache_entries(other)
        assert torch.equal(compiled(x), x + 1) and torch.equal(compiled(x), x + 1)
        kept(x)
        assert K.count == before + 1
    model = stator.compile(torch.nn.Linear(3, 3), backend=K)
    model(x)
    stator.forget(model)
    assert not stator.cache_entries(model)
    with pytest.warns(RuntimeWarning, match="the entire cache is cleared"):
        stator.forget(object())
    assert not stator.cache_entries(other)


@pytest.mark.parametrize("name,count", [("nope", 0), ("fn", 1)])
def test_only_functions_of_one_name(name, count):
    program = """
import stator, torch
def fn(a):
    return a + 1
assert torch.equal(stator.compile(fn)(torch.ones(3)), torch.ones(3) + 1)
print(stator.counters()["captures"].get("total", 0))
"""
    environment = {**os.environ, "STATOR_DEBUG_FUNCTION": name}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) == count
