"""Changes that outlive the call: globals, closures, attributes, inputs, module state, their order."""

import torch

from tests.python.parity.corpus.registry import call, f, factory, program

counter = 0
last = None
history = []
stats = {"calls": 0, "names": []}
flags = set()
total = torch.zeros(2)


class State:
    steps = 0

    def __init__(self):
        self.n = 0
        self.items = []
        self.latest = None


state = State()


@program(f(2), f(2), f(2))
def global_counter(x):
    global counter
    counter += 1
    return x * counter


@program(f(2), f(3))
def global_tensor_written(x):
    global last
    last = x * 2
    return last + 1


@program(f(2), f(2))
def global_tensor_in_place(x):
    total.add_(x)
    return total * 2


@program(f(2), f(2))
def global_tensor_rebound(x):
    global total
    total = total + x
    return total


@program((f(2), "a"), (f(2), "b"))
def global_containers(x, name):
    stats["calls"] += 1
    stats["names"].append(name)
    history.append(x.shape[0])
    flags.add(name)
    return x * stats["calls"]


@program(f(2), f(2), f(2))
def global_object(x):
    state.n += 1
    state.items.append(state.n)
    state.latest = x * state.n
    State.steps += 1
    return state.latest + State.steps


@program((State(), f(2)), (State(), f(2)))
def object_argument(s, x):
    s.n += 5
    s.latest = x + s.n
    s.items += [x]
    s.new = "attribute"
    return s.latest


@program((f(2), [1]), (f(2), [1, 2]))
def list_argument(x, xs):
    xs.append(len(xs))
    xs[0] = x
    return x + 1


@program((f(2), {"a": 1}), (f(2), {"b": 2}))
def dict_argument(x, d):
    d["new"] = x * 2
    d.pop("a", None)
    return d["new"]


@program(f(2), f(3))
def tensor_argument_in_place(x):
    x.mul_(2)
    x[0] = 5
    return x + 1


@program((f(2), f(2)), (f(3), f(3)))
def several_tensors_in_place(x, y):
    x += y
    y.zero_()
    x.sub_(1)
    return x.sum()


@program((f(2), {"deep": [{"t": f(2)}]}), (f(2), {"deep": [{"t": f(2)}, 1]}))
def deep_mutation(x, tree):
    tree["deep"][0]["t"] = tree["deep"][0]["t"] * x
    tree["deep"][0]["n"] = len(tree["deep"])
    return x


@program((f(2), 1), (f(2), -1), (f(2), 1))
def effects_in_branches(x, n):
    global counter
    if n > 0:
        counter += n
        history.append("plus")
    else:
        counter -= 1
        history.insert(0, "minus")
    return x * counter


@program((f(2), 3), (f(2), 2))
def effects_in_loops(x, n):
    for k in range(n):
        history.append(k)
        stats[k] = x * k
    return sum(stats[k] for k in range(n))


@program(f(2), f(2))
def read_after_write(x):
    stats["calls"] = 10
    a = stats["calls"]
    stats["calls"] += 5
    history.append(a)
    return x * stats["calls"] + history[-1]


@program((f(2), []), (f(2), [0]))
def same_list_by_two_names(x, xs):
    ys = xs
    ys.append(1)
    xs.append(2)
    return x * len(ys), ys is xs


@program(call([f(2)]), call([f(2), f(2)]))
def aliased_arguments(xs):
    first = xs[0]
    xs.append(first)
    xs[-1] = xs[-1] + 1
    return first is xs[0], first is xs[-1]


def helper(log, value):
    log.append(value)
    return value


@program(f(2), f(2))
def order_of_effects(x):
    helper(history, 1)
    y = helper(history, 2) * x
    stats["names"].append(len(history))
    helper(history, 3)
    return y


@program((f(2), 0), (f(2), 1))
def effects_before_an_error(x, n):
    global counter
    counter += 1
    history.append("before")
    y = x * (1 // n)
    history.append("after")
    return y


@program((f(2), 0), (f(2), 1))
def effects_in_finally(x, n):
    try:
        history.append("try")
        return x * (1 // n)
    except ZeroDivisionError:
        history.append("except")
        return x
    finally:
        history.append("finally")


@factory(f(2), f(2), f(2))
def function_attributes():
    def fn(x):
        fn.calls += 1
        fn.last = x * fn.calls
        return fn.last

    fn.calls = 0
    return fn


@program(f(2), f(2))
def deletes_globals(x):
    global scratch
    scratch = x * 2
    y = scratch + 1
    del scratch
    return y, "scratch" in globals()


@program((State(), f(2)), (State(), f(2)))
def object_keeps_the_input(s, x):
    s.latest = x
    s.items.append(x)
    s.view = x[0]
    return s.latest is x


@program((f(2), {"k": [1]}), (f(2), {"k": [2]}))
def swapped_values(x, d):
    d["k"], d["old"] = [9], d["k"]
    return x * d["old"][0]


@program((f(2), 3), (f(2), 0))
def effect_then_break(x, n):
    history.append("one")
    y = x * 2
    print("n is", n)
    history.append("two")
    return y + len(history)
