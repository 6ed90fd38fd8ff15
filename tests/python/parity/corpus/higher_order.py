"""Control-flow operators, checkpointing, allowed and substituted functions, custom operators."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.python.parity.corpus.registry import f, factory, program

seen = []


def block(x):
    return torch.tanh(x * 2) + x


@program(f(3, grad=True), f(2, grad=True))
def checkpointed(x):
    return checkpoint(block, x, use_reentrant=False) * 2


@program((f(3, grad=True), 2), (f(3, grad=True), 3))
def checkpoint_with_keywords(x, n):
    def run(t, scale=1):
        return (t * scale).sin()

    return checkpoint(run, x, use_reentrant=False, scale=n)


@factory(f(2, 4), f(3, 4))
def checkpointed_layers():
    layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def fn(x):
        return checkpoint_sequential(layers, 2, x, use_reentrant=False)

    return fn


@factory(f(8, grad=True), f(8, grad=True))
def checkpoint_with_dropout():
    drop = nn.Dropout(0.5)

    def fn(x):
        return checkpoint(lambda t: drop(t * 2), x, use_reentrant=False)

    return fn


@program((f(3), torch.tensor(True)), (f(3), torch.tensor(False)))
def cond_on_tensor(x, flag):
    return torch.cond(flag, lambda t: t + 1, lambda t: t - 1, (x,))


@program(f(3), f(3))
def cond_on_data(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))


@program((f(3), True), (f(3), False))
def cond_on_bool(x, flag):
    return torch.cond(flag, lambda t: t * 2, lambda t: t * 3, (x,))


@program((f(3), f(3)), (f(2), f(2)))
def cond_with_closure(x, y):
    def yes(t):
        return t + y

    def no(t):
        return t - y

    return torch.cond(x.max() > 1, yes, no, (x,))


@program(f(3), f(3))
def nested_cond(x):
    def outer(t):
        return torch.cond(t.max() > 1, lambda s: s + 1, lambda s: s - 1, (t,))

    return torch.cond(x.sum() > 0, outer, lambda t: t * 2, (x,))


@program((torch.tensor(0), f(2)), (torch.tensor(3), f(2)))
def while_loop(n, x):
    from torch._higher_order_ops.while_loop import while_loop as loop

    return loop(lambda k, t: k < 5, lambda k, t: (k + 1, t * 2), (n, x))


@program((f(4, 3), f(3)), (f(2, 3), f(3)))
def map_operator(xs, y):
    from torch._higher_order_ops.map import map as hop_map

    return hop_map(lambda x, c: x * 2 + c, xs, y)


@program(f(4, 3), f(5, 3))
def associative_scan_by_hand(x):
    out = [x[0]]
    for row in x[1:]:
        out.append(out[-1] + row)
    return torch.stack(out)


@torch.library.custom_op("stator_corpus::scaled", mutates_args=())
def scaled(x: torch.Tensor, k: float) -> torch.Tensor:
    return x * k


@scaled.register_fake
def _(x, k):
    return torch.empty_like(x)


@program((f(3), 2.0), (f(3), 3.0))
def custom_operator(x, k):
    return scaled(x, k) + torch.ops.stator_corpus.scaled(x, 1.0)


@program(f(2, 3), f(3, 2))
def aten_operators(x):
    return torch.ops.aten.add.Tensor(x, 1), torch.ops.aten.relu(x), torch.ops.aten.sum.dim_IntList(x, [0])


@program((f(3), 2), (f(3), 3))
def functions_composed(x, n):
    def repeat(fn, times):
        def run(t):
            for _ in range(times):
                t = fn(t)
            return t

        return run

    return repeat(block, n)(x), repeat(repeat(torch.sin, 2), n)(x)


@program((f(2, 3), f(3, 2)), (f(3, 3), f(3, 3)))
def vectorised_by_hand(x, y):
    rows = [torch.stack([(row * column).sum() for column in y.t()]) for row in x]
    return torch.stack(rows)


@torch.compiler.assume_constant_result
def constant():
    return 3


@program(f(3), f(2))
def assumed_constant(x):
    return x * constant()


@program(f(3), f(2))
def compiling_flag(x):
    scale = 2 if torch.compiler.is_compiling() else 1 + 1
    return x * scale, torch.jit.is_scripting(), torch.jit.is_tracing()


@torch.jit.script
def scripted(x: torch.Tensor, n: int) -> torch.Tensor:
    for k in range(n):
        x = x + k
    return x


@program((f(3), 2), (f(3), 3))
def scripted_function(x, n):
    return scripted(x, n) * 2


@program((f(3), f(3)), (f(2), f(2)))
def jit_ignored_types(x, y):
    pair = torch.jit.annotate(list[torch.Tensor], [x, y])
    return torch.stack(pair).sum(0), torch.overrides.is_tensor_like(x)
