"""Sizes and numbers that depend on data: captured in one graph, replayed on other data, equal to plain Python."""

import pytest
import torch

import stator
from tests.python.helpers import Counting, assert_same

F = torch.float32


def t(*values, **options):
    return torch.tensor(values, **options)


IN_ONE_GRAPH = {}


def in_one_graph(*calls):
    """Registers a program that is captured in one graph, once for all of its calls."""

    def add(program):
        IN_ONE_GRAPH[program.__name__] = (program, calls)
        return program

    return add


masks = [(t(1.0, -2.0, 3.0),), (t(1.0, 2.0, 3.0),), (t(-1.0, -2.0, -3.0),)]


@in_one_graph(*masks)
def mask(x):
    kept = x[x > 0]
    return kept * 2, kept + kept, kept.sum(), kept.shape, kept.shape[0], len(kept), kept.numel()


@in_one_graph((torch.eye(3),), (torch.zeros(3, 3),), (torch.ones(3, 3),))
def positions(x):
    where = torch.nonzero(x)
    rows, columns = where.unbind(1)
    return where, rows, columns, x[rows, columns], where.shape[0] + 1


@in_one_graph((torch.ones(4, 3), t(0, 2)), (torch.ones(4, 3), t(5, 1)))
def sums_of_sizes(x, places):
    count = int(places.max()) + 1
    front, back, both = x.shape[:1] + (count,), (count,) + x.shape[1:], x.shape + torch.Size((count,))
    made = x.new_zeros(front), x.new_ones(back), torch.zeros(both)
    return made, type(front), type(back), type(both), front[1], len(both), back == (count, 3)


@in_one_graph((torch.eye(3),), (torch.zeros(3, 3),))
def positions_as_tuple(x):
    return x[torch.nonzero(x, as_tuple=True)], torch.where(x > 0.5), torch.argwhere(x)


@in_one_graph((torch.arange(12.0).view(4, 3),), (-torch.ones(4, 3),))
def rows(x):
    kept = x[x.sum(1) > 5]
    return (
        kept @ torch.ones(3, 2),
        kept.mean(0),
        kept.sum(1, keepdim=True),
        kept.t(),
        kept[:, 1],
        kept.max(1).values.sum(),
    )


@in_one_graph((torch.arange(6.0), t(True, False, True, False, False, False)), (torch.arange(6.0), torch.ones(6) > 0))
def mask_of_another(x, m):
    y = x[m]
    z = torch.cat([y, x, y])
    return z, z.shape[0], torch.zeros_like(y), y.clone(), y.double(), y.unsqueeze(0) + 1


@in_one_graph((torch.arange(12.0).view(4, 3),), (-torch.ones(4, 3),), (torch.ones(4, 3),))
def reshaped(x):
    kept = x[x.sum(1) > 5]
    picked = x[None, (x > 0).any(1).nonzero().squeeze(1)]
    flat = picked.reshape(-1, 3)
    return (
        kept.view(-1),
        kept.reshape(-1, 1, 3) + 1,
        kept.flatten(),
        kept.flatten(0, 1).shape[0],
        flat @ torch.ones(3, 2),
        flat.shape,
        kept.view(kept.shape[0], 3, 1),
        kept.reshape(kept.shape[0] * 3).sum(),
        kept.view_as(kept),
        kept.ravel() * 2,
    )


@in_one_graph((t(3, 1, 3, 2),), (t(5, 5, 5, 5),))
def unique(x):
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    return values, inverse, counts, values[inverse], torch.unique(x), len(counts)


@in_one_graph((t(1, 1, 2, 2, 1),), (t(4, 4, 4, 4, 4),))
def consecutive(x):
    values, counts = torch.unique_consecutive(x, return_counts=True)
    return values * counts, values.sum()


@in_one_graph((t(1.0, 2.0, 3.0), t(0, 2, 1)), (t(1.0, 2.0, 3.0), t(3, 3, 3)))
def repeats(x, n):
    y = torch.repeat_interleave(x, n)
    return y, y.shape[0], torch.repeat_interleave(n)


@in_one_graph((t(1.0, 5.0),), (t(-1.0, 0.5),))
def selected(x):
    return torch.masked_select(x, x > 0.7) - 1, torch.masked_select(x, x > 9).sum()


@in_one_graph((t(1.5, 2.5), t(3)), (t(0.5, -2.5), t(0)))
def numbers(x, n):
    m, k = x.max().item(), n.item()
    y = x - m
    z = m - x
    return y, z, x * k, k * x, x / (k + 1), m, k, -m, k + 1, k * 2 - 3, m * k, k / 4, abs(m), k // 2, k % 2, not k


@in_one_graph((t(1.5, 2.5), t(3)), (t(0.5, -2.5), t(0)))
def numbers_as_arguments(x, n):
    m, k = x.max().item(), n.item()
    return (
        x.clamp(max=m),
        x > m,
        m < x,
        x**m,
        torch.full((2,), m),
        torch.add(x, m, alpha=2),
        x.add_(k),
        torch.where(x > 0, m, x),
    )


@in_one_graph(
    (torch.arange(5.0), t(2)), (torch.arange(5.0), t(-1)), (torch.arange(5.0), t(9)), (torch.arange(5.0), t(0))
)
def slices(x, n):
    k = int(n)
    return x[:k], x[k:], x[:k].sum(), x[:k] + 1, x[:k].shape[0], x[:k] * x[:k], float(n), k


@in_one_graph((torch.arange(6.0).view(2, 3), t(1)), (torch.arange(6.0).view(2, 3), t(-2)))
def picked(x, n):
    k = n.item()
    return x[k], x.select(1, k), x.select(0, k) * 2


@in_one_graph((t(3),), (t(0),), (t(7),))
def factories(n):
    k = n.item()
    z = torch.zeros(k, 2)
    return (
        z,
        torch.ones(k) + torch.arange(k),
        torch.arange(k).sum(),
        z.shape,
        z + torch.ones(2),
        torch.full((k, 2), 1.5),
    )


@in_one_graph((t(1.0, 2.0),), (t(4.0, 3.0),), (t(float("nan"), 1.0),))
def extremes(x):
    a, b = x[0].item(), x[1].item()
    return max(a, b), min(a, b), max([a, b]) * x, a < b, a == b, max(a, b) >= min(a, b)


@in_one_graph((t(1.25, 2.0),), (t(4.0, 3.0),))
def texts(x):
    m, k = x.sum().item(), x.argmax().item()
    return f"{m:.3f} and {k}", str(m), repr(k), f"{m!r}", format(m, "8.1e"), f"{k:>4}", "a" + "b"


@in_one_graph((t(1.25, 2.0),), (t(4.0, 3.0),))
def texts_of_tensors(x):
    return f"loss {x.sum():.3f} at {x.argmax()}, {(x > 2).any()}", f"{x[0]}", format(x.mean(), ".2e")


@in_one_graph((t(1.0, -1.0),), (t(-1.0, -1.0),))
def truths(x):
    a = bool((x > 0).any())
    return a, not a, x * a, int(a) + 1, a == True  # noqa: E712


@in_one_graph((t(1.0, -1.0),), (t(2.0, 2.0),))
def containers(x):
    k = x.sum().item()
    return {"k": k, "both": [k, (k + 1, x)]}, isinstance(k, float), type(k) is float


@in_one_graph((t(2.0, 1.0),), (t(1.0, 1.0),))
def checked(x):
    if x.sum().item() < 0:
        raise ValueError("negative")
    if not len(x[x > 0]) > 0:
        raise ValueError("nothing")
    return x.sqrt()


@pytest.mark.parametrize("name", IN_ONE_GRAPH)
def test_is_in_one_graph(name):
    program, calls = IN_ONE_GRAPH[name]
    stator.reset()
    compiled = stator.compile(program, fullgraph=True)
    for _ in range(2):
        for call in calls:
            expected = program(*(a.clone() for a in call))
            assert_same(compiled(*(a.clone() for a in call)), expected)
    assert stator.counters()["captures"]["graphs"] == 1, "other data means no other graph"


@pytest.mark.parametrize("name", IN_ONE_GRAPH)
def test_goes_through_torch_fx(name):
    program, calls = IN_ONE_GRAPH[name]
    stator.reset()
    backend = Counting()
    compiled = stator.compile(program, backend=backend)
    for call in calls:
        assert_same(compiled(*(a.clone() for a in call)), program(*(a.clone() for a in call)))
    assert backend.count >= 1


def test_gradients():
    def program(x, n):
        kept = x[x > 0] * n.item()
        return kept.sum() + x[: n.item()].prod()

    compiled = stator.compile(program, fullgraph=True)
    for values, n in (([1.0, -2.0, 3.0], 2), ([-1.0, -2.0, -3.0], 1), ([4.0, 5.0, 6.0], 3)):
        x, y = (torch.tensor(values, requires_grad=True) for _ in range(2))
        compiled(x, t(n)[0]).backward()
        program(y, t(n)[0]).backward()
        assert_same(x.grad, y.grad)


def test_python_integers_do_not_overflow():
    def program(n):
        k = n.item()
        return k + 1, k * 2, n + 1

    compiled = stator.compile(program, fullgraph=True)
    for value in (1, 2**63 - 1, -(2**63)):
        assert_same(compiled(torch.tensor(value)), program(torch.tensor(value)))


def test_a_division_by_zero_is_raised_at_its_line():
    def program(x, n):
        return x / (10 / n.item())

    compiled = stator.compile(program, fullgraph=True)
    assert_same(compiled(t(1.0), torch.tensor(4)), program(t(1.0), torch.tensor(4)))
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        compiled(t(1.0), torch.tensor(0))


@pytest.mark.parametrize("unused", [lambda n: 0 // n, lambda n: (1 // n) - (1 // n), lambda n: (1 % n) * 0])
def test_a_division_whose_result_is_not_used_is_raised(unused):
    def program(x, n):
        unused(n.item())
        return x + 1

    compiled = stator.compile(program, fullgraph=True)
    assert_same(compiled(t(1.0), torch.tensor(4)), program(t(1.0), torch.tensor(4)))
    with pytest.raises(ZeroDivisionError):
        compiled(t(1.0), torch.tensor(0))


@pytest.mark.parametrize("turns", [60, 5000])
def test_numbers_that_grow_in_a_loop(turns):
    def program(x):
        n, total, ratio = x.sum().item(), 0, 0.5
        for i in range(turns):
            n = (n * n + i) % 1009
            total += n
            ratio = ratio * 0.75 + n
        return n, total, ratio, x + n

    stator.reset()
    compiled = stator.compile(program, fullgraph=True)
    for values in ((1, 2), (3, 4), (500, 7)):
        assert_same(compiled(t(*values)), program(t(*values)))
    assert stator.counters()["captures"]["graphs"] == 1


def test_a_sum_that_grows_in_a_loop_takes_a_node_a_term():
    def nodes(turns):
        def program(x):
            n, odd, total = x.sum().item(), 0, 0
            for i in range(turns):
                n = (n * n + i) % 1009
                total += n
                odd += 2 * n
            return x * total + odd

        return str(stator.explain(program)(t(1, 2)).details()).count("stator::number")

    few, many = nodes(20), nodes(40)
    assert few > 40 and many < 2.2 * few


def test_numbers_after_a_write_break_where_they_could_fail():
    def program(x, n):
        x.add_(1)
        return x, 10 / n.item()

    compiled = stator.compile(program)
    for n in (4, 0, 5):
        x, y = t(1.0), t(1.0)
        if n == 0:
            for fn, a in ((compiled, x), (program, y)):
                with pytest.raises(ZeroDivisionError):
                    fn(a, torch.tensor(n))
        else:
            assert_same(compiled(x, torch.tensor(n)), program(y, torch.tensor(n)))
        assert_same(x, y)


def breaking_branch(x):
    kept = x[x > 0]
    if kept.shape[0] > 1:
        return kept * 2
    return kept - 1


def breaking_index(x):
    table = [1, 2, 3, 4]
    return x * table[(x > 0).sum().item()]


def breaking_loop(x):
    total = x.sum() * 0
    for v in x[x > 0]:
        total = total + v
    return total


def breaking_strides(x):
    kept = x[x > 0]
    return kept.stride(), kept + 1


def breaking_sizes(x):
    a, b = x[x > 0], x[x > 1]
    return a.sum() + b.sum() if a.shape != b.shape else (a + b).sum()


def breaking_range(x):
    return [x + i for i in range((x > 0).sum().item())]


def breaking_view(x):
    return x[x > 0].view(-1, 1).t().reshape(-1), torch.zeros(3).view(x[x > 0].shape[0] + 3 - x[x > 0].shape[0])


def failing_view(x):
    try:
        return x[x > 0].view(2, -1)
    except RuntimeError as error:
        return str(error)


def breaking_key(x):
    return {1: x, 2: -x, 3: x * 2, 0: x}[(x > 0).sum().item()]


@pytest.mark.parametrize(
    "program",
    [
        breaking_branch,
        breaking_index,
        breaking_loop,
        breaking_strides,
        breaking_sizes,
        breaking_range,
        breaking_view,
        failing_view,
        breaking_key,
    ],
)
def test_what_needs_the_value_breaks_there(program):
    stator.reset()
    compiled = stator.compile(program)
    for (x,) in [*masks, *masks]:
        assert_same(compiled(x), program(x))


def test_a_graph_with_numbers_prints_and_parses():
    stator.reset()
    records = []
    before = stator._C.set_capture_listener(records.append)
    try:
        compiled = stator.compile(slices, fullgraph=True)
        compiled(torch.arange(5.0), t(2)[0])
    finally:
        stator._C.set_capture_listener(before)
    graph = next(record["graph"] for record in records if record.get("graph") is not None)
    text = str(graph)
    assert "stator::item" in text and "stator::size" in text
    again = stator._C.Graph.parse(text)
    assert str(again) == text
    assert_same(again.run(t(3)[0], torch.arange(5.0)), graph.run(t(3)[0], torch.arange(5.0)))


class TestIntegersThatAreGuarded:
    """With fullgraph, an integer in an input tensor that the program has to know is read and guarded."""

    @staticmethod
    def check(program, *calls):
        stator.reset()
        compiled = stator.compile(program, fullgraph=True)
        for _ in range(2):
            for call in calls:
                assert_same(compiled(*call), program(*call))
        return stator.counters()["captures"]["graphs"]

    def test_the_index_of_a_list(self):
        def program(x, n):
            return [torch.relu, torch.tanh, torch.abs][n.item()](x)

        assert self.check(program, *((t(-1.0, 2.0), torch.tensor(n)) for n in (0, 1, 2, -1))) == 4

    @pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.int64])
    def test_a_branch(self, dtype):
        def program(x, n):
            if n.item():
                return x + 1, n.item()
            return x - 1, n.item()

        assert self.check(program, *((t(1.0), torch.tensor(n, dtype=dtype)) for n in (0, 1, 0))) == 2

    def test_numbers_that_need_not_be_known_are_not(self):
        def program(x, n):
            return x * n.item()

        assert self.check(program, *((t(1.0), torch.tensor(n)) for n in range(4))) == 1

    @pytest.mark.parametrize(
        "write", [lambda n: n.add_(1), lambda n: n.view(1)[0].add_(1), lambda n: n.copy_(torch.tensor(1))]
    )
    def test_what_was_written_is_not_known(self, write):
        def program(x, n):
            write(n)
            return x + 1 if n.item() else x - 1

        compiled = stator.compile(program, fullgraph=True)
        with pytest.raises(stator.Unsupported, match="depends on"):
            compiled(t(1.0), torch.tensor(-1))

    def test_floats_are_not_known(self):
        def program(x):
            return x + 1 if x.item() > 0 else x - 1

        with pytest.raises(stator.Unsupported, match="depends on"):
            stator.compile(program, fullgraph=True)(torch.tensor(1.0))

    def test_the_reason_of_a_new_capture_names_the_number(self):
        def program(x, n):
            return [x + 1, x - 1][n.item()]

        records = []
        before = stator._C.set_capture_listener(records.append)
        try:
            self.check(program, (t(1.0), torch.tensor(0)), (t(1.0), torch.tensor(1)))
        finally:
            stator._C.set_capture_listener(before)
        assert "holds 0" in records[1]["recompile_reason"] and "holds 1" in records[1]["recompile_reason"]


def test_zero_is_an_operand_of_a_graph_for_a_backend():
    def program(x, n):
        return x * (1 + (n.item() - 1) * 0)

    compiled = stator.compile(program, backend=lambda gm, inputs: torch.fx.GraphModule(gm, gm.graph))
    args = torch.ones(2), torch.tensor(3.0)
    assert_same(compiled(*args), program(*args))
