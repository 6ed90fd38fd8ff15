"""The hook: installation, results, chaining with other hooks, bypassing in deep recursion; linked frames."""

import contextlib
import gc
import os
import sys
import threading
import time
import traceback
import tracemalloc
import unittest
import warnings
import weakref

import stator_pycompat_ext as ext

V = sys.version_info[:2]
REASON = ext.unsupported()


@contextlib.contextmanager
def hooked():
    ext.hook_acquire()
    try:
        yield
    finally:
        ext.hook_release()


@contextlib.contextmanager
def answering(function, result):
    ext.answer_with(function.__code__, result, *ext.return_site(function.__code__))
    try:
        with hooked():
            yield
    finally:
        ext.answer_with(None, None, -1, False)


@unittest.skipUnless(REASON, "frames are supported")
class UnsupportedTest(unittest.TestCase):
    def test_refused_with_a_reason(self):
        self.assertIn("3.12", REASON)
        for call in (ext.hook_acquire, lambda: ext.resume(lambda: 0, [], [], 0)):
            with self.assertRaisesRegex(NotImplementedError, "3.12"):
                call()


@unittest.skipIf(REASON, REASON)
class AnswerTest(unittest.TestCase):
    def functions(self):
        def value(a, b=2, *args, k=3, **kw):
            return a

        def constant(a, b=2, *args, k=3, **kw):
            pass

        def raising(a, b=2, *args, k=3, **kw):
            raise ValueError(a)

        def endless(a, b=2, *args, k=3, **kw):
            while True:
                a.go()

        def with_try(a, b=2, *args, k=3, **kw):
            try:
                return a.x
            except Exception:
                raise

        def with_cells(a, b=2, *args, k=3, **kw):
            def inner():
                return a, value

            return inner

        return value, constant, raising, endless, with_try, with_cells

    def test_result_without_evaluation(self):
        result = object()
        for f in self.functions():
            with answering(f, result):
                self.assertIs(f(1), result, f)
                self.assertIs(f(1, 2, 3, k=4, z=5), result)
                self.assertEqual([f(i) for i in range(50)], [result] * 50)
            self.assertIsNone(sys.exception())

    def test_nothing_leaks(self):
        class Probe:
            pass

        for f in self.functions():
            result, probe = Probe(), Probe()
            gone = weakref.ref(probe)
            with answering(f, result):
                counts = sys.getrefcount(probe), sys.getrefcount(result), sys.getrefcount(f.__code__)
                functions = sys.getrefcount(f)
                for _ in range(1000):
                    f(probe, probe, probe, k=probe, z=probe)
                now = sys.getrefcount(probe), sys.getrefcount(result), sys.getrefcount(f.__code__)
                self.assertEqual(now, counts, f)
                self.assertEqual(sys.getrefcount(f), functions)
            del probe
            self.assertIsNone(gone(), f)

    def test_memory_stays(self):
        tracemalloc.start()
        try:
            for f in self.functions():
                with answering(f, None):
                    f([0] * 100)
                    gc.collect()
                    before = tracemalloc.get_traced_memory()[0]
                    for _ in range(3000):
                        f([0] * 100)
                    gc.collect()
                    self.assertLess(tracemalloc.get_traced_memory()[0] - before, 20_000, f)
        finally:
            tracemalloc.stop()

    def test_methods_and_callbacks(self):
        class A:
            def m(self, x):
                return x

            def __init__(self):
                self.v = 1

            @property
            def p(self):
                return 1

        with answering(A.m, 7):
            self.assertEqual(A().m(1), 7)
            self.assertEqual(list(map(A().m, [1, 2])), [7, 7])
        with answering(A.p.fget, 8):
            self.assertEqual([A().p for _ in range(20)], [8] * 20)
        key = lambda v: v  # noqa: E731
        with answering(key, 0):
            self.assertEqual(sorted([3, 1, 2], key=key), [3, 1, 2])

    def test_generators_are_left_alone(self):
        def g():
            yield 1
            yield 2

        with hooked():
            self.assertEqual(list(g()), [1, 2])


@unittest.skipIf(REASON, REASON)
class RefillTest(unittest.TestCase):
    def test_a_called_frame_continues_in_a_new_frame(self):
        class Probe:
            pass

        def f(a, b, *, k):
            first = a
            for item in b:
                first = (first, item, k)
            return first

        old, new = Probe(), [Probe(), Probe()]
        body = [r for r in ext.decode(f.__code__)[0] if r[0] == "STORE_FAST"][1]  # the loop variable
        slots = [ext.NULL, ext.NULL, new[0], "first", ext.NULL]
        self.assertEqual(f.__code__.co_varnames, ("a", "b", "k", "first", "item"))

        def counts():
            return [sys.getrefcount(v) for v in (old, *new, slots, f.__code__)]

        with hooked():
            ext.refill_with(f.__code__, slots, [iter([]), 5], body[4])
            self.assertEqual(f(old, old, k=old), ("first", 5, new[0]))
            ext.refill_with(f.__code__, slots, [iter([]), new[1]], body[4])
            before = counts()
            for _ in range(200):
                self.assertEqual(f(old, old, k=old), ("first", new[1], new[0]))
            self.assertEqual(counts(), before)
            # A state that does not match the code raises from the frame, and nothing leaks.
            ext.refill_with(f.__code__, slots, [new[1]] * 50, body[4])
            before = counts()
            for _ in range(200):
                with self.assertRaises(SystemError):
                    f(old, old, k=old)
            self.assertEqual(counts(), before)
            ext.refill_with(None, [], [], 0)

    def test_finalizers_see_a_valid_frame(self):
        log = []

        class Old:
            def __del__(self):
                log.append(sys._getframe(1).f_code.co_name)

        def f(a):
            b = a
            return b

        last = [r for r in ext.decode(f.__code__)[0] if r[0] == "RETURN_VALUE"][0]
        with hooked():
            ext.refill_with(f.__code__, [7, 8], [9], last[4])
            self.assertEqual(f(Old()), 9)
            ext.refill_with(None, [], [], 0)
        self.assertEqual(log, ["test_finalizers_see_a_valid_frame"])


@unittest.skipIf(REASON, REASON)
class HookTest(unittest.TestCase):
    def test_installed_only_while_used(self):
        self.assertFalse(ext.is_current())
        before = ext.seen()
        (lambda: 0)()
        self.assertEqual(ext.seen(), before)
        with hooked():
            self.assertTrue(ext.is_current())
            with hooked():
                self.assertTrue(ext.is_current())
            self.assertTrue(ext.is_current())
            (lambda: 0)()
        self.assertFalse(ext.is_current())
        self.assertGreater(ext.seen()[0], before[0])

    def test_cost(self):
        def nothing():
            pass

        def measure(n=300_000):
            start = time.process_time()
            for _ in range(n):
                nothing()
            return (time.process_time() - start) / n * 1e9

        plain = min(measure() for _ in range(5))
        with hooked():
            under = min(measure() for _ in range(5))
        with answering(nothing, None):
            answered = min(measure() for _ in range(5))
        print(f"  a call: plain {plain:.0f} ns, under the hook {under:.0f} ns, answered {answered:.0f} ns")
        self.assertLess(under, 4 * plain + 500)

    def test_recursion(self):
        def down(n):
            return 0 if n == 0 else 1 + down(n - 1)

        limit = sys.getrecursionlimit()
        with hooked():
            self.assertEqual(down(900), 900)
            with self.assertRaises(RecursionError):
                down(limit + 10)
            sys.setrecursionlimit(60_000)
            try:
                self.assertEqual(down(50_000), 50_000)
                self.assertTrue(ext.is_current())
            finally:
                sys.setrecursionlimit(limit)

    def test_recursion_that_acquires_again(self):
        def leaf():
            pass

        class Hooked:
            def __enter__(self):
                ext.hook_acquire()

            def __exit__(self, *_):
                ext.hook_release()

        def in_c(n):
            ext.call_hooked(leaf)
            return 0 if n == 0 else 1 + in_c(n - 1)

        def in_python(n):
            with hooked_call:
                (lambda: 0)()
            return 0 if n == 0 else 1 + in_python(n - 1)

        def under(n):
            return 0 if n == 0 else ext.call_hooked(lambda: under(n - 1)) + 1

        hooked_call = Hooked()
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(40_000)
        try:
            with hooked():
                self.assertEqual(in_c(20_000), 20_000)
                self.assertEqual(in_python(20_000), 20_000)
                self.assertEqual(under(150), 150)  # C recursion of the program itself
                self.assertTrue(ext.is_current())
        finally:
            sys.setrecursionlimit(limit)
        self.assertFalse(ext.is_current())

    def test_exceptions_pass_through(self):
        def raises(n):
            if n:
                return raises(n - 1)
            raise KeyError(n)

        with hooked():
            for _ in range(3):
                try:
                    raises(300)
                except KeyError as e:
                    self.assertEqual(len(traceback.extract_tb(e.__traceback__)), 302)
            self.assertTrue(ext.is_current())

    def test_with_another_hook_on_top(self):
        with hooked():
            ext.stranger(True)
            before, strange = ext.seen()[0], ext.stranger(None)
            (lambda: 0)()
            self.assertGreater(ext.seen()[0], before)
            self.assertGreater(ext.stranger(None), strange)
        # Our hook stays below the other tool's without effect; a new use installs it on top.
        before = ext.seen()
        (lambda: 0)()
        self.assertEqual(ext.seen(), before)
        with hooked():
            strange = ext.stranger(None)
            self.assertEqual((lambda: 5)(), 5)
            self.assertEqual((lambda n: [k for k in range(n)])(3), [0, 1, 2])
            self.assertGreater(ext.stranger(None), strange)
            self.assertGreater(ext.seen()[0], before[0])
        ext.stranger(False)  # restores the evaluator it found: our hook
        before = ext.seen()
        self.assertEqual((lambda: 6)(), 6)
        self.assertEqual(ext.seen(), before)
        with hooked():
            self.assertEqual((lambda: 7)(), 7)
        self.assertFalse(ext.is_current())

    def test_with_another_hook_below(self):
        ext.stranger(True)
        with hooked():
            strange = ext.stranger(None)
            self.assertEqual((lambda: 7)(), 7)
            self.assertGreater(ext.stranger(None), strange)
        ext.stranger(False)
        self.assertFalse(ext.is_current())

    def test_threads(self):
        errors = []

        def down(n):
            return 0 if n == 0 else 1 + down(n - 1)

        def work():
            try:
                for _ in range(100):
                    with hooked():
                        if down(400) != 400:
                            errors.append("wrong")
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=work) for _ in range(4)]
        old = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for t in threads:
                t.start()
            for t in threads:
                t.join()
        finally:
            sys.setswitchinterval(old)
        self.assertEqual(errors, [])
        self.assertFalse(ext.is_current())

    def test_fork(self):
        ready, done = threading.Event(), threading.Event()

        def other():
            with hooked():
                ready.set()
                done.wait()

        thread = threading.Thread(target=other)
        thread.start()
        ready.wait()
        with warnings.catch_warnings(), hooked():
            warnings.simplefilter("ignore")
            pid = os.fork()
        if pid == 0:
            os._exit(1 if ext.is_current() else 0)
        done.set()
        thread.join()
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_tracing_under_the_hook(self):
        events = []

        def f(x):
            y = x + 1
            return y

        def tracer(frame, event, arg):
            if frame.f_code is f.__code__:
                events.append((event, frame.f_lineno - f.__code__.co_firstlineno))
            return tracer

        with hooked():
            sys.settrace(tracer)
            f(1)
            sys.settrace(None)
        self.assertEqual(events, [("call", 0), ("line", 1), ("line", 2), ("return", 2)])


@unittest.skipIf(REASON, REASON)
class LinkTest(unittest.TestCase):
    def linked(self, function, slots, callable_):
        code = function.__code__
        slots = slots + [ext.NULL] * (code.co_nlocals - len(slots)) + list(function.__closure__ or ())
        calls = [row for row in ext.decode(code)[0] if row[0] == "CALL"]
        return calls[0], ext.call_linked(function, slots, calls[0][5], callable_, *ext.return_site(code))

    def test_frames_below_see_it(self):
        def f(x):
            return print(x)

        def callee():
            frame = sys._getframe(1)
            return frame.f_code.co_name, frame.f_lineno, frame.f_back.f_code.co_name, dict(frame.f_locals), frame

        call, result = self.linked(f, [5], callee)
        self.assertEqual(result[:4], ("f", call[6], "linked", {"x": 5}))
        # A frame object outlives its frame if there is a reference to it.
        self.assertEqual(result[4].f_locals, {"x": 5})
        self.assertEqual(result[4].f_back.f_code.co_name, "linked")
        self.assertIs(sys._getframe().f_code, LinkTest.test_frames_below_see_it.__code__)

    def test_super_in_another_class(self):
        class Base:
            def who(self):
                return "Base"

        class A(Base):
            def who(self):
                return super().who()

        class Caller(Base):
            def call(self, a):
                return LinkTest.linked(self, A.who, [a], lambda: super(A, a).who())

        self.assertEqual(Caller().call(A())[1], "Base")
        # super() without arguments reads the running frame, which is the linked one.
        a = A()
        _, made = self.linked(A.who, [a], super)
        self.assertIs(made.__thisclass__, A)
        self.assertIs(made.__self__, a)

    def test_walks_end(self):
        def f(x):
            return print(x)

        for _ in range(3):
            self.linked(f, [1], lambda: traceback.extract_stack())
            self.assertLess(len(traceback.extract_stack()), 100)

    def test_error_while_linked(self):
        def f(x):
            try:
                return print(x)
            except ZeroDivisionError as e:
                return [t.name for t in traceback.extract_tb(e.__traceback__)]

        def callee():
            return 1 / 0

        self.assertEqual(self.linked(f, [1], callee)[1], ["f", "callee"])

    def test_trace_begun_inside(self):
        lines = []

        def f(x):
            return print(x)

        def callee():
            def tracer(frame, event, arg):
                lines.append((frame.f_code.co_name, event))
                return tracer

            sys.settrace(tracer)
            (lambda: 0)()
            sys.settrace(None)

        self.linked(f, [1], callee)
        self.assertEqual(lines, [("<lambda>", "call"), ("<lambda>", "line"), ("<lambda>", "return")])


if __name__ == "__main__":
    unittest.main()
