"""List, dict, set and generator comprehensions."""

import torch

from tests.python.parity.corpus.registry import f, program


@program((f(3), 3), (f(3), 4), (f(2), 2))
def list_of_tensors(x, n):
    return [x + k for k in range(n)]


@program((f(3), 5), (f(3), 8))
def filtered(x, n):
    return [x * k for k in range(n) if k % 2 if k > 1]


@program((f(2), 3), (f(2), 2))
def nested_for(x, n):
    return [x + a * c for a in range(n) for c in range(a)]


@program((f(2), 2), (f(2), 3))
def nested_lists(x, n):
    grid = [[x * (r + c) for c in range(n)] for r in range(n)]
    return torch.stack([torch.stack(row) for row in grid])


@program(({"a": f(2), "b": f(2)},), ({"c": f(3)},))
def dict_of_tensors(d):
    return {key: value * 2 for key, value in d.items()}


@program(({"a": f(2), "b": f(2)}, "b"), ({"a": f(2), "b": f(2)}, "a"))
def dict_filtered(d, skip):
    return {key + "_out": value + 1 for key, value in d.items() if key != skip}


@program((f(2), [1, 2, 2, 3]), (f(2), [4, 4]))
def set_of_ints(x, ns):
    unique = {n % 3 for n in ns}
    return x * len(unique), sorted(unique)


@program((f(2), 4), (f(2), 5))
def generator_to_sum(x, n):
    return sum(x * k for k in range(n))


@program((f(2), 4), (f(2), 5))
def generator_to_tuple_list_set(x, n):
    ts = tuple(x + k for k in range(n))
    ls = list(k * 2 for k in range(n))
    ss = set(k // 2 for k in range(n))
    return ts, ls, len(ss)


@program((f(2), [3, 0, 2]), (f(2), [1, 1]))
def any_all_of_generator(x, ns):
    if any(n == 0 for n in ns):
        x = x - 1
    if all(n > 0 for n in ns):
        x = x + 1
    return x


@program(([f(2), f(3), f(2)],), ([f(4)],))
def max_of_sizes(xs):
    width = max(t.shape[0] for t in xs)
    return [torch.nn.functional.pad(t, (0, width - t.shape[0])) for t in xs]


@program((f(2), 3), (f(2), 4))
def closure_over_local(x, n):
    k = n * 2
    return [x * k + j for j in range(n) if j < k]


@program((f(2), 3), (f(2), 2))
def lambdas_late_binding(x, n):
    fs = [lambda t: t + k for k in range(n)]
    return [fn(x) for fn in fs]


@program((f(2), 3), (f(2), 2))
def lambdas_early_binding(x, n):
    fs = [lambda t, k=k: t * k for k in range(n)]
    return sum(fn(x) for fn in fs)


@program((f(2), ["a", "b"]), (f(2), ["c"]))
def dict_from_zip(x, names):
    return {name: x + k for k, name in enumerate(names)}


@program(f(3, 2), f(4, 2))
def rows_to_list(x):
    return [row.sum() for row in x]


@program(f(3, 2), f(2, 2))
def unpacked_into_call(x):
    return torch.stack([*[x + 1, x + 2], *(x * k for k in range(2))])


@program((f(2), {"a": 1, "b": 2}), (f(2), {"c": 3}))
def inverted_dict(x, d):
    inverse = {v: k for k, v in d.items()}
    return x * sum(inverse), inverse


@program((f(2), 5), (f(2), 6))
def conditional_elements(x, n):
    return torch.stack([x if k % 2 else -x for k in range(n)])


@program((f(2), [[1, 2], [3]]), (f(2), [[4]]))
def flattened(x, groups):
    flat = [n for group in groups for n in group]
    return x * sum(flat), flat


@program((f(2), 3), (f(2), 4))
def walrus_inside(x, n):
    return [y for k in range(n) if (y := k * k) > 0], x + y


@program((f(2), 2), (f(2), 3))
def method_calls_inside(x, n):
    xs = [x.mul(k).add(1).relu() for k in range(n)]
    return torch.cat([t.unsqueeze(0) for t in xs])


@program((f(2), [1, 2, 3]), (f(2), [4]))
def generator_partly_consumed(x, ns):
    gen = (n * 2 for n in ns)
    first = next(gen)
    return x * first, list(gen)
