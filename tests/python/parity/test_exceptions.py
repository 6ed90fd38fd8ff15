"""Exceptions that the program raises, handles and inspects."""

import contextlib

import pytest

from tests.python.parity.programs import Programs, x

programs = Programs()


class Bad(ValueError):
    def __init__(self, code, *, detail="none"):
        super().__init__(f"bad {code}")
        self.code = code
        self.detail = detail

    def __str__(self):
        return f"<{self.args[0]} {self.detail}>"


class Quiet(Exception):
    pass


@programs((x, 0), (x, 1), (x, 2), (x, 3))
def dispatch(a, n):
    try:
        if n == 0:
            raise Bad(7, detail="deep")
        if n == 1:
            raise KeyError("k")
        if n == 2:
            [][4]
        out = "nothing"
    except Bad as error:
        out = (error.code, error.detail, str(error), repr(error), error.args)
    except (KeyError, IndexError) as error:
        out = (type(error).__name__, str(error), error.args)
    else:
        out = "else"
    finally:
        a = a + 1
    return a, out


@programs((x,))
def chained(a):
    try:
        try:
            {}["missing"]
        except KeyError as error:
            raise Quiet("outer") from error
    except Quiet as error:
        cause, context = error.__cause__, error.__context__
        return a + 1, type(cause).__name__, cause is context, error.__suppress_context__, cause.args


@programs((x,))
def context_only(a):
    try:
        try:
            1 // 0
        except ZeroDivisionError:
            raise Quiet
    except Quiet as error:
        first = error.__context__
    try:
        raise Quiet("x") from None
    except Quiet as error:
        return a + 1, str(first), error.__cause__, error.__suppress_context__, error.args


@programs((x,))
def reraised(a):
    log = []
    try:
        try:
            raise Bad(1)
        except Bad as error:
            log.append(error.code)
            raise
    except ValueError as error:
        log.append(type(error).__name__)
        same = error
    return a + 1, log, same.code


@programs((x,))
def bare_raise_in_callee(a):
    def again():
        raise

    try:
        try:
            raise Quiet("one")
        except Quiet:
            again()
    except Quiet as error:
        return a + 1, error.args


@programs((x, 1), (x, 0))
def finally_wins(a, n):
    def f():
        try:
            if n:
                raise Quiet
            return "try"
        except Quiet:
            return "except"
        finally:
            if n:
                return "finally"

    return a + n, f()


@programs((x,))
def loop_with_finally(a):
    log = []
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            log.append(i)
        finally:
            log.append(-i)
    return a + 1, log


class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append((kind and kind.__name__, str(value), trace is None))
        return self.swallow


@programs((x,))
def managers(a):
    log = []
    with Manager(log, swallow=True), Manager(log):
        raise Quiet("inner")
    with Manager(log) as m, contextlib.suppress(KeyError), contextlib.nullcontext(3) as three:
        m.log.append(three)
        raise KeyError
    return a + 1, log


@contextlib.contextmanager
def scope(log, name):
    log.append(name)
    try:
        yield name
    except Quiet as error:
        log.append(str(error))
    finally:
        log.append("end " + name)


@programs((x,))
def generator_managers(a):
    log = []
    with scope(log, "a") as name:
        log.append(name + "!")
    with scope(log, "b"):
        raise Quiet("seen")
    try:
        with scope(log, "c"):
            raise KeyError("passes")
    except KeyError as error:
        log.append(repr(error))
    with contextlib.ExitStack() as stack:
        stack.enter_context(scope(log, "d"))
        stack.callback(log.append, "called")
        stack.push(Manager(log))
    with contextlib.closing(closable(log)):
        pass
    return a + 1, log


class closable:
    def __init__(self, log):
        self.log = log

    def close(self):
        self.log.append("closed")


@programs((x,))
def messages(a):
    out = []
    obj = object()
    for make in (
        lambda: [].pop(),
        lambda: [1].pop(3),
        lambda: [].remove(1),
        lambda: [1, 2].index(5),
        lambda: (1, 2).index(5),
        lambda: {}.popitem(),
        lambda: [1][2],
        lambda: (1,)[2],
        lambda: "abc"[7],
        lambda: int("x1"),
        lambda: 1 / 0,
        lambda: 1 % 0,
        lambda: max([]),
        lambda: min(()),
        lambda: next(iter([])),
        lambda: {}["k"],
        lambda: obj.missing,
        lambda: Manager.missing,
        lambda: contextlib.missing,
        lambda: dict([1]) if False else [].missing,
        lambda: (lambda: undefined_name)(),  # noqa: F821
        lambda: "a" + 1,
        lambda: [1] < ["a"],
        lambda: sorted([1, "a"]),
        lambda: math_domain(),
        lambda: (a for a in 3),
        lambda: dict(zip([1], [2], strict=True))[5],
        lambda: list(zip([1, 2], [3], strict=True)),
        lambda: iter(5),
        lambda: len(5),
        lambda: [1, 2, 3].__getitem__("a") if False else {1: 2}.__getitem__(3),
        lambda: (yield_two())[2],
    ):
        try:
            make()
        except Exception as error:
            out.append((type(error).__name__, str(error), repr(error)))
    return a + len(out), out


def math_domain():
    import math

    return math.sqrt(-1)


def yield_two():
    return 1, 2


@programs((x,))
def unpack_errors(a):
    out = []
    for value in ([1], [1, 2, 3], "ab"):
        try:
            p, q = value
            out.append((p, q))
        except ValueError as error:
            out.append(str(error))
    try:
        p, *q, r = [1]
    except ValueError as error:
        out.append(str(error))
    return a + 1, out


@programs((x,))
def exceptions_as_values(a):
    errors = [ValueError("v", 2), Quiet(), Bad(3)]
    errors[1].note = "n"
    return a + 1, [e.args for e in errors], [isinstance(e, ValueError) for e in errors], errors[1].note, errors[2].code


@programs((x,))
def notes_and_hash(a):
    error = Quiet("a")
    error.add_note("first")
    error.add_note("second")
    return a + 1, error.__notes__, {error: 1}[error], error == error, error == Quiet("a"), bool(error)


@programs((x,))
def asserts(a):
    try:
        assert a.shape[0] == 5, f"rows {a.shape[0]}"
    except AssertionError as error:
        return a + 1, str(error)


@programs((x,))
def swallowed_in_loop(a):
    total = a
    for key in ("a", "b", "c"):
        try:
            total = total + {"a": 1, "c": 3}[key]
        except KeyError:
            continue
    return total


@programs((x,))
def stop_iteration_value(a):
    def gen():
        yield 1
        return a + 5

    g = gen()
    next(g)
    try:
        next(g)
    except StopIteration as stop:
        value = stop.value
    try:
        next(g)
    except StopIteration as stop:
        return value, stop.value


@programs((x,))
def attribute_error_of_property(a):
    class_ = WithProperty()
    out = [getattr(class_, "broken", "default"), hasattr(class_, "broken"), hasattr(class_, "fine")]
    try:
        class_.broken
    except AttributeError as error:
        out.append(str(error))
    return a + 1, out


class WithProperty:
    fine = 1

    @property
    def broken(self):
        raise AttributeError("from inside")


test_program = programs.tests()


@pytest.mark.parametrize("n", [0, 1])
def test_an_uncaught_exception_is_the_same(n):
    import stator

    def fn(a, n):
        b = a * 2
        if n:
            raise Bad(n, detail="gone")
        return b

    compiled = stator.compile(fn)
    for call in (fn, compiled, compiled):
        if not n:
            assert call(x, n).equal(x * 2)
            continue
        with pytest.raises(Bad) as caught:
            call(x, n)
        assert caught.value.code == n and str(caught.value) == f"<bad {n} gone>"
