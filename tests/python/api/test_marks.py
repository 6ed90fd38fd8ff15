"""Marks on functions and tensors, by Stator's names and by torch's."""

import binascii
import os
import sys
import zlib

import pytest
import torch

import stator
from tests.python.helpers import collect


@pytest.fixture
def x():
    return torch.ones(3)


@pytest.fixture(params=["own", "torch"])
def api(request):
    """The namespaces that provide the functions."""
    if request.param == "own":
        return stator
    import torch._dynamo

    return torch._dynamo.decorators


@pytest.fixture
def undo():
    """Removes torch's marks, which otherwise stay for the whole process."""
    before = set(stator.marks.disallowed)
    yield
    stator.marks.disallowed.clear()
    stator.marks.disallowed.update(before)
    if rules := sys.modules.get("torch._dynamo.trace_rules"):
        rules._disallowed_callable_ids.function_ids -= {id(torch.trunc), id(torch.frac)}


def test_disallowed_functions_break(api, undo, x, K):
    assert api.disallow_in_graph(torch.trunc) is torch.trunc
    assert api.disallow_in_graph([torch.frac]) == [torch.frac]

    def fn(a):
        return torch.trunc(a + 1.5) + torch.frac(a * 2)

    assert torch.equal(stator.compile(fn, backend=K)(x), fn(x))
    assert stator.counters()["breaks"] == {"disabled": 2} and K.count == 3
    with pytest.raises(stator.Unsupported, match=r"trunc: disallowed in graphs"):
        stator.compile(fn, fullgraph=True)(x)


def test_the_last_mark_counts(x):
    def helper(a):
        return a * 2

    compiled = {
        mark: stator.compile(lambda a: helper(a) + 1, fullgraph=True)
        for mark in (stator.disallow_in_graph, stator.allow_in_graph)
    }
    stator.disallow_in_graph(helper)
    with pytest.raises(stator.Unsupported):
        compiled[stator.disallow_in_graph](x)
    stator.allow_in_graph(helper)
    assert torch.equal(compiled[stator.allow_in_graph](x), x * 2 + 1)


def test_marks_end_with_their_functions():
    before = len(stator.marks.disallowed)
    for _ in range(100):
        stator.disallow_in_graph(lambda a: a)
    collect()
    assert len(stator.marks.disallowed) <= before + 1


def test_forbidden_functions_break(x, K):
    from torch._dynamo import forbid_in_graph

    @forbid_in_graph
    def helper(a):
        return a * 2

    def fn(a):
        return helper(a + 1) + 1

    assert torch.equal(stator.compile(fn, backend=K)(x), fn(x)) and stator.counters()["breaks"] == {"disabled": 1}
    with pytest.raises(stator.Unsupported, match="helper: forbidden in graphs"):
        stator.compile(fn, fullgraph=True)(x)


def test_substitutes(api, x, K):
    original = {stator: binascii.crc32}.get(api, zlib.crc32)

    @api.substitute_in_graph(original, skip_signature_check=True)
    def table(data, value=0, /):
        if len(data) > 3:
            return original(data, value)  # the original, although it is substituted
        return {b"a": 3904355907, b"b": 1908338681}[data]

    def fn(a, data):
        return a * (original(data) % 7), a + table(data) % 5

    compiled = stator.compile(fn, backend=K, fullgraph=True)
    for data in (b"a", b"b"):
        assert [t.tolist() for t in compiled(x, data)] == [t.tolist() for t in fn(x, data)]
    assert K.count == 2
    partly = stator.compile(fn)
    assert [t.tolist() for t in partly(x, b"long")] == [t.tolist() for t in fn(x, b"long")]


def test_a_substitute_of_a_python_function(api, x, K):
    calls = []

    def helper(k, *, scale=1):
        calls.append(os.getpid())
        return k * scale

    @api.substitute_in_graph(helper)
    def plain(k, *, scale=1):
        return k * scale

    def fn(a):
        return helper(a, scale=3) + plain(a)

    assert torch.equal(stator.compile(fn, backend=K, fullgraph=True)(x), x * 4)
    assert not calls and K.count == 1
    assert plain(2) == 2 and len(calls) == 1  # outside a capture it is the original


def test_a_break_in_a_substitute_calls_the_original(api, x):
    calls = []

    def helper(a):
        calls.append("original")
        return a * 2

    @api.substitute_in_graph(helper)
    def broken(a):
        stator.graph_break()
        return a * 2

    def fn(a):
        return helper(a + 1) + 1

    compiled = stator.compile(fn)
    for count in (1, 2, 3):
        assert torch.equal(compiled(x), x * 5) and calls == ["original"] * count


def test_another_function_is_not_substituted(x):
    def one(k):
        return k + 1

    def other(k):
        return k - 1

    @stator.substitute_in_graph(one)
    def substitute(k):
        return 1 + k

    compiled = stator.compile(lambda a, function: function(a))
    for function in (one, other, one, substitute):
        assert torch.equal(compiled(x, function), function(x))


def test_what_cannot_be_a_substitute():
    def one(k):
        return k

    with pytest.raises(stator.InvalidTarget):
        stator.substitute_in_graph(3)
    with pytest.raises(stator.InvalidTarget):
        stator.substitute_in_graph(one)(len)
    with pytest.raises(TypeError, match="takes"):
        stator.substitute_in_graph(one)(lambda other: other)
    stator.substitute_in_graph(one)(lambda *args, **kwargs: args[0])
    with pytest.raises(ValueError, match="already"):
        stator.substitute_in_graph(one)(lambda k: k)


def test_results_assumed_constant(x):
    calls = []

    @stator.assume_constant_result
    def table(name):
        calls.append(name)
        return len(name)

    compiled = stator.compile(lambda a: a * table("three"), fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(x), x * 5)
    assert calls == ["three"]
    with pytest.raises(stator.InvalidTarget):
        stator.assume_constant_result(3)


@pytest.mark.parametrize(
    "name, args",
    [
        ("mark_dynamic", (0,)),
        ("maybe_mark_dynamic", (1,)),
        ("mark_unbacked", ((0, 1),)),
        ("mark_static", (0,)),
        ("mark_static_address", ()),
    ],
)
def test_marks_of_tensors(name, args):
    from torch._dynamo import decorators

    one, other = torch.ones(2, 3), torch.ones(2, 3)
    getattr(stator, name)(one, *args)
    getattr(decorators, name)(other, *args)
    for tensor in (one, other):  # torch has a class of its own for the ranges
        if (ranges := vars(tensor).get("_dynamo_dynamic_range")) is not None:
            tensor._dynamo_dynamic_range = {(each.dim, each.min, each.max) for each in ranges}
    # For several dimensions, torch keeps the last one's entry alone.
    attributes, expected = dict(vars(one)), dict(vars(other))
    assert expected.pop("_specialize_on", {}).items() <= attributes.pop("_specialize_on", {}).items()
    assert attributes == expected and attributes

    def fn(a):
        return a * a.shape[0]

    compiled = stator.compile(fn, fullgraph=True)
    for tensor in (one, torch.ones(4, 3), other):
        assert torch.equal(compiled(tensor), fn(tensor))

    def marking(a):
        b = a + 1
        getattr(stator, name)(b, *args)
        return b

    # Inside a graph sizes are static, and torch sets no attributes.
    expected = set() if name == "mark_static" else vars(one).keys()
    assert vars(stator.compile(marking)(one)).keys() == expected


def test_what_can_be_marked(x):
    def one(a):
        return a

    def two(a):
        return a

    assert stator.allow_in_graph([one, two]) == [one, two] and stator.allow_in_graph(one) is one
    for mark in (stator.allow_in_graph, stator.disallow_in_graph, stator.nonstrict_trace):
        with pytest.raises(stator.InvalidTarget):
            mark(3)
