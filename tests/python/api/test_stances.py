"""Stances, error_on_graph_break blocks, and exceptions of a program under fullgraph."""

import sys
import warnings

import pytest
import torch

import stator
from tests.python.helpers import Counting


@pytest.fixture
def x():
    return torch.ones(3)


@pytest.fixture(autouse=True)
def default_stance():
    yield
    stator.set_stance("default")
    if utils := sys.modules.get("torch._dynamo.utils"):
        assert not utils._get_error_on_graph_break()


def told(a):
    """Whether the call was captured."""
    return a + 1 if stator.is_compiling() else a - 1


def setters():
    import torch._dynamo

    return [stator.set_stance, torch.compiler.set_stance]


@pytest.mark.parametrize("which", [0, 1], ids=["own", "torch"])
class TestStances:
    def test_force_eager(self, which, x, K):
        set_stance = setters()[which]
        compiled = stator.compile(told, backend=K)
        assert compiled(x)[0] == 2
        with set_stance("force_eager"):
            assert compiled(x)[0] == 0
            assert stator.run(compiled)(x)[0] == 0
        assert compiled(x)[0] == 2 and K.count == 1

    def test_eager_on_recompile(self, which, x, K):
        set_stance = setters()[which]
        compiled = stator.compile(told, backend=K, dynamic=False)
        compiled(x)
        with set_stance("eager_on_recompile"):
            assert compiled(x)[0] == 2
            assert compiled(torch.ones(5))[0] == 0
        assert K.count == 1
        assert compiled(torch.ones(5))[0] == 2 and K.count == 2

    def test_fail_on_recompile(self, which, x, K):
        set_stance = setters()[which]
        compiled = stator.compile(told, backend=K)
        compiled(x)
        with set_stance("fail_on_recompile"):
            assert compiled(x)[0] == 2
            with pytest.raises(stator.RecompileForbidden, match="(?s)told.*test_stances.py.*dtype"):
                compiled(x.double())
            with pytest.raises(RuntimeError, match="not captured before"):
                stator.compile(lambda a: a * 3, backend=K)(x)
        assert compiled(x.double())[0] == 2

    def test_eager_then_compile(self, which, x, K):
        set_stance = setters()[which]
        compiled = stator.compile(told, backend=K)
        with set_stance("eager_then_compile"):
            assert [compiled(x)[0].item() for _ in range(3)] == [0, 2, 2]

    def test_eager_then_compile_compares_sizes_and_numbers(self, which, x, K):
        set_stance = setters()[which]

        def scaled(batch, n, rate):
            return batch["x"][0] * n + rate

        compiled = stator.compile(scaled)
        with set_stance("eager_then_compile"):
            for rows, n, rate in ((3, 2, 0.5), (4, 5, 0.25), (5, 7, 0.1), (6, 3, 0.7)):
                args = {"x": [torch.ones(rows, 2)]}, n, rate
                assert torch.equal(compiled(*args), scaled(*args))
        assert stator.counters()["captures"]["total"] == 1

    def test_as_decorator(self, which, x, K):
        set_stance = setters()[which]
        compiled = stator.compile(told, backend=K)

        @set_stance("force_eager")
        def plain(a):
            """Kept."""
            return compiled(a)

        assert plain.__doc__ == "Kept." and compiled(x)[0] == 2
        assert plain(x)[0] == 0 and compiled(x)[0] == 2

    def test_a_module(self, which, x, K):
        set_stance = setters()[which]

        class Told(torch.nn.Module):
            def forward(self, a):
                return told(a)

        compiled = stator.compile(Told(), backend=K)
        with set_stance("force_eager"):
            assert compiled(x)[0] == 0
        assert compiled(x)[0] == 2

    def test_behind_a_break(self, which, x, K):
        set_stance = setters()[which]

        @stator.compile(backend=K)
        def fn(a, n):
            a = a + 1
            stator.graph_break()
            return a * n

        assert fn(x, 2)[0] == 4
        with set_stance("fail_on_recompile"):
            assert fn(x, 2)[0] == 4
            with pytest.raises(stator.RecompileForbidden):
                fn(x, 3)


def test_a_plain_call_sets_the_stance(x, K):
    compiled = stator.compile(told, backend=K)
    stator.set_stance("force_eager")
    assert compiled(x)[0] == 0
    stator.set_stance("default")
    assert compiled(x)[0] == 2


def test_blocks_nest_and_are_entered_again(x, K):
    compiled = stator.compile(told, backend=K)
    off = stator.set_stance("force_eager")
    with off, stator.set_stance("default"):
        assert compiled(x)[0] == 2
    assert compiled(x)[0] == 2
    for _ in range(2):
        with off:
            assert compiled(x)[0] == 0
        assert compiled(x)[0] == 2


def test_unknown_stances(x, K):
    import torch._dynamo

    with pytest.raises(stator.InvalidOption, match="bogus"):
        stator.set_stance("bogus")
    compiled = stator.compile(told, backend=K)
    with torch.compiler.set_stance("bogus"):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="bogus"):
                compiled(x)
    assert compiled(x)[0] == 2


def blocks():
    import torch._dynamo

    return [stator.error_on_graph_break, torch._dynamo.error_on_graph_break]


def broken(a):
    a = a + 1
    stator.graph_break()
    return a * 2


@pytest.mark.parametrize("which", [0, 1], ids=["own", "torch"])
class TestErrorOnGraphBreak:
    def test_inside(self, which, x, K):
        block = blocks()[which]

        def fn(a, strict):
            a = a.sin()
            with block(strict):
                a = broken(a)
            stator.graph_break()
            return a - 1

        compiled = stator.compile(fn, backend=K)
        assert torch.equal(compiled(x, False), fn(x, False))
        with pytest.raises(stator.Unsupported, match="broken"):
            compiled(x, True)
        assert stator._C.break_policy() is None and sys.exc_info() == (None, None, None)
        with pytest.raises(stator.Unsupported, match="fn"):
            stator.compile(fn, backend=K, error_on_graph_break=True)(x, False)
        with pytest.raises(stator.Unsupported):
            stator.compile(fn, backend=K, fullgraph=True)(x, False)

    def test_it_stays_behind_a_break_that_is_allowed(self, which, x, K):
        block = blocks()[which]

        @stator.compile(backend=K)
        def fn(a, strict):
            with block(False):
                a = broken(a)
                with block(strict):
                    a = a.cos()
                    stator.graph_break()
                a = a + 1
                stator.graph_break()
            return a - 1

        assert torch.allclose(fn(x, False), ((x + 1) * 2).cos())
        with pytest.raises(stator.Unsupported):
            fn(x, True)
        assert stator._C.break_policy() is None and sys.exc_info() == (None, None, None)

    def test_outside(self, which, x, K):
        compiled = stator.compile(broken, backend=K)
        with blocks()[which](True), pytest.raises(stator.Unsupported):
            compiled(x)
        assert torch.equal(compiled(x), broken(x))

    def test_as_decorator(self, which, x, K):
        block = blocks()[which]
        strict, lax = block(True)(broken), block(False)(broken)
        assert torch.equal(strict(x), broken(x))
        assert torch.equal(stator.compile(lambda a: lax(a) + 1, backend=K)(x), broken(x) + 1)
        with pytest.raises(stator.Unsupported):
            stator.compile(lambda a: strict(a) + 1, backend=K)(x)

    def test_the_innermost_holds(self, which, x, K):
        block = blocks()[which]
        strict = stator.compile(broken, backend=K, error_on_graph_break=True)
        lax = stator.compile(broken, backend=K, error_on_graph_break=False)

        def fn(a, inner):
            with block(inner is lax):
                return inner(a) + 1

        compiled = stator.compile(fn, backend=K)
        assert torch.equal(compiled(x, lax), broken(x) + 1)
        with pytest.raises(stator.Unsupported):
            compiled(x, strict)


class Refused(ValueError):
    def __init__(self, size):
        super().__init__(f"{size} is refused")
        self.size = size


def raising(a, how, log):
    log.append(how)
    a = a + 1
    a.mul_(2)
    match how:
        case "own":
            raise Refused(a.shape[0]) from KeyError("cause")
        case "key":
            return {}[how]
        case "block":
            with torch.no_grad():
                return a.sum("nowhere")
        case "shape":
            return a @ torch.ones(7, 2)
        case "rank":
            with torch.enable_grad():
                return torch.cat([a, a.reshape(1, -1)])
        case "argument":
            return torch.add(a, a, alpha="much")
    return a


@pytest.mark.parametrize("how", ["own", "key", "argument", "block", "shape", "rank"])
def test_an_exception_of_the_program_is_not_a_break(how, x, K):
    def outcome(fn):
        log = []
        with pytest.raises(Exception) as caught:  # noqa: PT011
            fn(x, how, log)
        frames = [(entry.frame.code.name, entry.lineno) for entry in caught.traceback if "stances" in str(entry.path)]
        return type(caught.value), str(caught.value), repr(caught.value.__cause__), frames[1:], log

    def call(a, how, log):
        return raising(a, how, log) * 2

    expected = outcome(call)
    for settings in ({"fullgraph": True}, {"error_on_graph_break": True}):
        compiled = stator.compile(call, backend=K, **settings)
        for _ in range(2):
            assert outcome(compiled) == expected
        assert torch.equal(compiled(x, "none", []), call(x, "none", []))
        stator.reset()


def test_an_error_that_the_program_handles(x, K):
    def known(a):
        try:
            return torch.add(a, a, alpha="much")
        except TypeError as error:
            return a + len(str(error))

    assert torch.equal(stator.compile(known, backend=K, fullgraph=True)(x), known(x))

    def in_words_of_its_own(a):
        try:
            return a @ torch.ones(7)
        except RuntimeError:
            return a

    assert stator.compile(in_words_of_its_own, backend=K)(x) is x
    assert stator.compile(in_words_of_its_own, backend=K, fullgraph=True)(x) is x

    def by_an_operator_that_checks_data(a):
        try:
            return torch.nn.functional.embedding(a, torch.ones(3, 2))
        except RuntimeError:
            return a

    assert stator.compile(by_an_operator_that_checks_data, backend=K)(x) is x
    with pytest.raises(stator.Unsupported):
        stator.compile(by_an_operator_that_checks_data, backend=K, fullgraph=True)(x)


def test_a_trial_is_silent(x):
    def fn(a):
        try:
            return a["key"]
        except (TypeError, IndexError) as error:
            return a, str(error)

    def warned(call):
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            call(x)
        return len(shown)

    assert warned(stator.compile(fn)) <= warned(fn)


def test_blocks_that_were_never_entered(x, K):
    compiled = stator.compile(told, backend=K)
    stance = stator.set_stance("force_eager")
    stance.__exit__()
    assert compiled(x)[0] == 2
    with stance:
        assert compiled(x)[0] == 0
    for block in (stance, stator.error_on_graph_break(True)):
        with pytest.raises(AssertionError, match="never entered"):
            block.__exit__()
    assert compiled(x)[0] == 2


def test_force_backend(x, K):
    other = Counting()
    layer = torch.nn.Linear(3, 2)
    compiled, module = stator.compile(told, backend=K), stator.compile(layer, backend=K)
    with stator.set_stance(force_backend=other):
        assert compiled(x)[0] == 2 and torch.equal(module(x), layer(x))
        assert (K.count, other.count) == (0, 2)
        with stator.set_stance("force_eager"):
            assert compiled(x)[0] == 0
        assert compiled(x)[0] == 2 and (K.count, other.count) == (0, 2)
    assert compiled(x)[0] == 2 and (K.count, other.count) == (1, 2)

    @stator.set_stance(force_backend="eager")
    def by_name(a):
        return compiled(a)

    assert by_name(x)[0] == 2 and (K.count, other.count) == (1, 2)
    for wrong in ({"stance": "force_eager", "force_backend": K}, {"force_backend": 3}):
        with pytest.raises(stator.InvalidOption, match="backend"):
            stator.set_stance(**wrong)
    with stator.set_stance(force_backend="nonesuch"), pytest.raises(stator.StatorError, match="nonesuch"):
        compiled(x)
    assert compiled(x)[0] == 2 and (K.count, other.count) == (1, 2)


def test_our_own_backend_comes_before_torchs(x, K):
    import torch._dynamo

    other = Counting()
    compiled = stator.compile(told)
    with torch.compiler.set_stance(force_backend=other), stator.set_stance(force_backend=K):
        assert compiled(x)[0] == 2 and (K.count, other.count) == (1, 0)


GLOBAL = [2.0]


def scaled(a, settings):
    return a * GLOBAL[0] * settings["factor"] + len(GLOBAL)


def test_guards_that_are_skipped(x, K):
    compiled = stator.compile(scaled, backend=K)
    settings = {"factor": 3.0}
    try:
        compiled(x, settings)
        with stator.set_stance(skip_guard_eval_unsafe=True):
            GLOBAL[0] = 5.0
            for _ in range(3):
                assert compiled(x, settings)[0] == 7 and K.count == 1
            GLOBAL[0] = "text"  # of another type
            with pytest.raises(TypeError):
                compiled(x, settings)
            GLOBAL[0] = 5.0
            with torch.no_grad():
                assert compiled(x, settings)[0] == 16
        assert compiled(x, settings)[0] == 16
    finally:
        GLOBAL[:] = [2.0]


def test_guards_that_are_skipped_behind_a_break(x):
    @stator.compile
    def fn(a):
        a = a + 1
        stator.graph_break()
        return a * GLOBAL[0]

    try:
        assert fn(x)[0] == 4
        GLOBAL[0] = 3.0
        with stator.set_stance("fail_on_recompile", skip_guard_eval_unsafe=True):
            assert fn(x)[0] == 4
        assert fn(x)[0] == 6
    finally:
        GLOBAL[:] = [2.0]


def test_names_of_stances():
    for name in stator._C.stances():
        stator.set_stance(name)
    with pytest.raises(stator.InvalidOption, match="bogus"):
        stator.set_stance("bogus")


def test_an_operator_of_the_users_is_not_tried(x):
    seen = []
    with torch.library._scoped_library("stator_trial", "FRAGMENT") as library:
        library.define("noted(Tensor x) -> Tensor")
        library.impl("noted", lambda t: seen.append(t.tolist()) or t + 1, "CPU")

        def fn(a):
            return torch.ops.stator_trial.noted(a) * 2, torch.ops.stator_trial.noted.default(a)

        assert [t.tolist() for t in stator.compile(fn)(x)] == [[4.0] * 3, [2.0] * 3]
        assert seen == [[1.0] * 3] * 2
        with pytest.raises(stator.Unsupported):
            stator.compile(fn, fullgraph=True)(x)
        assert len(seen) == 2


def test_a_copied_tensor_is_warned_of(x):
    def fn(a):
        return torch.tensor(a) + 1

    compiled = stator.compile(fn, fullgraph=True)

    def seen(call):
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            result = call(x)
        return result.tolist(), [(w.category, str(w.message), w.filename, w.lineno) for w in shown]

    expected = seen(fn)
    assert len(expected[1]) == 1
    for _ in range(3):
        assert seen(compiled) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            compiled(x)
