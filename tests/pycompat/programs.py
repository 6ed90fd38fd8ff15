"""Programs that are stopped at every instruction. Each factory returns new (function, args, kwargs, log)."""

import contextlib
import sys
import warnings


class Noisy:
    """A context manager that logs its events."""

    def __init__(self, log, name, suppress=False):
        self.log, self.name, self.suppress = log, name, suppress

    def __enter__(self):
        self.log.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(("exit", self.name, kind and kind.__name__))
        return self.suppress


def keywords():
    def h(*args, **kw):
        return args, kw

    def f(x):
        y = h(x, b=x + 1, c=2)
        return h(b=y, *[1], **{"d": 4})

    return f, (3,), {}, []


MANY = "".join(f"    v{i} = {i} + x\n" for i in range(290))
MANY = f"def f(x):\n{MANY}    return [v0, v255, v256, v289, max(v270, v280, key=lambda v: -v)]\n"
MANY = compile(MANY, "many", "exec")


def many_locals():
    scope = {}
    exec(MANY, scope)
    return scope["f"], (5,), {}, []


def bare_raise():
    log = []

    def f(x):
        try:
            try:
                x["k"]
            except KeyError as e:
                log.append(type(e.__context__).__name__)
                try:
                    1 / 0
                except ZeroDivisionError as z:
                    log.append(type(z.__context__).__name__)
                log.append(repr(sys.exc_info()[1]))
                raise
        except LookupError as e:
            log.append(("again", e.args, e.__context__))
            return 7
        finally:
            log.append(repr(sys.exc_info()[1]))

    return f, ({},), {}, log


def raises_with_context():
    log = []

    def f(x):
        try:
            raise ValueError(x)
        except ValueError as e:
            raise KeyError(x) from e

    return f, (1,), {}, log


def return_in_finally():
    log = []

    def f(n):
        for i in range(n):
            try:
                log.append(i)
                if i == 1:
                    continue
                raise ValueError(i)
            except ValueError:
                log.append("caught")
            finally:
                if i == 2:
                    return ("done", i)
        return "end"

    return f, (5,), {}, log


def nested_with():
    log = []

    def f(x):
        with Noisy(log, "a") as a, Noisy(log, "b", suppress=True):
            x += 1
            with Noisy(log, "c"):
                log.append(a.name)
                raise KeyError(x)
        log.append("after")
        return x

    return f, (1,), {}, log


def error_after_effect():
    log = []

    class Counter:
        n = 0

    c = Counter()

    def f(x):
        try:
            c.n += 1
            y = x.missing
            c.n += 10
        except AttributeError:
            c.n += 100
            y = None
        log.append(c.n)
        return y

    return f, (4,), {}, log


def super_and_self_cell():
    class Base:
        def who(self):
            return "Base", type(self).__name__

    class A(Base):
        def who(self, f=None):
            get = lambda: self  # noqa: E731
            first = super().who()
            return first, super(A, self).who(), get() is self

    class Other(Base):
        def who(self):
            return "Other"

    return A.who, (A(),), {}, []


def locals_and_eval():
    log = []

    def f(a, b=2):
        c = a + b
        log.append({k: v for k, v in locals().items() if k in "abc"})
        log.append(eval("a + c"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.warn("w", stacklevel=1)
        log.append([w.lineno - f.__code__.co_firstlineno for w in caught])
        return c

    return f, (1,), {}, log


def nonlocal_before_and_after():
    def f(x):
        count = x

        def add(k):
            nonlocal count
            count += k
            return count

        first = add(1)
        count = count * 10
        return first, add(5), count

    return f, (2,), {}, []


def deleted():
    log = []

    def f(x, y):
        del x
        try:
            return x  # noqa: F821
        except UnboundLocalError as e:
            log.append(str(e))
        z = y
        del y
        y = z + 1
        return y

    return f, (1, 2), {}, log


def comprehension_with_lambda():
    log = []

    def f(xs):
        fs = [lambda: x * 2 for x in xs if x]
        try:
            x  # noqa: F821
        except UnboundLocalError as e:
            log.append(type(e).__name__)
        if xs is None:
            x = 1
        return [g() for g in fs], {k: v for k, v in zip("ab", xs)}, {c for c in "aab"}

    return f, ([1, 0, 3],), {}, log


def dict_mutated_while_iterated():
    def f(d):
        try:
            for k in d:
                d[k + 1] = 1
        except RuntimeError as e:
            return str(e), list(d)

    return f, ({1: 1},), {}, []


def iterators_half_done():
    def f(xs):
        out = []
        it = iter(xs)
        for a in it:
            out.append((a, next(it, None)))
        for i, (p, q) in enumerate(zip(xs, xs[1:])):
            out.append((i, p, q))
        first, *rest = xs
        return out, first, rest

    return f, ([1, 2, 3, 4, 5],), {}, []


def generator_inside():
    log = []

    @contextlib.contextmanager
    def managed():
        try:
            yield 5
        except ValueError as e:
            log.append(e.args)

    def gen():
        got = yield 1
        log.append(got)
        yield from (2, 3)

    def f(x):
        g = gen()
        a = next(g)
        b = g.send(x)
        c = list(g)
        with managed() as m:
            raise ValueError(m)
        return a, b, c, sum(v for v in range(x))

    return f, (4,), {}, log


def three_deep():
    log = []

    def inner(x):
        log.append("inner")
        raise ValueError(x)

    def middle(x):
        try:
            return inner(x) + 1
        finally:
            log.append("middle")

    def f(x):
        try:
            return middle(x)
        except ValueError as e:
            lines, tb = [], e.__traceback__
            while tb:
                lines.append((tb.tb_frame.f_code.co_name, tb.tb_lineno - tb.tb_frame.f_code.co_firstlineno))
                tb = tb.tb_next
            return lines

    return f, (3,), {}, log


def callbacks():
    log = []

    class Thing:
        def __init__(self, v):
            log.append("init")
            self.v = v

        def __bool__(self):
            log.append("bool")
            return self.v > 1

        @property
        def twice(self):
            log.append("twice")
            return self.v * 2

    def f(xs):
        out = sorted(xs, key=lambda v: (log.append(v), -v)[1])
        t = Thing(out[0])
        if t and not Thing(0):
            out.append(t.twice)
        return out if t.v else None

    return f, ([3, 1, 2],), {}, log


def kinds_of_arguments():
    def f(a, /, b, c=3, *args, d, e=5, **kw):
        total = a + b + c + d + e
        return total, args, kw

    return f, (1, 2, 30, 4), {"d": 6, "z": 1}, []


def uncaught():
    def f(x):
        y = [x]
        for i in range(3):
            y.append(i)
            if i == 2:
                # fmt: off
                (
                    y
                    [100]
                )
                # fmt: on
        return y

    return f, (1,), {}, []


def strings_and_slices():
    def f(s, n):
        a = f"{s!r:>10}-{n:.{2}f}-{s}"
        b = s[1:3] + s[::-1]
        lst = list(s)
        lst[1:2] = ["x", "y"]
        del lst[0]
        d = {"a": 1, **{"b": 2}, "c": n}
        assert d["a"] == 1, "no"
        match (s, n):
            case (str(), 0):
                r = 0
            case [first, float() as second] if second > 1:
                r = (first, second)
            case _:
                r = None
        return a, b, lst, d, r, n is None, 1 < n < 5, s in d, -n, +n, not n

    return f, ("abcd", 2.5), {}, []


def while_loops():
    def f(n):
        out = 0
        while n:
            n -= 1
            if n % 2 and out < 100 or n == 8:
                continue
            out += n if n > 3 else 1
            if out > 30:
                break
        else:
            out = -out
        return out

    return f, (12,), {}, []


# The state must not contain the frame object, which belongs to the copy, so `who` calls sys._getframe.
def frames_seen():

    def who():
        frame, names = sys._getframe(1), []
        while frame and len(names) < 2:
            names.append((frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno))
            frame = frame.f_back
        return names[0], sorted(sys._getframe(1).f_locals)

    def f(x):
        a = who()
        b = [
            who(),
            x,
        ]
        del x
        return a, b, who()

    return f, (1,), {}, []


PROGRAMS = [
    keywords, many_locals, bare_raise, raises_with_context, return_in_finally, nested_with, error_after_effect,
    super_and_self_cell, locals_and_eval, nonlocal_before_and_after, deleted, comprehension_with_lambda,
    dict_mutated_while_iterated, iterators_half_done, generator_inside, three_deep, callbacks, kinds_of_arguments,
    uncaught, strings_and_slices, while_loops, frames_seen,
]  # fmt: skip
