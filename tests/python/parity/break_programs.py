"""Programs with statements that may contain a break, in the form of tests/pycompat/programs.py."""

import collections
import os.path

import torch

# Frames that hold a tensor are captured if a frame that broke calls them.
HELD = torch.ones(1)


def star_handlers():
    log = []

    def f(n, held=HELD):
        try:
            if n == 0:
                raise ValueError("alone")
            raise ExceptionGroup("many", [ValueError(1), KeyError("k"), ExceptionGroup("in", [OSError(2)])])
        except* ValueError as group:
            log.append([repr(e) for e in group.exceptions])
        except* (KeyError, IndexError) as group:
            log.append(repr(group))
        except* OSError:
            log.append("os")
        return len(log)

    return lambda: (f(0), f(1)), (), {}, log


def star_handlers_leave_some():
    log = []

    def f():
        try:
            raise ExceptionGroup("many", [ValueError(1), KeyError("k")])
        except* ValueError as group:
            log.append(repr(group))
            raise TypeError("from the handler") from None

    return f, (), {}, log


def star_reraises_itself():
    def f():
        try:
            raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* TypeError:
            raise

    return f, (), {}, []


def bare_raise_alone():
    def f():
        raise

    return f, (), {}, []


def bare_raise_in_callee():
    def again(held=HELD):
        raise

    def f(x):
        try:
            x[10]
        except IndexError:
            again()

    return f, ([],), {}, []


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


class Wrong:
    __match_args__ = ["x"]


class Lazy(collections.abc.Mapping):
    def __init__(self, log, data):
        self.log, self.data = log, data

    def __getitem__(self, key):
        self.log.append(key)
        return self.data[key]

    def __iter__(self):
        return iter(self.data)

    def __len__(self):
        return len(self.data)


def patterns():
    log = []

    def one(subject, held=HELD):
        match subject:
            case Point(0, y=found):
                return "point", found
            case Point(x, y, z=_):
                return "never", x, y
            case {"kind": "a", "size": size, **rest}:
                return size, rest
            case {"kind": kind}:
                return kind
            case [first, *middle, last]:
                return first, middle, last
            case str(text) | bytes(text):
                return text
            case int() | None:
                return "number or nothing"
        return "nothing"

    def f():
        return [
            one(subject)
            for subject in (
                Point(0, 5), Point(1, 2), {"kind": "a", "size": 3, "more": 4}, {"kind": "b"}, Lazy(log, {"kind": "c"}),
                (1, 2, 3, 4), [1], "text", b"bytes", 7, None, {},
            )
        ]  # fmt: skip

    return f, (), {}, log


def pattern_errors():
    def attempt(subject, held=HELD):
        try:
            match subject:
                case Point(1, 2, 3):
                    return "three"
        except TypeError as error:
            first = str(error)
        try:
            match subject:
                case Point(1, x=1):
                    return "twice"
        except TypeError as error:
            return first, str(error)
        return first

    def f():
        try:
            match Wrong():
                case Wrong(1):
                    return "wrong"
        except TypeError as error:
            return attempt(Point(1, 1)), str(error)

    return f, (), {}, []


class Counted:
    def __init__(self, log, count):
        self.log, self.count = log, count

    def __iter__(self):
        for i in range(self.count):
            self.log.append(i)
            yield i


def unpacking():
    log = []

    def attempt(call, held=HELD):
        try:
            return call()
        except (TypeError, ValueError) as error:
            return type(error).__name__, str(error)

    def two(value, held=HELD):
        a, b = value
        return a, b

    def starred(value, held=HELD):
        a, *b, c, d = value
        return a, b, c, d

    def f():
        out = [attempt(lambda v=v: two(v)) for v in (Counted(log, 2), Counted(log, 5), Counted(log, 1), 3, "ab", None)]
        out += [attempt(lambda v=v: starred(v)) for v in (Counted(log, 5), Counted(log, 2), 3, (1, 2, 3), "abcde")]
        return out

    return f, (), {}, log


def displays():
    log = []

    def attempt(call, held=HELD):
        try:
            return call()
        except TypeError as error:
            return str(error)

    def f(more):
        return [
            [1, *Counted(log, 2), *more],
            {1, *Counted(log, 2), *"ab"} == {0, 1, "a", "b"},
            {"a": 1, **Lazy(log, {"b": 2}), "c": 3},
            attempt(lambda held=HELD: [*5]),
            attempt(lambda held=HELD: {*5}),
            attempt(lambda held=HELD: {**5}),
            (*Counted(log, 3),),
            [more[1:], more[::2], more[0:1]],
        ]

    return f, ([7, 8, 9],), {}, log


def star_calls():
    log = []

    def h(*args, held=HELD, **kw):
        return args, kw

    def attempt(call, held=HELD):
        try:
            return call()
        except TypeError as error:
            return str(error).replace(h.__qualname__, "h")

    def f():
        return [
            h(*Counted(log, 2)),
            h(1, *"ab", **Lazy(log, {"x": 1}), y=2),
            attempt(lambda held=HELD: h(*5)),
            attempt(lambda held=HELD: h(**5)),
            attempt(lambda held=HELD: h(a=1, **{"a": 2})),
            attempt(lambda held=HELD: h(**{1: 2})),
        ]

    return f, (), {}, log


def imports():
    def f():
        import os.path as place
        from os import path, sep
        from os.path import join as glue

        try:
            from os import not_there
        except ImportError as error:
            not_there = str(error)[:30]
        try:
            import not_there_either
        except ImportError as error:
            not_there_either = error.name
        return place is path, glue("a", "b") == f"a{sep}b", not_there, not_there_either

    return f, (), {}, []


COUNT = 0


def class_and_names():
    def f(n):
        global COUNT
        COUNT = n

        class Local:
            size = n

            def double(self, by=2, *, more: int = 0):
                nonlocal n
                n += 1
                return self.size * by + more + n

        made = Local().double(more=3)
        assert COUNT == 4 and os.path is not None, "the global"
        del COUNT
        try:
            COUNT
        except NameError as error:
            text = str(error)
        return made, n, Local.__name__, Local.double.__annotations__, text

    return f, (4,), {}, []


def unbound_names():
    def f(flag, held=HELD):
        out = []
        if flag:
            x = 1
        try:
            out.append(x)
        except UnboundLocalError as error:
            out.append(str(error))
        try:
            del x
        except UnboundLocalError as error:
            out.append(str(error))
        if not flag:
            y = 2

        def inner():
            return y  # noqa: F821

        try:
            out.append(inner())
            del y
            out.append(inner())
        except NameError as error:
            out.append(str(error))
        return out

    return lambda: (f(True), f(False)), (), {}, []


def finally_and_loops():
    log = []

    def f(values):
        for value in values:
            try:
                if value == 2:
                    continue
                if value == 4:
                    break
                log.append(10 // value)
            except ZeroDivisionError:
                log.append("zero")
                continue
            finally:
                log.append(("done", value))
        else:
            log.append("never")
        return log[-1]

    return f, ([0, 1, 2, 3, 4, 5],), {}, log


PROGRAMS = [
    star_handlers, star_handlers_leave_some, star_reraises_itself, bare_raise_alone, bare_raise_in_callee, patterns,
    pattern_errors, unpacking, displays, star_calls, imports, class_and_names, unbound_names, finally_and_loops,
]  # fmt: skip
