"""Free variables: read, written, shared, late."""

import torch

from tests.python.parity.corpus.registry import call, f, factory, program


@factory(f(2), f(2), f(3))
def reads_free_variable():
    scale = 3.0

    def fn(x):
        return x * scale

    return fn


@factory(f(2), f(2), f(2))
def counts_its_calls():
    n = 0

    def fn(x):
        nonlocal n
        n += 1
        return x * n

    return fn


@factory(f(2), f(2), f(2))
def keeps_a_history():
    history = []

    def fn(x):
        history.append(x * 2)
        return sum(history)

    return fn


@factory(f(2), f(2))
def keeps_a_running_tensor():
    total = torch.zeros(2)

    def fn(x):
        nonlocal total
        total = total + x
        return total * 2

    return fn


@factory(f(2), f(2), f(2))
def shared_between_two_functions():
    n = 1

    def bump():
        nonlocal n
        n *= 2

    def fn(x):
        bump()
        y = x + n
        bump()
        return y * n

    return fn


@factory(f(2), f(2), call(f(2), before=lambda t: t.set_scale(5)))
def changed_by_a_setter():
    scale = 2

    def fn(x):
        return x * scale

    def set_scale(value):
        nonlocal scale
        scale = value

    fn.set_scale = set_scale
    return fn


@program((f(2), 2), (f(2), 3))
def made_and_called(x, n):
    y = x + 1

    def inner(t):
        return t * y + n

    return inner(x)


@program((f(2), 2), (f(2), 3))
def sees_later_value(x, n):
    def inner():
        return x * n

    first = inner()
    n = n + 10
    x = x + 1
    return first, inner()


@program((f(2), 2), (f(2), 3))
def nonlocal_in_three_levels(x, n):
    total = 0

    def outer():
        k = n

        def inner(t):
            nonlocal total, k
            k += 1
            total += k
            return t * k

        return inner(inner(x))

    return outer(), total


@program((f(2), 2), (f(2), 4))
def returned_closure(x, n):
    y = x * n

    def fn(t):
        return t + y + n

    return fn, fn(x)


@program((f(2), 2), (f(2), 4))
def counter_maker(x, n):
    def make():
        count = 0

        def step():
            nonlocal count
            count += 1
            return count

        return step

    a, c = make(), make()
    return x * a() + a() * c(), a(), c()


@program((f(2), 3), (f(2), 4))
def recursive_closure(x, n):
    def fact(k):
        return 1 if k <= 1 else k * fact(k - 1)

    return x * fact(n)


@program((f(2), 3), (f(2), 4))
def mutually_recursive(x, n):
    def even(k):
        return True if k == 0 else odd(k - 1)

    def odd(k):
        return False if k == 0 else even(k - 1)

    return x + 1 if even(n) else x - 1


@program(f(2), f(2))
def empty_cell(x):
    def inner():
        return later

    try:
        inner()
    except NameError as error:
        text = str(error)
    later = x + 1
    return inner(), text


@program(f(2), f(2))
def deleted_free_variable(x):
    y = x + 1

    def inner():
        return y * 2

    z = inner()
    del y
    try:
        return inner()
    except NameError as error:
        return z, type(error).__name__


@program((f(2), 2), (f(2), 3))
def closure_in_class(x, n):
    class Scaler:
        def __call__(self, t):
            return t * n + x

    return Scaler()(x)


@program((f(2), [1, 2]), (f(2), [3, 4, 5]))
def closure_over_loop_variable(x, ns):
    fns = []
    for n in ns:
        fns.append(lambda: x * n)
    late = [fn() for fn in fns]
    return late


@program((f(2), 2), (f(2), 3))
def composition(x, n):
    def compose(*fns):
        def run(t):
            for fn in fns:
                t = fn(t)
            return t

        return run

    return compose(torch.relu, lambda t: t + n, lambda t: t * x)(x)


@factory((f(2), 1), (f(2), 1), (f(2), 2))
def memoised_by_hand():
    cache = {}

    def fn(x, n):
        if n not in cache:
            cache[n] = n * 10
        return x + cache[n]

    return fn


@factory(f(2), f(2))
def parameter_in_a_cell():
    weight = torch.nn.Parameter(torch.ones(2))

    def fn(x):
        return x * weight

    return fn


@program((f(2), 2), (f(2), 3))
def argument_is_a_cell(x, n):
    def inner():
        nonlocal x
        x = x * n
        return n

    inner()
    inner()
    return x
