"""torch.utils._pytree on structures of tensors."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass

import torch
import torch.utils._pytree as pytree
from torch.utils._pytree import tree_all, tree_any, tree_flatten, tree_leaves, tree_map, tree_unflatten

from tests.python.parity.corpus.registry import f, program

Pair = namedtuple("Pair", "left right")


@dataclass
class Leaf:
    x: object


class Box:
    def __init__(self, a, b):
        self.a, self.b = a, b


pytree.register_pytree_node(Box, lambda box: ([box.a, box.b], None), lambda values, _: Box(*values))


@program([f(2), (f(2), {"k": f(2)})], [f(3), (f(3), {"k": f(3)})])
def map_over_nested(tree):
    return tree_map(lambda t: t * 2, tree)


@program({"a": f(2), "b": [f(2), 3]}, {"a": f(3), "b": [f(3), 4]})
def flatten_and_unflatten(tree):
    leaves, spec = tree_flatten(tree)
    return tree_unflatten([leaf * 2 for leaf in leaves], spec), len(leaves)


@program({"a": f(2), "b": (1, None)}, {"a": f(3), "b": (2, None)})
def leaves_of_mixed(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)], len(tree_leaves(tree))


@program(Pair(f(2), f(2)), Pair(f(3), [f(3)]))
def namedtuples(pair):
    return tree_map(lambda t: t + 1, pair)


@program(OrderedDict(b=f(2), a=f(2)), OrderedDict(z=f(2)))
def ordered_dicts(tree):
    return tree_map(torch.sin, tree), list(tree)


@program(({"a": f(2)}, {"a": f(2)}), ({"a": f(3), "b": f(3)}, {"a": f(3), "b": f(3)}))
def map_over_two_trees(a, c):
    return tree_map(lambda p, q: p + q, a, c)


@program([f(2), 3, "s"], [f(3), 4])
def map_only_tensors(tree):
    return pytree.tree_map_only(torch.Tensor, lambda t: t.sum(), tree), pytree.tree_map_only(int, lambda n: n + 1, tree)


@program([f(2), [f(2)]], [f(3)])
def any_and_all(tree):
    return tree_any(lambda t: t.dim() == 1, tree), tree_all(lambda t: t.shape[0] == 2, tree), tree_leaves(tree)[0] * 2


@program(Box(f(2), {"k": 1}), Box(f(3), {"k": 2}))
def registered_class(box):
    new = pytree.tree_map_only(torch.Tensor, lambda t: t * 3, box)
    return new.a, new.b, type(new).__name__


@program(Leaf(f(2)), Leaf(f(3)))
def unregistered_class_is_a_leaf(leaf):
    leaves = tree_leaves([leaf, 1])
    return leaves[0].x * 2, len(leaves), leaves[0] is leaf


@program(({"a": [f(2), f(2)]},), ({"a": [f(3)]},))
def specs_are_compared(tree):
    _, spec = tree_flatten(tree)
    _, other = tree_flatten({"a": [1, 2]})
    return tree["a"][0] + 1, spec == other, spec.num_leaves


@program((f(2), [1, [2, 3]]), (f(2), [4]))
def sum_of_leaves(x, tree):
    return x * sum(tree_leaves(tree))


@program(defaultdict(list, a=[f(2)]), defaultdict(list, b=[f(3)]))
def default_dicts(tree):
    return tree_map(lambda t: t * 2, tree)


@program(deque([f(2), f(2)], maxlen=3), deque([f(3)]))
def deques(tree):
    return tree_map(lambda t: t * 2, tree)


@program([f(2), f(2)], [f(3), f(3)])
def state_like_update(params):
    grads = tree_map(lambda p: p * 0.1, params)
    return tree_map(lambda p, g: p - 0.5 * g, params, grads)


@program({"w": f(2), "b": f(2)}, {"w": f(3), "b": f(3)})
def paths(tree):
    items, _ = pytree.tree_flatten_with_path(tree)
    return {pytree.keystr(path): leaf * 2 for path, leaf in items}


@program([f(2), None, (f(2), None)], [None, f(3)])
def none_is_a_leaf(tree):
    return tree_map(lambda t: t if t is None else t * 2, tree)


@program(([f(2), f(2)], {"k": f(2)}), ([f(3)], {"k": f(3)}))
def treat_lists_as_leaves(xs, d):
    return tree_map(lambda t: len(t) if isinstance(t, list) else t * 2, [xs, d], is_leaf=lambda t: isinstance(t, list))


@program(([f(2), [f(2)]], 2), ([f(3)], 3))
def tree_map_with_closure(tree, n):
    count = 0

    def visit(t):
        nonlocal count
        count += 1
        return t * n + count

    return tree_map(visit, tree), count


@program(({"a": f(2)}, [1, 2]), ({"a": f(3)}, [3]))
def mismatched_trees_are_an_error(a, c):
    try:
        return tree_map(lambda p, q: p, a, c)
    except ValueError as error:
        return a["a"] * 2, type(error).__name__
