"""if, for, while, break, continue, else, conditional expressions, chained comparison, assert."""

import torch

from tests.python.parity.corpus.registry import f, i, program


@program((f(3), 1), (f(3), -1), (f(3), 0), (f(2, 2), 5))
def if_elif_else(x, n):
    if n > 2:
        return x * n
    elif n > 0:
        return x + n
    elif n < 0:
        x = x - n
    else:
        x = x / 2
    return x


@program((f(4), 3), (f(4), 5), (f(2), 0))
def for_range(x, n):
    for k in range(n):
        x = x + k
    return x


@program((f(4), 10), (f(4), 3))
def for_break_continue(x, n):
    for k in range(n):
        if k % 2:
            continue
        if k > 5:
            break
        x = x * (k + 1)
    else:
        x = x - 100
    return x


@program((f(4), 1), (f(4), 4))
def while_countdown(x, n):
    while n:
        x = x + n
        n -= 1
    else:
        x = -x
    return x, n


@program((f(4), 2), (f(4), 40))
def while_true_break(x, limit):
    n = 1
    while True:
        x = x * 2
        n = n * 2
        if n >= limit:
            break
    return x, n


@program((f(2, 2), 3), (f(2, 2), 2))
def nested_loops(x, n):
    for a in range(n):
        for c in range(a):
            if c == 1:
                break
            x = x + a * c
        else:
            x = x + 0.5
    return x


@program((f(3), "relu"), (f(3), "tanh"), (f(3), "none"))
def dispatch_on_string(x, kind):
    if kind == "relu":
        return torch.relu(x)
    if kind in ("tanh", "sigmoid"):
        return torch.tanh(x)
    return x


@program((f(3), True, 2), (f(3), False, 2), (f(3), False, 0))
def conditional_expression(x, flag, n):
    y = x + 1 if flag else x - 1
    return y * (n if n else 10) if n or flag else y


@program((f(3), 2), (f(3), 7), (f(3), 12))
def chained_comparison(x, n):
    if 1 < n <= 7 != 5:
        return x + n
    return x - n if not 0 <= n < 10 else x


@program((f(3), None, []), (f(3), 3, [1]), (f(3), 0, [2]))
def truth_of_values(x, n, xs):
    if n:
        x = x + n
    if xs and not n:
        x = x - xs[0]
    if n is not None or xs:
        x = x * 2
    return x


@program((f(3), 1, 2), (f(3), 0, 3), (f(3), 0, 0))
def and_or_values(x, a, b):
    return x * (a or b or 7) + (a and b), (a or "none"), not a


@program(f(2, 3), f(3, 3), f(4, 3))
def branch_on_shape(x):
    rows, columns = x.shape
    if rows == columns:
        return x @ x
    if rows > columns:
        return x.sum(0)
    return x.t()


@program(f(2), f(2, 3), f(2, 3, 4))
def branch_on_rank(x):
    if x.dim() == 1:
        return x + 1
    if x.ndim == 2 and x.size(0) == 2:
        return x.sum(dim=1)
    return x.flatten(1)


@program(f(2), i(2), f(2, dtype=torch.float64))
def branch_on_dtype(x):
    if x.dtype == torch.float32:
        return x * 1.5
    if not x.is_floating_point():
        return x * 2
    return x.float()


@program(f(2, grad=True), f(2))
def branch_on_requires_grad(x):
    if x.requires_grad:
        return x * 2
    return x * 3


@program((f(2), 3), (f(2), -1))
def assertion(x, n):
    assert n > 0, f"n must be positive, not {n}"
    assert x.dim() == 1
    return x * n


@program(f(3, 4), f(5, 4))
def loop_over_rows(x):
    total = torch.zeros(4)
    for row in x:
        total = total + row * 2
    return total


@program(f(3, 4), f(2, 4))
def loop_over_shape(x):
    out = []
    for k in range(x.shape[0]):
        out.append(x[k] * k)
    return torch.stack(out)


@program(([f(2), f(2)],), ([f(2), f(2), f(2)],), ([],))
def loop_over_list(xs):
    total = 0
    for t in xs:
        total = total + t
    return total


@program((f(3), 2), (f(3), 3))
def early_return_in_loop(x, n):
    for k in range(10):
        x = x + k
        if k == n:
            return x, k
    return None


@program((f(2), [3, 1, 2]), (f(2), [5]))
def loop_with_enumerate_zip(x, ns):
    for k, (n, m) in enumerate(zip(ns, reversed(ns)), 1):
        x = x * n + m - k
    return x


@program((f(3), 0), (f(3), 1))
def pass_and_ellipsis(x, n):
    if n:
        pass
    else:
        ...
    for _ in range(2):
        pass
    return x + 1


@program((f(3), 17), (f(3), 27))
def collatz(x, n):
    steps = 0
    while n != 1 and steps < 12:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        x = x + n
    return x, steps


@program((f(2), {"a": 1, "b": 2}), (f(2), {"a": 3}))
def loop_over_dict_items(x, d):
    for key, value in d.items():
        if key == "b":
            x = x - value
        x = x * value
    return x
