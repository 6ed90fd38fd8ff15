"""Calls of one function in many forms: each argument must reach its parameter, with the current defaults."""

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures, check_parity

pytestmark = pytest.mark.usefixtures("capture_table")

x, y, z = torch.ones(2, 3), torch.full((2, 3), 2.0), torch.full((2, 3), 3.0)


def outcome(function, args, kwargs):
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        return str(error)


def agrees(compiled, plain, *calls):
    """All calls in turn, several rounds, so that each form meets the entries that the others left. In the last round
    nothing is captured, and every call whose arguments fit the parameters is a hit."""
    for _ in range(5):
        captured, hits = captures(), stator.counters()["cache"].get("hits", 0)
        fitting = 0
        for args, kwargs in calls:
            expected = outcome(plain, args, kwargs)
            fitting += not isinstance(expected, str)
            assert_same(outcome(compiled, args, kwargs), expected)
    assert captures() == captured, "captured again for an equal call"
    assert stator.counters()["cache"].get("hits", 0) - hits >= fitting, "no entry answered an equal call"


def plain_parameters(a, b=y, *, c=1.0, d=None):
    return a * 2 + b * 3 + c + (0 if d is None else d)


def only_positional(a, b=y, /, c=2):
    return a - b * c


def open_ended(a, *rest, scale=1, **named):
    for i, t in enumerate(rest):
        a = a + t * (i + 2)
    for key, t in named.items():
        a = a * 2 + (t if key == "m" else -t)
    return a * scale


def keeps_rest(a, *rest, **named):
    return a + 1, rest, named


def same_names(a, /, **named):
    return a + named["a"]


def not_the_same(*ts):
    return ts[0] + 1 if ts[0] is ts[1] else ts[0] - ts[1]


FORMS = {
    plain_parameters: [
        ((x,), {}),
        ((x, z), {}),
        ((x,), {"b": z}),
        ((), {"a": x, "b": z}),
        ((), {"b": z, "a": x}),
        ((x,), {"c": 5.0}),
        ((x,), {"c": 5.0, "d": 7}),
        ((x,), {"d": 7, "c": 5.0}),
        ((x,), {"c": 5, "d": 7.0}),
        ((x, y, z), {}),
        ((), {}),
        ((x,), {"a": y}),
        ((x,), {"unknown": y}),
    ],
    only_positional: [((x,), {}), ((x, z), {}), ((x, z, 3), {}), ((x, z), {"c": 3}), ((x,), {"b": z}), ((), {"a": x})],
    open_ended: [
        ((x,), {}),
        ((x, y), {}),
        ((x, y, z), {}),
        ((x, z, y), {}),
        ((x,), {"m": y}),
        ((x,), {"m": y, "n": z}),
        ((x,), {"n": z, "m": y}),
        ((x,), {"n": y, "m": z}),
        ((x, y), {"scale": 3, "m": z}),
        ((x, y), {"m": z, "scale": 3}),
        ((x, y), {"m": z, "scale": 4}),
        ((), {"a": x, "m": y}),
    ],
    keeps_rest: [((x,), {}), ((x, y), {"k": z}), ((x, y, z), {"j": 1})],
    same_names: [((x,), {"a": y}), ((y,), {"a": x}), ((x, y), {})],
    not_the_same: [((x, x), {}), ((x, y), {}), ((y, y), {}), ((y, x), {})],
}


@pytest.fixture(autouse=True)
def many_entries():
    with stator.config.patch(recompile_limit=64):
        yield


@pytest.mark.parametrize("function", FORMS, ids=lambda f: f.__name__)
def test_forms(function):
    compiled = stator.compile(function)
    for call in FORMS[function]:
        agrees(compiled, function, call)
    agrees(compiled, function, *FORMS[function])


def test_defaults_change():
    def f(a, b=y, *, c=2.0):
        return a + b * c

    compiled = stator.compile(f)
    agrees(compiled, f, ((x,), {}))
    for defaults, kwdefaults in [
        ((z,), {"c": 2.0}),
        ((z,), {"c": 3.0}),
        ((y,), {"c": 2.0}),
        ((y,), None),
        (None, {"c": 1}),
    ]:
        f.__defaults__, f.__kwdefaults__ = defaults, kwdefaults
        agrees(compiled, f, ((x,), {}), ((x, z), {"c": 4.0}))
    f.__defaults__, f.__kwdefaults__ = (y,), {"c": 2.0}
    agrees(compiled, f, ((x,), {}))
    f.__kwdefaults__["c"] = 9.0
    agrees(compiled, f, ((x,), {}))
    del f.__kwdefaults__["c"]
    agrees(compiled, f, ((x,), {}))


def test_unused_keyword_default_that_goes():
    def f(a, *, c=2.0):
        return a + 1

    compiled = stator.compile(f)
    agrees(compiled, f, ((x,), {}))
    f.__kwdefaults__ = None
    agrees(compiled, f, ((x,), {}), ((x,), {"c": 1}))


def test_dicts_in_calls_of_two_forms():
    """The same dict passed by position and by name, among other arguments."""

    def f(d, *, extra=None):
        return d["t"] * 2 + d["k"]

    first, second = {"t": x, "k": 1}, {"t": y, "k": 1}
    compiled = stator.compile(f)
    calls = [((first,), {}), ((), {"d": first}), ((second,), {}), ((), {"d": second}), ((first,), {}), ((second,), {})]
    agrees(compiled, f, *calls)
    first["t"] = z
    agrees(compiled, f, *calls)


def test_names_that_are_not_interned():
    def f(**named):
        return named["value"] + 1

    compiled = stator.compile(f)
    for _ in range(5):
        name = "".join(["va", "lue"])
        assert_same(compiled(**{name: x}), x + 1)


def test_methods_and_unbound_calls():
    class Adder:
        def __init__(self, n):
            self.n = n

        @stator.compile
        def add(self, t, /, *more, by=1):
            return t + self.n * by + len(more)

    for _ in range(4):
        for adder in (Adder(1), Adder(2)):
            for by in (1, 2):
                assert_same(adder.add(x, by=by), x + adder.n * by)
                assert_same(Adder.add(adder, x, y, by=by), x + adder.n * by + 1)


def test_shapes_that_take_turns_by_name():
    def f(**named):
        return named["t"] * 2

    compiled = stator.compile(f)
    tensors = [torch.ones(n, 3) for n in (1, 2, 5)] + [torch.ones(2, 3, dtype=torch.float64)]
    for _ in range(5):
        for t in tensors:
            assert_same(compiled(t=t), t * 2)
    before = stator.counters()["guards"]
    for t in tensors:
        assert_same(compiled(t=t), t * 2)
    assert stator.counters()["guards"]["in_full"] == before["in_full"]


class Sum(torch.nn.Module):
    def forward(self, *ts, scale=1, **named):
        total = sum(ts) if ts else torch.zeros(2, 3)
        for name, t in named.items():
            total = total + t * len(name)
        return total * scale


def test_modules_called_in_every_form():
    plain = Sum()
    compiled = stator.compile(plain)
    many = {f"argument_{i}": x * i for i in range(30)}
    calls = [
        ((x,), {}),
        ((x, y), {}),
        ((x,), {"scale": 2}),
        ((), {"a": y, "bc": z}),
        ((), {"bc": z, "a": y}),
        ((), many),
        ((x,) * 20, {}),
        ((), {}),
    ]
    for call in calls:
        agrees(compiled, plain, call)
    agrees(compiled, plain, *calls)


def test_call_of_a_compiled_module_replaced():
    compiled = stator.compile(Sum())
    for _ in range(3):
        assert_same(compiled(x), x)
    cls = type(compiled)
    own = cls.__call__
    cls.__call__ = lambda self, t: t * 50
    assert_same(compiled(x), x * 50)
    cls.__call__ = own
    assert_same(compiled(x), x)

    class Further(cls):
        def __call__(self, t):
            return super().__call__(t) + 1

    further = object.__new__(Further)
    further.__dict__ = compiled.__dict__
    for _ in range(3):
        assert_same(further(x), x + 1)
    del cls.__call__
    assert_same(compiled(x), x)


def test_arguments_live_as_long_as_the_call():
    """The called code empties the dict that the arguments came in."""
    given = {"t": torch.ones(3)}

    def emptying(gm, example_inputs):
        def run(*args):
            given.clear()
            return gm.forward(*args)

        return run

    class Twice(torch.nn.Module):
        def forward(self, t):
            return t * 2, t

    compiled = stator.compile(Twice(), backend=emptying)
    for _ in range(4):
        given["t"] = torch.ones(3)
        assert_same(compiled(**given), (torch.ones(3) * 2, torch.ones(3)))


@torch.jit.script
def scripted(x, times: int, scale: float = 0.5, negate: bool = False):
    y = x * scale
    for _ in range(times):
        y = y + x.size(0)
    return -y if negate else y


def test_scripted_functions():
    def fn(x, n):
        return scripted(x, n), scripted(x, n, 2.0, True), scripted(x, times=2, scale=n * 0.5)

    x = torch.arange(3)
    check_parity(fn, (x, 1), (x, 3), (x + 1, 3), graphs=2, fullgraph=True)


def test_a_scripted_function_turns_ints_into_floats():
    x = torch.arange(3)
    check_parity(lambda x, n: scripted(x, 1, n) + 1, (x, 2), (x, 3))
