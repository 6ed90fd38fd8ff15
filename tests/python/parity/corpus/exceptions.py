"""raise, try, except, else, finally, causes and contexts, errors of Python and of torch."""

import collections
import dataclasses
import unittest

import torch

from tests.python.parity.corpus.registry import f, i, program

log = []


class BadInput(ValueError):
    def __init__(self, what, size):
        super().__init__(f"{what} of size {size}")
        self.size = size


def checked(x, n):
    if n < 0:
        raise BadInput("negative", n)
    return x * n


@program((f(2), 1), (f(2), -1), (f(3), 2))
def raised_to_the_caller(x, n):
    y = x + 1
    if n < 0:
        raise ValueError(f"n is {n}")
    return y * n


@program((f(2), 1), (f(2), -1))
def raised_in_a_callee(x, n):
    return checked(x + 1, n) + 1


@program((f(2), 1), (f(2), -1), (f(2), 3))
def caught_from_a_callee(x, n):
    try:
        return checked(x, n)
    except BadInput as error:
        return x - error.size, str(error)


@program((f(2), 1), (f(2), 0), (f(2), 7))
def else_and_finally(x, n):
    steps = []
    try:
        k = 10 // n
    except ZeroDivisionError:
        k = -1
        steps.append("except")
    else:
        steps.append("else")
    finally:
        steps.append("finally")
    return x * k, steps


@program((f(2), {"a": 1}), (f(2), {"b": 2}))
def key_error(x, d):
    try:
        return x * d["a"]
    except KeyError as error:
        return x, error.args


@program((f(2), [1, 2, 3]), (f(2), [1]))
def index_error(x, xs):
    try:
        return x + xs[2]
    except IndexError as error:
        return x - xs[0], str(error)


@program((f(2), "12"), (f(2), "zwölf"))
def value_error_of_int(x, text):
    try:
        return x * int(text)
    except ValueError as error:
        return x, str(error)


@program((f(2), "shape"), (f(2), "shapes"))
def attribute_error(x, name):
    try:
        return x * len(getattr(x, name))
    except AttributeError as error:
        return x, str(error)


@program((f(2), 1), (f(2), "one"), (f(2), None))
def several_handlers(x, n):
    try:
        return x * (n + 1) / (n - 1)
    except (TypeError, KeyError) as error:
        return x, type(error).__name__
    except ArithmeticError:
        return -x


@program((f(2), 1), (f(2), 0))
def reraised(x, n):
    try:
        return x / (1 // n)
    except ZeroDivisionError:
        x = x + 1
        raise


@program((f(2), 1), (f(2), 0))
def raised_from(x, n):
    try:
        return x * (1 // n)
    except ZeroDivisionError as error:
        raise RuntimeError("no inverse") from error


@program((f(2), 1), (f(2), 0))
def raised_from_none(x, n):
    try:
        return x * (1 // n)
    except ZeroDivisionError:
        raise RuntimeError("no inverse") from None


@program((f(2), 1), (f(2), 0))
def raised_while_handling(x, n):
    try:
        return x * (1 // n)
    except ZeroDivisionError:
        return x * {}["missing"]


@program((f(2), 1), (f(2), 0))
def context_is_seen(x, n):
    try:
        try:
            k = 1 // n
        except ZeroDivisionError:
            raise KeyError("second")
    except KeyError as error:
        return x, type(error.__context__).__name__, error.__cause__
    return x * k


@program((f(2), 1), (f(2), 2))
def finally_overrides_return(x, n):
    def inner():
        try:
            return x * n
        finally:
            if n == 2:
                return x

    return inner() + 1


@program((f(2), 2), (f(2), 4))
def finally_in_loop(x, n):
    done = []
    for k in range(6):
        try:
            if k == n:
                break
            if k % 2:
                continue
            x = x + k
        finally:
            done.append(k)
    return x, done


@program((f(2), 1), (f(2), -1))
def effects_before_the_error(x, n):
    log.append(n)
    if n < 0:
        raise ValueError("after the log")
    return x * len(log)


@program((f(2), f(2)), (f(2), f(3)))
def shape_error_of_torch(x, y):
    z = x + 1
    return z + y


@program((f(2), f(2)), (f(2), f(3)), (f(2), f(2)))
def shape_error_is_caught(x, y):
    try:
        return x + y
    except RuntimeError:
        return x.sum() + y.sum()


@program((f(2, 3), 1), (f(2, 3), 5))
def dimension_error_of_torch(x, dim):
    try:
        return x.sum(dim)
    except IndexError as error:
        return str(error)


@program((f(4), "float32"), (i(4), "float99"))
def type_error_of_torch(x, name):
    try:
        return x.to(getattr(torch, name)), torch.nn.functional.relu(x)
    except AttributeError:
        return torch.add(x, "text") if x is None else x


@program((f(2), [1, 0, 2, 0]), (f(2), [1, 2]))
def errors_in_a_loop(x, ns):
    failures = 0
    for n in ns:
        try:
            x = x + 1 // n
        except ZeroDivisionError:
            failures += 1
    return x, failures


@program((f(2), 1), (f(2), 2))
def exception_as_value(x, n):
    errors = [ValueError("a"), KeyError("b", n)]
    return x * len(errors), errors[1].args, [type(e).__name__ for e in errors], isinstance(errors[0], Exception)


@program((f(2), 3), (f(2), 5))
def exception_as_control_flow(x, n):
    class Found(Exception):
        pass

    try:
        for a in range(n):
            for c in range(n):
                if a * c == 6:
                    raise Found(a, c)
    except Found as found:
        return x * found.args[0], found.args
    return x


@program((f(2), 2), (f(2), 3))
def error_name_is_deleted(x, n):
    error = "outer"
    try:
        raise ValueError(n)
    except ValueError as error:
        x = x * error.args[0]
    try:
        return error
    except UnboundLocalError:
        return x


@program((f(2), 2), (f(2), 0))
def assertion_error_caught(x, n):
    try:
        assert n, "n is zero"
    except AssertionError as error:
        return x, str(error)
    return x * n


@program((f(2), 2), (f(2), 3))
def notes(x, n):
    try:
        raise ValueError("first")
    except ValueError as error:
        error.add_note(f"n was {n}")
        return x * n, error.__notes__


@program((f(2), 2), (f(2), 3))
def stop_iteration_is_raised(x, n):
    it = iter([x] * n)
    total = 0
    try:
        while True:
            total = total + next(it)
    except StopIteration:
        return total


@program((f(2), 0), (f(2), 1), (f(2), 2))
def except_star_ends(x, kind):
    y = x + 1
    groups = [[ValueError("a")], [ValueError("a"), KeyError("b")], [TypeError("c"), KeyError("b")]]
    seen = []
    try:
        try:
            raise ExceptionGroup("several", groups[kind])
        except* ValueError as group:
            seen.append((len(group.exceptions), torch.is_grad_enabled()))
            y = y * 2
        except* KeyError:
            y = y * 3
    except ExceptionGroup as rest:
        seen.append([type(error).__name__ for error in rest.exceptions])
    return y * 2, seen


@program((f(2), None), (f(2), 3), (f(2), "raised"))
def a_traceback_is_set(x, to):
    other = ValueError("a")
    try:
        try:
            raise other
        except ValueError as error:
            x = x + (error.__traceback__ is None)
            error.__traceback__ = error.__traceback__ if to == "raised" else to
            x = x + (error.__traceback__ is None) * 2
            x = x + (error.with_traceback(None) is other) * 4
            x = x + (error.__traceback__ is None) * 8
            raise
    except ValueError as error:
        return x + (error.__traceback__ is None) * 16
    except TypeError as error:
        return x * 100, str(error)


@program((f(2), 0), (f(2), 1), (f(2), 2), (f(2), 3), (f(2), 4))
def links_to_no_exception(x, kind):
    try:
        try:
            raise ValueError("a")
        except ValueError as error:
            if kind == 0:
                error.__cause__ = 2
            elif kind == 1:
                error.__context__ = "b"
            elif kind == 2:
                raise error from 3
            elif kind == 3:
                raise 5  # noqa: B904
            error.__cause__ = KeyError
    except TypeError as error:
        return x * 2, str(error), repr(error.__context__)


@program((f(2), 42), (f(2), "text"))
def variables_of_what_has_none(x, value):
    try:
        return x, vars(value)
    except TypeError as error:
        return x * 3, str(error)


@program((f(2), 0), (f(2), 1))
def expected_errors_of_a_test_case(x, which):
    case = unittest.TestCase()
    with case.assertRaises(ZeroDivisionError) as caught:
        if which:
            x = x / (which - 1)
            which // 0
        which % 0
    with case.assertRaisesRegex(KeyError, "missing"):
        {}["missing"]
    return x * 2, str(caught.exception), caught.exception.__traceback__ is None


@program(f(2), f(3))
def fields_of_a_traceback(x):
    try:
        raise ValueError("here")
    except ValueError as error:
        trace = error.__traceback__
    return x + 1, trace.tb_next is None, trace.tb_lineno > 0, hasattr(trace, "tb_frame")


Point = collections.namedtuple("Point", "a b")


@dataclasses.dataclass
class Measured:
    size: int


@program(f(3), f(3))
def wrong_arguments_of_what_the_library_made(x):
    seen = []
    for make in (lambda: Point(1), lambda: Measured(), lambda: Measured(1, 2)):
        try:
            make()
        except TypeError as error:
            seen.append(str(error))
    return x + 1, seen
