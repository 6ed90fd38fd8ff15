"""One capture serves every instance of equal structure, and no instance gets the answer of another."""

import copy
import itertools
import random
import types
import weakref

import pytest
import torch
from torch import nn

import stator
from tests.python.helpers import assert_same, captures, collect

x = torch.arange(6.0).reshape(2, 3)


class Inner(nn.Module):
    bias_scale = 2.0

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.other = nn.Parameter(torch.randn(3, 3))

    def forward(self, t):
        return t @ self.weight * self.bias_scale + t @ self.other


class Other(Inner):
    def forward(self, t):
        return t @ self.weight - 5


class Settings:
    def __init__(self):
        self.offset = 1.0


class Block(nn.Module):
    factor = 3.0

    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.linear = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.0)
        self.settings = Settings()
        self.sizes = [1, 2]
        self.table = {"a": 1.0}
        self.count = 0
        self.register_buffer("shift", torch.randn(3))

    def forward(self, t):
        same = 1.0 if self.inner.weight is self.inner.other else 0.0
        t = self.inner(t) + self.linear(t) + self.shift + same
        t = t * self.factor + self.settings.offset + len(self.sizes) + self.table["a"]
        return self.drop(t) if self.training else t - 1


def call_block(block, t):
    return block(t)


def tie(block):
    block.inner.other = block.inner.weight


def untie(block):
    block.inner.other = nn.Parameter(block.inner.weight.detach() + 1)


def patch_method(block):
    block.inner.forward = types.MethodType(lambda self, t: t @ self.weight * 7, block.inner)


def replace_submodule(block):
    block.inner, before = Other(), block.inner
    block.inner.load_state_dict(before.state_dict())


def replace_dict(block):
    block.settings.__dict__ = {"offset": 9.0}


CHANGES = {
    "tie": tie,
    "untie": untie,
    "hook": lambda block: block.linear.register_forward_hook(lambda module, args, out: out + 100),
    "pre-hook": lambda block: block.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "method": patch_method,
    "dtype": lambda block: setattr(block, "shift", block.shift.double()),
    "shadowing": lambda block: setattr(block, "factor", 11.0),
    "shadowing below": lambda block: setattr(block.inner, "bias_scale", 5.0),
    "length": lambda block: block.sizes.append(3),
    "item": lambda block: block.table.update(a=4.0),
    "class": lambda block: setattr(block.inner, "__class__", Other),
    "dict replaced": replace_dict,
    "attribute": lambda block: setattr(block.settings, "offset", 6.0),
    "requires_grad": lambda block: block.linear.requires_grad_(False),
    "training": lambda block: block.eval(),
    "submodule": replace_submodule,
    "parameter": lambda block: setattr(block.linear, "weight", nn.Parameter(torch.ones(3, 3))),
    "shape": lambda block: setattr(block, "shift", torch.ones(2, 3)),
    "none": lambda block: block.linear.register_parameter("bias", None),
    "shared inner": lambda block: setattr(block, "linear", block.inner),
}


def families(make, count=3):
    """Instances of equal structure, and copies of them for the plain program."""
    torch.manual_seed(0)
    ours = [make() for _ in range(count)]
    return ours, copy.deepcopy(ours)


def as_function(blocks):
    compiled = stator.compile(call_block)
    return [lambda t, block=block: compiled(block, t) for block in blocks]


def as_modules(blocks):
    return [stator.compile(block) for block in blocks]


def grads(block):
    return [None if p.grad is None else p.grad.clone() for p in block.parameters()]


def agree(calls, ours, plain, order):
    for which in order:
        result, expected = calls[which](x), plain[which](x)
        assert_same(result, expected)
        for module in (ours[which], plain[which]):
            module.zero_grad()
        if expected.requires_grad:
            result.sum().backward()
            expected.sum().backward()
            assert_same(grads(ours[which]), grads(plain[which]))


@pytest.mark.parametrize("form", [as_function, as_modules])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_one_instance_is_its_own(name, form):
    change = CHANGES[name]
    for order in itertools.permutations(range(3)):
        stator.reset()
        ours, plain = families(Block)
        calls = form(ours)
        for _ in range(3):
            agree(calls, ours, plain, order)
        for which in order:
            for side in (ours, plain):
                change(side[which])
            agree(calls, ours, plain, order)
            agree(calls, ours, plain, reversed(order))
            agree(calls, ours, plain, [which, which, *order])
        assert stator.counters()["recompiles"].get("limit_hit", 0) == 0


@pytest.mark.parametrize("form", [as_function, as_modules])
def test_twenty_blocks_are_captured_once(form):
    ours, plain = families(Block, 20)
    calls = form(ours)
    for _ in range(4):
        agree(calls, ours, plain, range(20))
    assert captures() == 1
    before = stator.counters()["guards"]
    agree(calls, ours, plain, range(20))
    after = stator.counters()["guards"]
    assert after["by_words"] - before["by_words"] == 20 and after["in_full"] == before["in_full"]


def test_tied_across_instances():
    """`is`, keys and writes see that two instances share a parameter."""

    def f(a, b, t):
        names = {a.weight: 1.0, b.weight: 2.0}
        with torch.no_grad():
            a.weight.add_(1.0)
        return t @ b.weight + len(names) + (5.0 if a.weight is b.weight else 0.0)

    for backend in ("reference", lambda gm, inputs: gm.forward):
        stator.reset()
        ours, plain = families(Inner)
        compiled = stator.compile(f, backend=backend)
        for round_ in range(3):
            for a, b in itertools.product(range(3), repeat=2):
                assert_same(compiled(ours[a], ours[b], x), f(plain[a], plain[b], x))
            for side in (ours, plain):
                side[round_].weight = side[(round_ + 1) % 3].weight
        for mine, theirs in zip(ours, plain, strict=True):
            assert_same(mine.weight, theirs.weight)


def test_one_instance_twice():
    """A write to one argument is read through the other if both are one object."""

    def f(a, b, t):
        a.settings.offset = a.settings.offset + 1
        a.count += 1
        return t * b.settings.offset + b.count + (10 if a is b else 0) + len({a, b})

    ours, plain = families(Block)
    compiled = stator.compile(f)
    for _ in range(2):
        for a, b in [(0, 1), (1, 2), (2, 2), (0, 0), (2, 0), (1, 1)]:
            assert_same(compiled(ours[a], ours[b], x), f(plain[a], plain[b], x))
    for side in (ours, plain):
        side[0].settings = side[1].settings
    for a, b in [(0, 1), (1, 0), (1, 2), (0, 1)]:
        assert_same(compiled(ours[a], ours[b], x), f(plain[a], plain[b], x))
    assert [block.count for block in ours] == [block.count for block in plain]


def test_identity_is_guarded_where_it_is_used():
    a, b, c = families(Inner)[0]
    table, chosen = {a: 1.0, b: 2.0}, c

    def f(block, t):
        return t * table.get(block, 7.0) + (1.0 if block is chosen else 0.0) + t @ block.weight

    compiled = stator.compile(f)
    for order in itertools.permutations([a, b, c]):
        for block in order:
            assert_same(compiled(block, x), f(block, x))

    def g(block, t):
        return t * (id(block) % 7)

    compiled = stator.compile(g)
    for block in [a, b, c, b, a]:
        assert_same(compiled(block, x), g(block, x))


def test_parameters_of_a_large_model_are_compared_as_one_group():
    """`parameters()` puts each tensor and module into a set."""

    def f(model, t):
        return t * len(list(model.parameters())) + len(list(model.modules()))

    ours = nn.Sequential(*[Inner() for _ in range(12)])
    compiled = stator.compile(f)
    assert_same(compiled(ours, x), f(ours, x))
    (entry,) = stator.cache_entries(compiled)
    assert sum("different object" in guard or "another object" in guard for guard in entry["guards"]) < 5
    ours[3].weight = ours[5].weight
    assert_same(compiled(ours, x), f(ours, x))
    ours[4] = ours[7]
    assert_same(compiled(ours, x), f(ours, x))


def test_a_new_module_in_each_call():
    def f(t, scale):
        return call_block(made[-1], t) * scale

    made = []
    compiled = stator.compile(call_block)
    for seed in range(30):
        torch.manual_seed(seed)
        block = Block()
        assert_same(compiled(block, x), call_block(block, x))
        del block
    assert captures() == 1
    made.append(Block())
    assert_same(stator.compile(f)(x, 2.0), f(x, 2.0))


def test_entries_outlive_instances_and_keep_none_alive():
    compiled = stator.compile(call_block)
    first = Block()
    compiled(first, x)
    dead = weakref.ref(first)
    del first
    collect()
    assert dead() is None
    second = Block()
    for _ in range(4):
        assert_same(compiled(second, x), second(x))
    assert captures() == 1


def test_a_constant_of_each_instance_is_no_varying_value():
    class Layer(nn.Module):
        def __init__(self, index):
            super().__init__()
            self.index = index
            self.weight = nn.Parameter(torch.ones(3, 3))

        def forward(self, t):
            return t @ self.weight + self.index

    layers = [Layer(index) for index in range(12)]

    for calls in (as_function(layers), as_modules(layers)):
        stator.reset()
        for _ in range(3):
            for call, layer in zip(calls, layers, strict=True):
                assert_same(call(x), layer(x))
        assert captures() == 12 and "limit_hit" not in stator.counters()["recompiles"]


def test_one_instance_at_the_limit_does_not_spoil_others():
    ours, plain = families(Block)
    calls = as_function(ours)
    with pytest.warns(RuntimeWarning, match="recompile_limit"):
        for dimensions in range(1, 12):
            ours[0].shift = plain[0].shift = torch.ones([1] * dimensions + [3])
            agree(calls, ours, plain, [0])
    before = captures()
    ours[1].shift = plain[1].shift = torch.ones([1] * 12 + [3])
    agree(calls, ours, plain, [1, 2])
    assert captures() > before


def test_a_break_in_a_loop_over_modules():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(12))

        def forward(self, t):
            for block in self.blocks:
                t = block(t)
                stator.graph_break()
                t = t * 0.01
            return t

    ours, plain = families(Stack, 2)
    calls = as_modules(ours)
    for _ in range(3):
        for call, model in zip(calls, plain, strict=True):
            assert_same(call(x), model(x))
    assert captures() <= 4 and "limit_hit" not in stator.counters()["recompiles"]


def test_deep_copies_and_wrappers():
    class Adapter(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.down, self.up = nn.Linear(3, 2, bias=False), nn.Linear(2, 3, bias=False)

        def forward(self, t):
            return self.base(t) + self.up(self.down(t))

    ours, plain = families(lambda: Adapter(nn.Linear(3, 3)), 4)
    calls = as_modules(ours)
    agree(calls, ours, plain, range(4))
    copied = copy.deepcopy(calls[0])
    assert_same(copied(x), plain[0](x))
    assert captures() == 1


@pytest.mark.parametrize("name", ["SGD", "AdamW"])
def test_optimizers(name):
    """The state of an optimizer has parameters as keys."""

    def step(optimizer):
        optimizer.step()

    settings = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.1}
    ours, plain = families(Inner, 4)
    optimizers, twins = (
        [getattr(torch.optim, name)(m.parameters(), **settings) for m in side] for side in (ours, plain)
    )
    compiled = stator.compile(step)
    made = []
    for which in range(4):
        for side, act in ((ours, compiled), (plain, step)):
            optimizer = (optimizers if side is ours else twins)[which]
            for _ in range(4):
                optimizer.zero_grad()
                side[which](x).sum().backward()
                act(optimizer)
        assert_same(list(ours[which].parameters()), list(plain[which].parameters()))
        made.append(captures())
    assert made[0] == made[3] > 0


def test_which_function_is_called():
    """A function that Stator implements itself is recognised by identity, others by their code."""

    def call(function, t):
        parts = [[t]]
        return t + 1, function(parts)[0] is parts[0]

    def made(scale):
        return lambda parts, more=(scale,): [parts[0] if more[0] > 1 else [scale]]

    compiled = stator.compile(call)
    for function in [copy.copy, copy.deepcopy, made(1), made(2), copy.copy, made(3), list]:
        assert_same(compiled(function, x), call(function, x))


def test_functions_of_instances():
    class Acting(nn.Module):
        def __init__(self, act):
            super().__init__()
            self.act = act

        def forward(self, t):
            return self.act(t)

    def scaled(by):
        return lambda t, more=1.0: t * weight + more if by else t

    weight = torch.full((3,), 2.0)
    acts = [scaled(1), scaled(2), scaled(0), nn.functional.relu, torch.relu, nn.functional.silu, scaled(3)]
    modules = [Acting(act) for act in acts]
    for calls in (as_function(modules), as_modules(modules)):
        stator.reset()
        for _ in range(2):
            for call, module in zip(calls, modules, strict=True):
                assert_same(call(x), module(x))
        stopped = torch.compiler.disable(scaled(4))
        modules[1].act = stopped
        assert_same(calls[1](x), modules[1](x))
        modules[1].act = scaled(2)


def test_threads_share_an_entry():
    """Runs of one entry for different instances overlap."""
    import threading

    ours, plain = families(Block, 8)
    calls = as_modules(ours)
    wrong = []

    def work(which):
        expected = plain[which](x)
        for _ in range(200):
            if not torch.equal(calls[which](x), expected):
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def two_blocks(a, b, t):
    a.count += 1
    b.settings.offset = float(a.count % 3)
    return a(t) - b.inner(t) + b.count * (2.0 if a is b else 1.0)


def tables(a, b, t):
    table = {a: 1.0, b.inner: 2.0, a.inner.weight: 3.0}
    return t * sum(table.values()) + len(table) + table.get(b, 0.5) + a.linear(t)


def writes(a, b, t):
    with torch.no_grad():
        a.shift.mul_(0.5)
        b.inner.weight.add_(a.shift)
    a.extra = b.shift
    return t @ a.inner.weight + b.shift + getattr(b, "extra", 0.0)


@pytest.mark.parametrize("oracle", [False, True])
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_calls_and_changes(first, oracle):
    """Several instances, random calls and changes of random instances, each beside a plain twin."""
    changes = [change for name, change in CHANGES.items() if name not in ("shape", "dtype", "submodule")]
    programs = [two_blocks, tables, writes]
    for seed in range(first, first + 10):
        stator.reset()
        choose = random.Random(seed)
        ours, plain = families(Block, 4)
        compiled = {program: stator.compile(program) for program in programs}
        modules = as_modules(ours)
        with stator.config.patch(oracle=oracle):
            for _ in range(40):
                a, b = choose.randrange(4), choose.randrange(4)
                action = choose.randrange(6)
                if action == 0:
                    change = choose.choice(changes)
                    for side in (ours, plain):
                        torch.manual_seed(seed)
                        change(side[a])
                elif action == 1:
                    for side in (ours, plain):
                        side[a].inner = side[b].inner
                elif action == 2:
                    assert_same(modules[a](x), plain[a](x))
                else:
                    program = choose.choice(programs)
                    mine = outcome(compiled[program], (ours[a], ours[b], x))
                    assert_same(mine, outcome(program, (plain[a], plain[b], x)), f"seed {seed}")


def outcome(fn, args):
    try:
        return fn(*args)
    except (RuntimeError, AttributeError) as error:
        return type(error)
