"""Recursive functions and structures, deep call chains, long loops and long bodies."""

import functools
import sys

import torch

from tests.python.parity.corpus.registry import f, program


def fact(n):
    return 1 if n <= 1 else n * fact(n - 1)


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def power(x, n):
    if n == 0:
        return torch.ones_like(x)
    half = power(x, n // 2)
    return half * half * x if n % 2 else half * half


def tree_sum(tree):
    if isinstance(tree, torch.Tensor):
        return tree.sum()
    if isinstance(tree, dict):
        return sum(tree_sum(v) for v in tree.values())
    return sum(tree_sum(t) for t in tree)


class Node:
    def __init__(self, value, children=()):
        self.value = value
        self.children = list(children)

    def total(self):
        return self.value + sum(child.total() for child in self.children)

    def depth(self):
        return 1 + max((child.depth() for child in self.children), default=0)


class Linked:
    def __init__(self, head, tail=None):
        self.head, self.tail = head, tail


@program((f(2), 5), (f(2), 6))
def factorial(x, n):
    return x * fact(n)


@program((f(2), 8), (f(2), 5))
def fibonacci(x, n):
    return x * fib(n)


@program((f(2), 5), (f(2), 8))
def power_of_tensor(x, n):
    return power(x, n)


@program([f(2), (f(2), {"a": [f(2)]})], [f(3)])
def sum_of_tree(tree):
    return tree_sum(tree)


@program(Node(f(2), [Node(f(2)), Node(f(2), [Node(f(2))])]), Node(f(2)))
def node_methods(node):
    return node.total(), node.depth()


@program(Linked(f(2), Linked(f(2), Linked(f(2)))), Linked(f(2)))
def linked_list(node):
    total = 0
    count = 0
    while node is not None:
        total = total + node.head
        node = node.tail
        count += 1
    return total, count


@program((f(2), 3), (f(2), 4))
def linked_list_built(x, n):
    node = None
    for k in range(n):
        node = Linked(x * k, node)
    return node, node.tail.head


@program((f(2), 2, 2), (f(2), 1, 3))
def ackermann(x, m, n):
    def ack(a, c):
        if a == 0:
            return c + 1
        return ack(a - 1, 1) if c == 0 else ack(a - 1, ack(a, c - 1))

    return x * ack(m, n)


@program((f(2), 40), (f(2), 60))
def deep_recursion(x, n):
    def go(t, k):
        return t if k == 0 else go(t + 1, k - 1)

    return go(x, n)


@program((f(2), 30), (f(2), 20))
def deep_closures(x, n):
    fn = lambda t: t
    for k in range(n):
        fn = functools.partial(lambda inner, j, t: inner(t) + j, fn, k)
    return fn(x)


@program((f(2), 100), (f(2), 150))
def long_loop(x, n):
    for k in range(n):
        x = x + k
    return x


@program((f(2), 3), (f(2), 2))
def permutations_by_recursion(x, n):
    def permute(items):
        if not items:
            return [[]]
        return [[item, *rest] for k, item in enumerate(items) for rest in permute(items[:k] + items[k + 1 :])]

    found = permute(list(range(n)))
    return x * len(found), found[-1]


@program((f(8),), (f(4),))
def merge_of_halves(x):
    if x.shape[0] == 1:
        return x
    half = x.shape[0] // 2
    return merge_of_halves(x[:half]) + merge_of_halves(x[half:]) * 2


@program((f(2), [[1, [2]], 3]), (f(2), []))
def depth_of_lists(x, tree):
    def depth(node):
        return 1 + max(map(depth, node), default=0) if isinstance(node, list) else 0

    return x * depth(tree)


@program((f(2), 4), (f(2), 5))
def mutual_recursion_with_tensors(x, n):
    def ping(t, k):
        return t if k == 0 else pong(t * 2, k - 1)

    def pong(t, k):
        return t if k == 0 else ping(t + 1, k - 1)

    return ping(x, n)


@program(f(2), f(3))
def recursion_error_is_caught(x):
    def forever(n):
        return forever(n + 1)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(150)
    try:
        forever(0)
    except RecursionError as error:
        return x * 2, str(error)[:32]
    finally:
        sys.setrecursionlimit(limit)


@program((f(2), 4), (f(2), 3))
def memoised_recursion(x, n):
    memo = {}

    def paths(k):
        if k < 2:
            return 1
        if k not in memo:
            memo[k] = paths(k - 1) + paths(k - 2)
        return memo[k]

    return x * paths(n), memo


@program((f(2), 3), (f(2), 4))
def towers_of_hanoi(x, n):
    moves = []

    def move(k, a, c, d):
        if k:
            move(k - 1, a, d, c)
            moves.append((a, d))
            move(k - 1, c, a, d)

    move(n, "a", "b", "c")
    return x * len(moves), moves[0]


@program((f(2), 50), (f(2), 51))
def generator_chain(x, n):
    def numbers():
        yield from range(n)

    def add_one(source):
        for k in source:
            yield k + 1

    gen = numbers()
    for _ in range(5):
        gen = add_one(gen)
    return x * sum(gen)


@program((f(3), 3), (f(3), 2))
def residual_tower(x, depth):
    def layer(t, k):
        if k == depth:
            return t.tanh()
        return t + layer(t * 0.5, k + 1)

    return layer(x, 0)
