"""Compiled calls in torch's profiler."""

import torch

import stator


def f(x):
    return x.sin() + 1


def ranges(run):
    """Stator's ranges in a profile of `run()`: name, start, end; and the operators in the same form."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    events = [(event.name, event.time_range.start, event.time_range.end) for event in profile.events()]
    return [e for e in events if e[0].startswith("Stator: ")], [e for e in events if e[0].startswith("aten::")]


def test_a_hit_shows_its_compile_id(K):
    compiled = stator.compile(f, backend=K)
    x = torch.ones(3)
    compiled(x)
    ours, operators = ranges(lambda: compiled(x))
    assert [name for name, *_ in ours] == ["Stator: 0/0 f"]
    (_, start, end) = ours[0]
    inside = [name for name, since, until in operators if start <= since and until <= end]
    assert "aten::sin" in inside and "aten::add" in inside


def test_each_entry_has_its_own():
    compiled = stator.compile(f)
    x, y = torch.ones(3), torch.ones(3, dtype=torch.float64)
    compiled(x), compiled(y)
    ours, _ = ranges(lambda: (compiled(y), compiled(x)))
    assert [name for name, *_ in ours] == ["Stator: 0/1 f", "Stator: 0/0 f"]


def test_parts_round_a_break():
    def parts(x):
        y = x.sin()
        stator.graph_break()
        return y.cos()

    compiled = stator.compile(parts)
    x = torch.ones(3)
    compiled(x)
    ours, operators = ranges(lambda: compiled(x))
    assert len(ours) == 2 and len({name for name, *_ in ours}) == 2
    for operator, (_, start, end) in zip(("aten::sin", "aten::cos"), ours, strict=True):
        assert [n for n, since, until in operators if start <= since and until <= end] == [operator]


def test_a_range_ends_with_an_error():
    def bad(x):
        return torch.linalg.cholesky(x)

    compiled = stator.compile(bad)
    compiled(torch.eye(3))

    def run():
        try:
            compiled(-torch.eye(3))
        except torch.linalg.LinAlgError:
            pass
        compiled(torch.eye(3))

    ours, _ = ranges(run)
    assert len(ours) == 2 and ours[0][2] <= ours[1][1]
