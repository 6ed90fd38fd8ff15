"""Objects that are two when a program is captured and one in a later call, or the other way round.

Each case has a program and several calls. A call makes new arguments, so that the plain and the compiled program
see equal worlds. What the program gives and how it leaves its arguments must agree after each call.
"""

import copy
import functools
import sys
import types
from collections import OrderedDict

import pytest
import torch

import stator
from tests.python.helpers import assert_same, captures


def look(value, known=None):
    """All that can be seen of a value, aliases included: an object that was shown before is its number."""
    known = {} if known is None else known
    if isinstance(value, (int, float, str, bool, type(None), torch.Size)):
        return value
    if id(value) in known:
        return ("again", known[id(value)][0])
    known[id(value)] = len(known), value  # held, so that no other object gets its address
    if isinstance(value, torch.Tensor):
        facts = [value.detach().clone(), value.requires_grad, value.is_leaf, value.storage_offset()]
        facts += [look(value.grad, known) if value.is_leaf else None, look(vars(value), known)]
        return ("tensor", *facts)
    if isinstance(value, (list, tuple)):
        return [look(item, known) for item in value]
    if isinstance(value, dict):
        return [(key, look(item, known)) for key, item in value.items()]
    if isinstance(value, torch.nn.Module):
        parts = [dict(value.named_parameters(remove_duplicate=False)), dict(value.named_buffers())]
        own = {name: item for name, item in vars(value).items() if isinstance(item, (int, float, torch.Tensor))}
        return [look(part, known) for part in [*parts, own]]
    return [type(value).__name__, look(vars(value), known) if hasattr(value, "__dict__") else None]


def attempt(fn, args):
    known = {}
    try:
        result = look(fn(*args), known)
    except Exception as error:
        result = (type(error).__name__, str(error))
    return [result, *(look(arg, known) for arg in args)]


def aot_eager(gm, example_inputs):
    """A backend that computes without writing, and writes what changed at the end, as compilers do."""
    from torch._functorch.aot_autograd import aot_module_simplified

    return aot_module_simplified(gm, example_inputs, fw_compiler=lambda gm, _: gm.forward)


BACKENDS = {"reference": "reference", "aot_eager": aot_eager}


def agree(fn, *makers, backend="reference", rounds=2):
    """Calls in the given order, several times over: captures of each kind meet calls of each other kind."""
    compiled = stator.compile(fn, backend=backend)
    for index, make in enumerate(list(makers) * rounds):
        expected = attempt(fn, make())
        actual = attempt(compiled, make())
        assert_same(actual, expected, f"call {index}")
    assert captures() > 0, stator.counters()


def fresh(n=2, requires_grad=False):
    return [torch.arange(6.0).reshape(2, 3).add(i).requires_grad_(requires_grad) for i in range(n)]


def apart():
    return fresh(2)


def tied():
    (a,) = fresh(1)
    return [a, a]


def with_grads(make):
    def made():
        args = make()
        for arg in args:
            arg.grad = torch.full_like(arg, 3.0)
        return args

    return made


# ---- one tensor by two names


def requires_grad(x, y):
    x.requires_grad_()
    return y.requires_grad, (y * 2).requires_grad


def requires_grad_set(x, y):
    x.requires_grad = True
    return y.requires_grad, y * 2


def grad_written(x, y):
    x.grad = x * 2
    return None if y.grad is None else y.grad + 1


def grad_dropped(x, y):
    x.grad = None
    return y.grad is None, y + 1


def grad_swapped(x, y):
    x.grad, y.grad = y.grad, x.grad
    return x.grad * 1, y.grad * 2


def data_written(x, y):
    x.data = torch.zeros(4)
    return y.shape, y + 1


def data_of_other(x, y):
    x.data = y.data * 2
    y.data = torch.ones(5)
    return x.shape, y.shape, x * 3


def transposed(x, y):
    x.t_()
    return y.shape, y.stride(), y @ torch.ones(y.shape[-1])


def squeezed(x, y):
    x.unsqueeze_(0)
    return y.dim(), y.sum(0)


def strided(x, y):
    x.as_strided_((2, 2), (1, 1))
    return y.shape, y * 2


def detached(x, y):
    z = x * 2
    x.detach_()
    return y.requires_grad, y * z


def attribute(x, y):
    x.tag = 5
    return getattr(y, "tag", 0), y + getattr(y, "tag", 0)


def attribute_of_tensor(x, y):
    x.partner = x + 1
    return y.partner * 2 if hasattr(y, "partner") else y * 3


def attribute_read_first(x, y):
    before = getattr(y, "tag", 1)
    x.tag = before + 1
    return y * getattr(y, "tag", 0)


def attribute_of_both(x, y):
    x.tag = 1
    y.tag = 2
    return x * x.tag + y * y.tag


def resized(x, y):
    x.resize_(3)
    return y.shape, y + 1


def set_storage(x, y):
    x.set_(torch.ones(7))
    return y.shape, y + 1


def hooked(x, y):
    x.requires_grad_()
    y.requires_grad_()
    x.register_hook(lambda g: g * 10)
    (x * 2 + y).sum().backward()
    return x.grad, y.grad


def written_data(x, y):
    x.add_(1)
    return y * 2


def written_both(x, y):
    x.add_(1)
    y.mul_(3)
    x.sub_(2)
    return x + y


def written_through_view(x, y):
    x[0].add_(5)
    return y[0] * 2, y.sum()


def written_then_viewed(x, y):
    v = y[1]
    x.mul_(2)
    return v + 1


def metadata_and_back(x, y):
    x.t_()
    shape = y.shape
    x.t_()
    return shape, x + y


def no_write(x, y):
    return x * 2 + y


PAIRS = [
    requires_grad,
    requires_grad_set,
    grad_written,
    data_written,
    data_of_other,
    transposed,
    squeezed,
    strided,
    detached,
    attribute,
    attribute_of_tensor,
    attribute_read_first,
    attribute_of_both,
    resized,
    set_storage,
    hooked,
    written_data,
    written_both,
    written_through_view,
    written_then_viewed,
    metadata_and_back,
    no_write,
]


@pytest.mark.parametrize("fn", PAIRS, ids=lambda fn: fn.__name__)
def test_two_tensors_then_one(fn):
    agree(fn, apart, tied)


@pytest.mark.parametrize("fn", PAIRS, ids=lambda fn: fn.__name__)
def test_one_tensor_then_two(fn):
    agree(fn, tied, apart)


@pytest.mark.parametrize("fn", [grad_written, grad_dropped, grad_swapped], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("order", [(apart, tied), (tied, apart)], ids=["apart first", "tied first"])
def test_gradients_of_one_tensor(fn, order):
    agree(fn, *map(with_grads, order))


def one_gradient():
    a, b, g = fresh(3)
    a.grad = b.grad = g
    return [a, b]


def gradient_given():
    a, b = fresh(2)
    a.grad = b
    return [a, b]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: (x.grad.t_(), y.grad.shape if y.grad is not None else 0, x * 2),
        lambda x, y: (setattr(x.grad, "tag", 3), getattr(y.grad, "tag", 0), getattr(y, "tag", 0), x * 2),
        lambda x, y: (x.grad.requires_grad_(), y.requires_grad, y * 2),
        lambda x, y: (y.t_(), x.grad.shape, x * 2),
    ],
    ids=["shape", "attribute", "requires_grad", "shape of the other"],
)
def test_gradients_that_are_one(fn):
    agree(fn, with_grads(apart), one_gradient, gradient_given, with_grads(tied))


# ---- in-place writes under backends that compute first and write later


def row_views():
    (base,) = fresh(1)
    return [base[:1], base[:]]


def views_apart():
    (base,) = fresh(1)
    return [base[:1], base[1:]]


def same_data():
    a, b = fresh(2)
    b.data = a.data
    return [a, b]


def base_and_view():
    (base,) = fresh(1)
    return [base, base.view(2, 3)]


def shifted():
    base = torch.arange(9.0)
    return [base[:6].view(2, 3), base[3:].view(2, 3)]


def shifted_less():
    base = torch.arange(9.0)
    return [base[:6].view(2, 3), base[1:7].view(2, 3)]


WRITES = [written_data, written_both, written_through_view, written_then_viewed, no_write]
ORDERS = {
    "tied": [apart, tied],
    "tied first": [tied, apart],
    "same data": [apart, same_data],
    "same data first": [same_data, apart],
    "view": [apart, base_and_view],
    "view first": [base_and_view, apart],
    "shifted": [apart, shifted, shifted_less],
    "shifted first": [shifted, shifted_less, apart],
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("fn", WRITES, ids=lambda fn: fn.__name__)
def test_writes_to_shared_memory(fn, order, backend):
    agree(fn, *ORDERS[order], backend=BACKENDS[backend])


@pytest.mark.parametrize("backend", BACKENDS)
def test_writes_to_rows_of_one_tensor(backend):
    def f(x, y):
        x.add_(1)
        return y.sum()

    agree(f, views_apart, row_views, backend=BACKENDS[backend])


@pytest.mark.parametrize("backend", BACKENDS)
def test_three_names(backend):
    def f(x, y, z):
        x.add_(1)
        y.mul_(2)
        return x + y + z

    def all_apart():
        return fresh(3)

    def pair(i, j):
        def made():
            args = fresh(3)
            args[j] = args[i]
            return args

        return made

    def all_tied():
        return fresh(1) * 3

    agree(f, all_apart, pair(0, 1), pair(0, 2), pair(1, 2), all_tied, backend=BACKENDS[backend])


# ---- writes that autograd follows


def followed(x, y, w):
    x.mul_(w)
    return y.requires_grad, y.is_leaf, x.is_leaf, y * 2


def with_weight(make):
    return lambda: [*make(), torch.full((2, 3), 2.0, requires_grad=True)]


def followed_by_view(x, y, w):
    v = x[0]
    v.mul_(w[0])
    return x.requires_grad, x.is_leaf, y.requires_grad, y.is_leaf, v.is_leaf


@pytest.mark.parametrize("fn", [followed, followed_by_view], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("order", ORDERS)
def test_writes_that_autograd_follows(fn, order):
    agree(fn, *map(with_weight, ORDERS[order]))


def no_leaves():
    return [t * 1 for t in fresh(2, requires_grad=True)]


def one_no_leaf():
    return no_leaves()[:1] * 2


def detached_in_place(x, y):
    x.detach_()
    return x.requires_grad, x.is_leaf, y.requires_grad, y.is_leaf


def hook_then_write(x, y):
    x.register_hook(lambda g: g * 3)
    y.mul_(2)
    z = x * 1
    z.sum().backward()
    return z


def retained_then_written(x, y):
    y.retain_grad()
    x.mul_(2)
    return x.sum() + y.sum()


@pytest.mark.parametrize("fn", [detached_in_place, hook_then_write, retained_then_written], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("order", [(no_leaves, one_no_leaf), (one_no_leaf, no_leaves)], ids=["apart", "tied"])
def test_histories_of_one_tensor(fn, order):
    agree(fn, *order)


# ---- in containers, closures, globals, modules


class Pair(torch.nn.Module):
    def __init__(self, tie):
        super().__init__()
        self.a = torch.nn.Linear(3, 3)
        self.b = torch.nn.Linear(3, 3)
        torch.manual_seed(0)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn_like(p))
        if tie:
            self.b.weight = self.a.weight

    def forward(self, t):
        return self.b(self.a(t))


def freeze(m, t):
    m.a.weight.requires_grad_(False)
    return m.b.weight.requires_grad, m(t)


def clear_gradients(m, t):
    m.a.weight.grad = torch.ones(3, 3)
    return m.b.weight.grad is None, m(t)


def mark_weight(m, t):
    m.a.weight.mark = 1
    return getattr(m.b.weight, "mark", 0), m(t)


def swap_data(m, t):
    m.a.weight.data = m.a.weight.data * 2
    return m(t)


def step(m, t):
    with torch.no_grad():
        m.a.weight.mul_(0.5)
        m.b.weight.add_(1)
    return m(t)


MODULE_PROGRAMS = [
    # AOTAutograd refuses writes to an input's data or requires_grad.
    (fn, backend)
    for fn in (freeze, clear_gradients, mark_weight, swap_data, step)
    for backend in BACKENDS
    if backend == "reference" or fn not in (freeze, swap_data)
]


@pytest.mark.parametrize(("fn", "backend"), MODULE_PROGRAMS)
def test_weights_that_are_tied_after_the_capture(fn, backend):
    mine, theirs = Pair(False), Pair(False)
    compiled = stator.compile(fn, backend=BACKENDS[backend])
    t = torch.ones(2, 3)

    def reset(m):
        m.a.weight.requires_grad_()
        m.b.weight.requires_grad_()
        for p in m.parameters():
            p.grad = None
            vars(p).pop("mark", None)

    def both(change):
        for m in (mine, theirs):
            change(m)
            reset(m)
        assert_same(attempt(compiled, [mine, t]), attempt(fn, [theirs, t]))

    def tie(m):
        m.b.weight = m.a.weight

    def untie(m):
        m.b.weight = torch.nn.Parameter(m.a.weight.detach().clone())

    def share_data(m):
        m.b.weight = torch.nn.Parameter(m.a.weight.detach())

    for change in (lambda m: None, tie, lambda m: None, untie, share_data, lambda m: None, untie, tie):
        # AOTAutograd refuses to write to parameters that share memory.
        if change is not share_data or backend == "reference":
            both(change)
    assert captures() > 0


@pytest.mark.parametrize("names", ["list", "dict", "nested", "attribute", "keyword"])
def test_aliases_by_other_ways(names):
    def body(x, y, t):
        x.t_()
        x.tag = 1
        return y.shape, getattr(y, "tag", 0), t + y.sum()

    def run(holder, t):
        match names:
            case "list":
                return body(holder[0], holder[1], t)
            case "dict":
                return body(holder["x"], holder["y"], t)
            case "nested":
                return body(holder[0]["x"], holder[1][0], t)
            case "attribute":
                return body(holder.x, holder.y, t)
            case "keyword":
                return (lambda *, x, y: body(x, y, t))(**holder)

    def hold(x, y):
        match names:
            case "list":
                return [x, y]
            case "dict" | "keyword":
                return {"x": x, "y": y}
            case "nested":
                return ({"x": x}, [y])
            case _:
                return types.SimpleNamespace(x=x, y=y)

    agree(run, lambda: [hold(*apart()), torch.ones(1)], lambda: [hold(*tied()), torch.ones(1)])


SHARED = {}


def test_aliases_by_globals():
    def f(t):
        SHARED["x"].t_()
        return SHARED["y"].shape, t + 1

    compiled = stator.compile(f)
    for pair in (apart, tied, apart, tied):
        results = []
        for fn in (f, compiled):
            SHARED["x"], SHARED["y"] = pair()
            results.append(look(fn(torch.ones(2))))
        assert_same(results[1], results[0])


def test_aliases_by_cells():
    def make(x, y):
        def f(t):
            x.t_()
            return y.shape, t + 1

        return f

    plain = [make(*pair()) for pair in (apart, tied)]
    code = stator.compile(plain[0])
    assert_same(look(code(torch.ones(2))), look(make(*apart())(torch.ones(2))))
    for pair in (tied, apart, tied):
        fn, twin = make(*pair()), make(*pair())
        assert_same(look(stator.compile(fn)(torch.ones(2))), look(twin(torch.ones(2))))


# ---- OrderedDicts, which are dicts and may have a `__dict__`

x = torch.zeros(2)


def ordered(share):
    a, b = OrderedDict(k=1), OrderedDict(k=2)
    a.note, b.note = 1, 2
    if share == "dict":
        b.__dict__ = a.__dict__
    return (a, a) if share == "object" else (a, b)


def box_and_ordered(share):
    box, names = Box(k=1, note=3), OrderedDict(k=2)
    names.note = 4
    if share == "dict":
        box.__dict__ = names.__dict__
    elif share == "object":
        box.__dict__ = names
    return box, names


def write_items(a, b, x):
    a["k"] = 5
    return x + b["k"]


def write_note(a, b, x):
    a.note = 7
    return x + b.note


def write_items_and_note(a, b, x):
    a["k"] = 5
    a.note = 7
    return x + b["k"] + b.note, len(b)


def write_through_vars(a, b, x):
    vars(a)["note"] = 7
    return x + b.note


@pytest.mark.parametrize("first", ["dict", "object", None])
@pytest.mark.parametrize("fn", [write_items, write_note, write_items_and_note, write_through_vars])
def test_ordered_dicts(fn, first):
    compiled = stator.compile(fn)
    for share in (first, None, "dict", "object", None, "dict"):
        seen, wanted = ordered(share), ordered(share)
        assert_same(compiled(*seen, x), fn(*wanted, x))
        assert_same([(dict(one), vars(one)) for one in seen], [(dict(one), vars(one)) for one in wanted])


@pytest.mark.skipif(hasattr(sys, "gettotalrefcount"), reason="debug CPython asserts that each __dict__ is a plain dict")
@pytest.mark.parametrize("first", ["dict", "object", None])
@pytest.mark.parametrize("fn", [write_note, write_through_vars, lambda a, b, x: (setattr(b, "note", 9), x + a.note)])
def test_an_instance_and_an_ordered_dict(fn, first):
    compiled = stator.compile(fn)
    for share in (first, None, "dict", "object", None, "dict"):
        seen, wanted = box_and_ordered(share), box_and_ordered(share)
        assert_same(run_either(compiled, *seen, x), run_either(fn, *wanted, x))


def run_either(fn, *args):
    try:
        return fn(*args)
    except AttributeError as error:
        return str(error)


# ---- instances that share one `__dict__`


class Box:
    def __init__(self, **values):
        vars(self).update(values)


class OtherBox(Box):
    pass


def boxes(share, *classes):
    def made():
        classes_used = classes or (Box, Box)
        o, p = (cls(a=0, b=0) for cls in classes_used)
        if share:
            p.__dict__ = o.__dict__
        return [o, p, torch.ones(2)]

    return made


def write_and_read(o, p, t):
    o.a = 1
    return p.a, t + p.a


def write_both(o, p, t):
    o.a = 1
    p.a = p.a + 1
    o.b = o.a
    return o.a, p.a, t + p.b


def delete_and_read(o, p, t):
    del o.a
    return hasattr(p, "a"), t + 1


def add_and_list(o, p, t):
    o.c = 5
    return sorted(vars(p)), t + getattr(p, "c", 0)


def read_write_read(o, p, t):
    before = p.a
    o.a = before + 2
    return p.a, t * p.a


BOX_PROGRAMS = [write_and_read, write_both, delete_and_read, add_and_list, read_write_read]


@pytest.mark.parametrize("fn", BOX_PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("classes", [(Box, Box), (Box, OtherBox)], ids=["one class", "two classes"])
@pytest.mark.parametrize("first", [False, True])
def test_instances_with_one_dict(fn, classes, first):
    agree(fn, boxes(first, *classes), boxes(not first, *classes))


def dict_and_box(share):
    def made():
        o = Box(a=0, b=0)
        return [o, vars(o) if share else dict(vars(o)), torch.ones(2)]

    return made


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    "fn",
    [
        lambda o, d, t: (setattr(o, "a", 1), d["a"], t + d["a"]),
        lambda o, d, t: (d.__setitem__("a", 1), o.a, t + o.a),
        lambda o, d, t: (o.a, d.update(a=7), o.a, t + o.a),
    ],
    ids=["instance written", "dict written", "updated"],
)
def test_an_instance_and_its_dict(fn, first):
    agree(fn, dict_and_box(first), dict_and_box(not first))


@pytest.mark.parametrize("first", [False, True])
def test_functions_with_one_dict(first):
    def f(g, h, t):
        g.a = 1
        return h.a, t + h.a

    def functions(share):
        def made():
            g, h = (lambda: 0), (lambda: 0)
            g.a = h.a = 0
            if share:
                h.__dict__ = g.__dict__
            return [g, h, torch.ones(2)]

        return made

    agree(f, functions(first), functions(not first))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    "fn",
    [lambda f, d, t: (setattr(f, "n", 4), d.get("n"), t + 1), lambda f, d, t: (d.update(n=4), f.n, t + 1)],
    ids=["function written", "dict written"],
)
def test_a_function_and_its_dict(fn, first):
    def function(share):
        def made():
            f = lambda: 0  # noqa: E731
            f.n = 0
            return [f, vars(f) if share else {"n": 0}, torch.ones(2)]

        return made

    agree(fn, function(first), function(not first))


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("owner", [Box, lambda **values: torch.ones(2)], ids=["instance", "tensor"])
def test_a_tensor_with_the_dict_of_another_object(owner, first):
    def f(o, y):
        o.tag = 3
        return getattr(y, "tag", 0), y * 2

    def made(share):
        def parts():
            o, y = owner(tag=0), torch.ones(2)
            o.tag = y.tag = 0
            if share:
                y.__dict__ = o.__dict__
            return [o, y]

        return parts

    agree(f, made(first), made(not first))


@pytest.mark.parametrize("order", [1, -1])
def test_three_instances_and_their_dicts(order):
    def f(o, p, q, t):
        o.a = 1
        p.a += 1
        return q.a, t + q.a

    def made(ties):
        def parts():
            o, p, q = Box(a=0), Box(a=0), Box(a=0)
            for bit, (to, source) in enumerate(((p, o), (q, p), (q, o))):
                if ties >> bit & 1:
                    to.__dict__ = source.__dict__
            return [o, p, q, torch.ones(1)]

        return parts

    agree(f, *[made(ties) for ties in range(8)][::order])


def test_a_dict_that_is_given_away_inside():
    def f(o, p, t):
        p.__dict__ = o.__dict__
        o.a = 1
        return p.a, t + p.a

    agree(f, lambda: [Box(a=0), Box(a=5), torch.ones(1)])


def test_modules_whose_dict_is_exchanged():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0

    def f(m, n, t):
        m.count = m.count + 1
        return n.count, t + n.count

    mine, theirs = [Counter(), Counter()], [Counter(), Counter()]
    compiled = stator.compile(f)
    t = torch.ones(2)
    for index in range(4):
        if index == 2:
            for m, n in (mine, theirs):
                n.__dict__ = m.__dict__
        assert_same(look(compiled(*mine, t)), look(f(*theirs, t)))


def test_a_module_and_its_compiled_face():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0
            self.weight = torch.nn.Parameter(torch.ones(2))

        def forward(self, t):
            self.count = self.count + 1
            return t * self.weight + self.count

    def f(m, n, t):
        m.count = m.count + 10
        t = n(t)
        m.weight.requires_grad_(False)
        return n.count, m(t), n.weight.requires_grad, m.count

    m, twin = Counter(), Counter()
    face, twin_face = stator.compile(m), twin
    compiled = stator.compile(f)
    for _ in range(3):
        assert_same(look(compiled(m, face, torch.ones(2))), look(f(twin, twin_face, torch.ones(2))))
        m.weight.requires_grad_()
        twin.weight.requires_grad_()
    other, other_twin = Counter(), Counter()
    assert_same(look(compiled(m, other, torch.ones(2))), look(f(twin, other_twin, torch.ones(2))))
    assert_same(look(compiled(m, face, torch.ones(2))), look(f(twin, twin_face, torch.ones(2))))


GLOBAL_COUNT = 0


def test_a_dict_that_is_the_globals():
    def f(d, t):
        global GLOBAL_COUNT
        GLOBAL_COUNT = 5
        return d["GLOBAL_COUNT"], t + d["GLOBAL_COUNT"]

    compiled = stator.compile(f)
    for names in ({"GLOBAL_COUNT": 1}, globals(), {"GLOBAL_COUNT": 2}, globals()):
        results = []
        for fn in (f, compiled):
            globals()["GLOBAL_COUNT"] = 0
            results.append(look(fn(names, torch.ones(2))))
        assert_same(results[1], results[0])


def test_a_namespace_that_is_a_module():
    module = types.ModuleType("box")
    module.a = 0

    def f(m, d, t):
        m.a = 3
        return d["a"], t + d["a"]

    compiled = stator.compile(f)
    for names in ({"a": 1}, vars(module), {"a": 2}, vars(module)):
        results = []
        for fn in (f, compiled):
            module.a = 0
            results.append(look(fn(module, names, torch.ones(2))))
        assert_same(results[1], results[0])


@pytest.mark.parametrize("first", [False, True])
def test_containers_that_are_one(first):
    def f(a, b, t):
        a["x"].append(1)
        a["y"][0] = t + 1
        return len(b["x"]), b["y"][0] * 2

    def made(share):
        def parts():
            a = {"x": [1], "y": [torch.ones(2)]}
            b = a if share else copy.deepcopy(a)
            return [a, b, torch.ones(2)]

        return parts

    def inner():
        a = {"x": [1], "y": [torch.ones(2)]}
        return [a, dict(a), torch.ones(2)]

    agree(f, made(first), made(not first), inner)


@pytest.mark.parametrize("first", [False, True])
def test_partial_objects_that_are_one(first):
    def f(p, q, t):
        p.tag = 4
        return getattr(q, "tag", 0), q(t)

    def made(share):
        def parts():
            p = functools.partial(torch.add, other=1)
            q = p if share else functools.partial(torch.add, other=1)
            return [p, q, torch.ones(2)]

        return parts

    agree(f, made(first), made(not first))
