"""State that the standard library keeps for a program: caches, thread-locals, weak references, warning filters."""

import collections
import functools
import gc
import threading
import types
import warnings
import weakref

import torch
from torch import nn

from tests.python.parity.corpus.registry import call, f, program

made = []
here = threading.local()
here.scale = 2.0


class Settings(threading.local):
    depth = 3

    def __init__(self):
        self.calls = 0
        self.seen = []

    def note(self, value):
        self.calls += 1
        self.seen.append(value)
        return self.calls


settings = Settings()
layer = nn.Linear(3, 3)
nn.init.ones_(layer.weight)
nn.init.zeros_(layer.bias)
to_layer = weakref.ref(layer)
for_layer = weakref.proxy(layer)


@functools.cache
def ramp(count):
    made.append(count)
    return torch.arange(float(count))


@functools.lru_cache(maxsize=2)
def options(name, *, scale=1):
    made.append(name)
    return {"name": name, "scale": scale, "uses": 0}


@functools.lru_cache(typed=True)
def pair(a, b=2):
    return [a, b]


@functools.lru_cache
def fails(number):
    made.append(number)
    raise ValueError(f"no {number}")


@functools.cache
def fibonacci(n):
    made.append(n)
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


class Tree:
    def __init__(self, parent, value):
        self.parent = weakref.ref(parent) if parent is not None else None
        self.value = value
        self.children = []

    def add(self, value):
        child = Tree(self, value)
        self.children.append(child)
        return child

    def depth(self):
        parent = self.parent() if self.parent is not None else None
        return 0 if parent is None else 1 + parent.depth()


@program(f(3), f(3), f(3))
def cached_tensor(x):
    return x + ramp(3), ramp.cache_info()


@program(f(3), f(3))
def cached_tensor_is_one_object(x):
    return ramp(3) is ramp(3), x * ramp(3), list(made)


@program(f(3), f(3), f(3))
def cached_and_written(x):
    found = options("a", scale=2)
    found["uses"] += 1
    return x * found["scale"], found["uses"]


@program(f(3), f(3), f(3))
def cached_and_driven_out(x):
    for name in ("a", "b", "c", "a"):
        options(name)["uses"] += 1
    return x + 1, options.cache_info(), list(made)


@program(f(3), f(3))
def cached_by_type(x):
    return pair(1) is pair(1), pair(1) is pair(1.0), pair(1, 2) is pair(1), x + 1, pair.cache_info()


@program(f(3), f(3))
def cached_call_fails(x):
    try:
        fails(3)
    except ValueError as error:
        text = str(error)
    return x + 1, text, fails.cache_info()


@program(f(3), f(3))
def cached_recursion(x):
    return x * fibonacci(6), list(made)


@program(f(3), f(3), call(f(3), before=lambda _: ramp.cache_clear()), f(3))
def cache_that_is_cleared(x):
    return x + ramp(3), len(made)


@program(f(3), f(3))
def thread_local_read(x):
    return x * here.scale, hasattr(here, "other"), getattr(here, "other", 5)


@program(f(3), f(3), f(3))
def thread_local_written(x):
    here.count = getattr(here, "count", 0) + 1
    here.last = x + here.count
    return here.last


@program(f(3), f(3))
def thread_local_deleted(x):
    here.temporary = x
    total = here.temporary * 2
    del here.temporary
    return total, hasattr(here, "temporary"), sorted(vars(here))


@program(f(3), f(3), f(3))
def thread_local_of_a_class(x):
    return x * settings.depth + settings.note(len(x)), list(settings.seen)


@program(f(3), f(3))
def reference_made(x):
    reference = weakref.ref(layer)
    return layer(x) if reference() is layer else x, reference is weakref.ref(layer)


@program(f(3), f(3))
def reference_from_outside(x):
    return to_layer()(x), for_layer(x), for_layer.weight.sum()


@program(f(3), f(3))
def reference_to_a_parent(x):
    root = Tree(None, x)
    leaf = root.add(x + 1).add(x + 2)
    return leaf.depth(), leaf.parent().value, leaf


@program(f(3), f(3))
def reference_to_what_is_gone(x):
    kept = Tree(None, x)
    reference = weakref.ref(kept)
    before = reference() is kept
    del kept
    gc.collect()
    return before, reference() is None, x + 1


@program(f(3), f(3))
def proxy_made(x):
    owner = types.SimpleNamespace(total=x)
    proxy = weakref.proxy(layer)
    proxy.note = owner.total.shape
    return proxy(x), layer.note, proxy.weight is layer.weight


@program(f(3), f(3))
def warnings_in_a_block(x):
    before = warnings.filters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inside = warnings.filters is before
        y = x + 1
    return y, inside, warnings.filters is before, len(warnings.filters)


@program(f(3), f(3))
def warnings_recorded(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = x * 2
        warnings.warn("careful", stacklevel=1)
    return y, [str(w.message) for w in seen]


@program(f(1, 3), f(1, 3))
def warnings_of_an_operator(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = torch.std(x + 1, dim=0)
    return torch.isnan(y), len(seen)


@program(f(3), f(3))
def warnings_and_an_exception(x):
    before = list(warnings.filters)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", category=UserWarning)
            y = x + 1
            raise KeyError("out")
    except KeyError as error:
        return y, error.args, warnings.filters == before


@program(f(3), f(3))
def attributes_of_an_ordered_dict(x):
    state = collections.OrderedDict(weight=x)
    state._metadata = collections.OrderedDict(version=1)
    state._metadata.owner = "me"
    return state, state._metadata["version"], state._metadata.owner, hasattr(state, "other")


@program(f(3), f(3))
def ordered_dict_without_the_key(x):
    seen = []
    for key in ("z", (1, 2), (), None):
        for method in (collections.OrderedDict.move_to_end, collections.OrderedDict.pop):
            try:
                method(collections.OrderedDict(a=1), key)
            except KeyError as error:
                seen.append(error.args)
    return x, seen


@program(f(3), f(3))
def names_of_a_class(x):
    names = vars(Tree)
    return x + len([name for name in names if not name.startswith("__")]), names["depth"] is Tree.depth


@program(f(3), f(3))
def state_that_is_asked(x):
    return x * torch.get_num_threads(), gc.isenabled(), threading.get_ident() == threading.main_thread().ident
