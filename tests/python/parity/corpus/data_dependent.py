"""Python values and control flow that depend on a tensor's data."""

import torch

from tests.python.parity.corpus.registry import b, f, i, p, program


@program(f(3), f(3), f(2), p(3))
def if_sum_positive(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


@program((f(3), torch.tensor(True)), (f(3), torch.tensor(False)))
def if_bool_tensor(x, flag):
    y = x + 1
    if flag:
        y = y * 2
    return y - 3


@program(f(3), p(3))
def nested_ifs(x):
    if (x > 0).all():
        if x.max() > 1.5:
            return x + 10
        return x + 5
    elif (x < 0).any():
        x = x.abs()
    return x * 2


@program(torch.tensor([100.0]), torch.tensor([3.0]))
def while_tensor(x):
    n = 0
    while x > 1:
        x = x / 2
        n += 1
    return x, n


@program(f(3), f(3), f(4))
def item_in_arithmetic(x):
    m = x.max().item()
    return x - m, m


@program((f(5), torch.tensor(2)), (f(5), torch.tensor(4)))
def int_and_float_of_tensor(x, n):
    k = int(n)
    return x[:k] * float(n), k


@program(i(4), i(3))
def to_list(x):
    values = x.tolist()
    return x * sum(values), sorted(values)


@program((f(4), b(4)), (f(4), b(4)))
def boolean_mask(x, mask):
    kept = x[mask]
    return kept * 2, kept.shape[0]


@program(i(5), i(6))
def nonzero(x):
    where = torch.nonzero(x)
    return where, x[x > 2].sum(), where.shape


@program(i(6), i(4))
def unique_values(x):
    values, counts = torch.unique(x, return_counts=True)
    return values, counts, len(values)


@program((f(6), torch.tensor(1)), (f(6), torch.tensor(3)))
def slice_by_item(x, n):
    k = n.item()
    return x[k:], x[:k].sum()


@program((f(4), torch.tensor([1, 2])), (f(4), torch.tensor([0, 3])))
def loop_over_items(x, ns):
    for n in ns:
        x = x * n.item() + n
    return x


@program(f(3), f(3))
def early_stop(x):
    for k in range(5):
        x = x * 2
        if x.abs().max() > 10:
            break
    return x, k


@program((f(3), torch.tensor(0)), (f(3), torch.tensor(1)))
def table_by_item(x, n):
    table = [torch.relu, torch.tanh]
    return table[n.item()](x)


@program(f(3), p(3))
def conditional_expression(x):
    return x + 1 if x.mean() > 0 else x - 1


@program(f(3), p(3), -p(3))
def and_or_not(x):
    if x.sum() > 0 and x.max() < 5:
        return x
    if not (x < 0).all():
        return -x
    return x * 0


@program(p(3), f(3))
def assertion_on_data(x):
    assert (x > 0).all(), "values must be positive"
    return x.log()


@program(f(3), f(3))
def python_max_of_items(x):
    values = [v.item() for v in x]
    return x / max(values), min(values) < max(values)


@program((f(3), torch.tensor(2.0)), (f(3), torch.tensor(0.5)))
def compare_item(x, threshold):
    if threshold.item() > 1.0:
        return x.clamp(max=1.0)
    return x.clamp(min=threshold.item())


@program(f(3), f(3))
def format_item(x):
    y = x * 2
    text = f"{y.sum().item():.3f}"
    return y, text


@program(f(3), f(2, 2))
def text_of_tensor(x):
    y = x + 1
    return y * 2, str(x), repr(y.shape)


@program((i(1, high=3) + 2, f(3)), (i(1, high=3) + 2, f(3)))
def shape_from_data(n, x):
    size = int(n[0])
    return torch.zeros(size, 3) + x, torch.arange(size)


@program((f(4), torch.tensor(2)), (f(4), torch.tensor(3)))
def tensor_as_index(x, n):
    ns = [10, 20, 30, 40]
    return x * ns[n], range(n)[-1] if n > 0 else 0, x[n]


@program(f(3), f(3))
def equality_of_tensors(x):
    y = x.clone()
    if torch.equal(x, y):
        y = y + 1
    return y, torch.allclose(x, y), bool((x == x).all())


@program(p(4), f(4))
def newton_iteration(x):
    a = x.abs() + 1
    guess = a / 2
    for _ in range(20):
        new = (guess + a / guess) / 2
        if (new - guess).abs().max() < 1e-4:
            break
        guess = new
    return guess


@program((f(2, 3), i(2, high=3)), (f(3, 3), i(3, high=3)))
def accuracy(logits, target):
    correct = (logits.argmax(1) == target).sum().item()
    return logits * 2, correct / len(target)


@program(f(5), f(6))
def any_in_python(x):
    return x * 2 if any(v > 1.5 for v in x) else x, len([v for v in x if v > 0])


@program((f(2, 2), torch.tensor(2.0), torch.tensor(0.5)), (f(2, 2), torch.tensor(-1.0), torch.tensor(3.0)))
def tensors_where_plain_numbers_are_taken(x, a, c):
    y = x.clone()
    y.add_(x, alpha=a)
    y.addcmul_(x, x, value=c * 2)
    return y, torch.sub(x, y, alpha=c), torch.addmm(x, y, x, alpha=a, beta=c), torch._foreach_addcmul([x], [y], [x], a)


@program((i(3), torch.tensor(2)), (i(3), torch.tensor(2.5)), (i(3), torch.tensor(1.0, requires_grad=True)))
def plain_numbers_of_the_wrong_kind(x, n):
    return x.add(x, alpha=n)
