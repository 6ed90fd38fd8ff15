"""Names: locals, globals, builtins, unpacking, deletion, scopes of functions and classes."""

import torch

from tests.python.parity.corpus.registry import call, f, factory, program

SCALE = 2.0
BIAS = torch.ones(3)
settings = {"gain": 3, "on": True}
_private = 5


@program(f(2, 3), f(2, 3), f(4, 3))
def reassigned_local(x):
    y = x
    y = y + 1
    x = y * 2
    y = x - y
    return x, y


@program((f(2), f(2)), (f(3), f(3)))
def swap(a, b):
    a, b = b, a
    a, b = a + b, a - b
    return a, b


@program(f(3), f(3), f(2, 3))
def reads_globals(x):
    return x * SCALE + BIAS + _private


@program(
    f(3),
    call(f(3), before=lambda t: globals().update(SCALE=7.0)),
    call(f(3), before=lambda t: globals().update(SCALE=2.0)),
)
def global_changes_between_calls(x):
    return x * SCALE


@program(
    f(3), call(f(3), before=lambda t: settings.update(gain=4)), call(f(3), before=lambda t: settings.update(on=False))
)
def global_dict_changes_between_calls(x):
    if settings["on"]:
        return x * settings["gain"]
    return x


@program(f(3), call(f(3), before=lambda t: globals().update(BIAS=torch.arange(3.0))))
def global_tensor_is_replaced(x):
    return x + BIAS


@program((f(3), 1), (f(3), 2), (f(4), 2))
def shadowed_builtin(x, len):
    sum = len * 2
    return x * sum


@program((f(2, 3), [1, 2, 3]), (f(2, 3), [4, 5, 6, 7]))
def starred_unpacking(x, values):
    first, *middle, last = values
    (a, b), *rest = x.tolist() if False else ([1, 2], 3, 4)
    return x * first + last + sum(middle) + a + b, middle, rest


@program(f(3, 4), f(3, 2))
def unpacks_tensor_rows(x):
    a, b, c = x
    return a + b * c


@program((f(2), (1, (2, 3))), (f(2), (4, (5, 6))))
def nested_unpacking(x, t):
    a, (b, c) = t
    [d, e] = b, c
    return x * a + b - c, d, e


@program(f(3), f(4))
def deleted_local(x):
    y = x + 1
    z = y * 2
    del y
    try:
        return y
    except UnboundLocalError as error:
        return z, str(error)


@program((f(3), True), (f(3), False))
def maybe_unbound(x, flag):
    if flag:
        y = x + 1
    return y * 2


@program(f(3), f(2, 2))
def chained_assignment(x):
    a = b = c = x + 1
    a = a * 2
    return a, b, c is b


@program(f(3), f(5))
def walrus(x):
    if (n := x.shape[0]) > 3:
        x = x * n
    ys = [y := x + k for k in range(2)]
    return x + n, ys, y


@program((f(2, 3), 3), (f(2, 3), 0))
def augmented_everything(x, n):
    y = x
    y = y + 0
    y += n
    y -= 1
    y *= 2
    y /= 4
    y **= 2
    m = 7
    m //= 2
    m %= 2
    m <<= 3
    m |= 1
    m &= 0xF
    m ^= 2
    return y, m


@program(f(3), f(2))
def annotations_do_nothing(x):
    y: torch.Tensor = x + 1
    n: int
    z: "undefined name" = y * 2  # noqa: F722
    return z


@program((f(2), 2), (f(2), 3))
def class_scope(x, n):
    class Config:
        width = n
        double = width * 2

        def apply(self, t):
            return t * self.double

    return Config().apply(x) + Config.width


@program((f(2), 3), (f(2), 4))
def comprehension_scope(x, k):
    i = 10
    ys = [x * i for i in range(k)]
    return ys, i


@program(f(3), f(3))
def many_locals(x):
    a0, a1, a2, a3, a4, a5, a6, a7 = (x + n for n in range(8))
    b0, b1, b2, b3 = a0 * a1, a2 * a3, a4 * a5, a6 * a7
    return b0 + b1 + b2 + b3


@program(call(f(2)), call(f(2), 3), call(f(2), 3, scale=4.0))
def reads_own_locals(x, n=1, *, scale=2.0):
    y = x * n * scale
    names = sorted(locals())
    return y, names


@program((f(2), None), (f(2), 3), (f(2), None))
def none_default_pattern(x, n):
    n = 4 if n is None else n
    return x * n


@factory(f(2), f(2), f(3))
def assigned_in_enclosing_scope():
    state = {"calls": 0}
    total = torch.zeros(())

    def step(x):
        state["calls"] += 1
        return x * state["calls"] + total

    return step
