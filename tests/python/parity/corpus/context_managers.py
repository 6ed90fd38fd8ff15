"""with: user classes, contextlib, suppression, nesting, torch's own managers."""

import contextlib
import io

import torch

from tests.python.parity.corpus.registry import f, program

log = []


class Scope:
    def __init__(self, name, suppress=False):
        self.name, self.suppress = name, suppress

    def __enter__(self):
        log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, value, trace):
        log.append(f"exit {self.name} {kind.__name__ if kind else None}")
        return self.suppress


class Counter:
    depth = 0

    def __enter__(self):
        Counter.depth += 1
        return Counter.depth

    def __exit__(self, *exc):
        Counter.depth -= 1


@contextlib.contextmanager
def scaled(by):
    log.append(by)
    yield by * 2
    log.append(-by)


@contextlib.contextmanager
def guarded(name):
    try:
        yield name
    except ValueError as error:
        log.append(f"{name}: {error}")
    finally:
        log.append("left")


@program(f(2), f(2), f(3))
def class_manager(x):
    with Scope("a") as scope:
        y = x + len(scope.name)
    return y


@program((f(2), 1), (f(2), 0))
def exit_sees_the_error(x, n):
    with Scope("a", suppress=True):
        x = x * (1 // n)
    return x


@program((f(2), 1), (f(2), 0))
def error_passes_through(x, n):
    with Scope("a"):
        return x * (1 // n)


@program(f(2), f(2))
def two_in_one_statement(x):
    with Scope("a") as first, Scope("b") as second:
        return x * len(first.name + second.name)


@program((f(2), 1), (f(2), 0))
def nested_one_suppresses(x, n):
    with Scope("outer"):
        with Scope("inner", suppress=True):
            x = x + 1 // n
        x = x * 2
    return x


@program(f(2), f(3))
def class_attribute_depth(x):
    with Counter() as a:
        with Counter() as c:
            y = x * a * c
    return y + Counter.depth


@program((f(2), 3), (f(2), 4))
def contextlib_generator(x, n):
    with scaled(n) as k:
        x = x * k
    return x


@program((f(2), 3), (f(2), -1))
def contextlib_handles_error(x, n):
    with guarded("g"):
        x = x + 1
        if n < 0:
            raise ValueError("negative")
        x = x * n
    return x


@program((f(2), 1), (f(2), 0))
def suppress(x, n):
    with contextlib.suppress(ZeroDivisionError, KeyError):
        x = x * (6 // n)
    return x


@program((f(2), True), (f(2), False))
def null_context(x, use):
    manager = Scope("n") if use else contextlib.nullcontext()
    with manager:
        x = x * 2
    return x


@program((f(2), 2), (f(2), 3))
def exit_stack(x, n):
    with contextlib.ExitStack() as stack:
        for k in range(n):
            stack.enter_context(Scope(str(k)))
        x = x * n
    return x


@program((f(2), 2), (f(2), 3))
def return_inside_loop(x, n):
    for k in range(5):
        with Scope(str(k)):
            if k == n:
                return x * k
            if k == 1:
                continue
            x = x + k
    return x


@program(f(2, grad=True), f(2))
def no_grad(x):
    with torch.no_grad():
        y = x * 2
    z = x * 3
    return y, z, y.requires_grad


@program(f(2, grad=True), f(3, grad=True))
def enable_inside_no_grad(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            c = x * 3
        d = torch.is_grad_enabled()
    return a, c, d, torch.is_grad_enabled()


@program((f(2, grad=True), True), (f(2, grad=True), False))
def set_grad_enabled(x, flag):
    with torch.set_grad_enabled(flag):
        y = x.sin()
    return y


@program(f(2, 2), f(3, 3))
def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
    return y, y.dtype


@program((f(2), 2), (f(2), 3))
def manager_as_decorator(x, n):
    @torch.no_grad()
    def run(t):
        return t * n

    @contextlib.contextmanager
    def tagged():
        log.append("tag")
        yield

    @tagged()
    def other(t):
        return t + n

    return run(x), other(x)


@program((f(2), 2), (f(2), 3))
def closing(x, n):
    class Resource:
        open = True

        def close(self):
            self.open = False

    resource = Resource()
    with contextlib.closing(resource) as r:
        x = x * n if r.open else x
    return x, resource.open


@program((f(2), "text"), (f(2), "other"))
def redirected_output(x, text):
    buffer = io.StringIO()
    with contextlib.redirect_stdout(buffer):
        print(text)
    return x * 2, buffer.getvalue()


@program((f(2), 2), (f(2), 0))
def manager_in_a_callee(x, n):
    def compute(t):
        with Scope("callee"):
            return t / (4 // n)

    try:
        return compute(x)
    except ZeroDivisionError:
        return x


@program((f(2), 1), (f(2), 0))
def exit_raises(x, n):
    class Loud:
        def __enter__(self):
            return self

        def __exit__(self, *exc):
            raise RuntimeError("exit failed")

    try:
        with Loud():
            x = x * (1 // n)
    except RuntimeError as error:
        return x, str(error), type(error.__context__).__name__
