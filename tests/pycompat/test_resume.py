"""Every program behaves the same when it is stopped before any instruction and continued in a new frame."""

import gc
import sys
import traceback
import unittest

import programs
import stator_pycompat_ext as ext
import stopping

REASON = ext.unsupported()


def outcome(call, function, log):
    """Everything a caller can observe."""
    try:
        result = ("value", repr(call()))
    except BaseException as e:
        chain, seen = [], e
        while seen is not None:
            chain.append((type(seen).__name__, seen.args))
            seen = seen.__context__
        lines = [
            (entry.name, entry.lineno, entry.colno)
            for entry in traceback.extract_tb(e.__traceback__)
            if entry.name == function.__name__
        ]
        result = ("raised", chain, lines)
    return result, repr(log), repr(sys.exc_info()[1])


@unittest.skipIf(REASON, REASON)
class ResumeTest(unittest.TestCase):
    maxDiff = 4000

    def stops(self, program, warm, around):
        function, args, kwargs, log = program()
        want = around(lambda: outcome(lambda: function(*args, **kwargs), function, log))
        depths = stopping.stack_depths(function.__code__)
        rows = ext.decode(function.__code__)[0]
        count = 0
        plain = function.__code__
        for _ in range(30 if warm else 0):  # all functions that a factory makes share their code
            other, a, k, _ = program()
            try:
                other(*a, **k)
            except Exception:
                pass
        for index, depth in sorted(depths.items())[:: 1 + len(depths) // 250]:
            stop = rows[index][4]
            function, args, kwargs, log = program()
            self.assertIs(function.__code__, plain)
            if not warm:
                function.__code__ = plain.replace()

            def stopped_and_resumed():
                state = stopping.run_to(function, stop, depth, args, kwargs)
                return state and outcome(state.run, function, log)

            got = around(stopped_and_resumed)
            if got is not None:
                self.assertEqual(got, want, f"{program.__name__} stopped before {rows[index]}")
                count += 1
        self.assertGreater(count, min(len(rows) // 3, 80), program.__name__)
        return count

    def each(self, warm, around):
        total = 0
        for program in programs.PROGRAMS:
            with self.subTest(program.__name__):
                total += self.stops(program, warm, around)
        print(f"  {len(programs.PROGRAMS)} programs, {total} stops")

    def test_cold(self):
        self.each(False, lambda call: call())

    def test_warm(self):
        self.each(True, lambda call: call())

    def test_caller_handles_an_exception(self):
        def around(call):
            try:
                raise MemoryError("the caller's")
            except MemoryError:
                result = call()
                self.assertEqual(repr(sys.exc_info()[1]), repr(MemoryError("the caller's")))
                return result

        self.each(False, around)

    def test_under_the_hook(self):
        def around(call):
            ext.hook_acquire()
            try:
                return call()
            finally:
                ext.hook_release()

        self.each(False, around)

    def test_nothing_is_kept(self):
        for program in programs.PROGRAMS:
            function, args, kwargs, log = program()
            depths = sorted(stopping.stack_depths(function.__code__).items())
            rows = ext.decode(function.__code__)[0]

            def all_stops():
                for index, depth in depths[:: max(1, len(depths) // 40)]:
                    function, args, kwargs, log = program()
                    state = stopping.run_to(function, rows[index][4], depth, args, kwargs)
                    if state:
                        outcome(state.run, function, log)
                function = args = kwargs = log = state = None
                gc.collect()
                return len(gc.get_objects())

            all_stops()
            all_stops()
            before = all_stops()
            self.assertLessEqual(all_stops(), before + 3, program.__name__)


@unittest.skipIf(REASON, REASON)
class ThrowTest(unittest.TestCase):
    def stop_at_call(self, function, args, line):
        depths = stopping.stack_depths(function.__code__)
        for index, row in enumerate(ext.decode(function.__code__)[0]):
            if row[0] == "CALL" and row[6] == function.__code__.co_firstlineno + line:
                return stopping.run_to(function, row[4], depths[index], args, {})
        raise AssertionError("no call there")

    def test_handlers_and_finally_run(self):
        log = []

        def f(x, cb):
            y = x + 1
            try:
                with programs.Noisy(log, "c"):
                    z = cb(y)
                    return z
            except KeyError as e:
                lines = [t.lineno - f.__code__.co_firstlineno for t in traceback.extract_tb(e.__traceback__)]
                return "caught", e.args, lines
            finally:
                log.append(y)

        state = self.stop_at_call(f, (1, None), 4)
        self.assertEqual(state.run(KeyError("k")), ("caught", ("k",), [4]))
        self.assertEqual(log, [("enter", "c"), ("exit", "c", "KeyError"), 2])

    def test_uncaught_has_its_line(self):
        def f(cb):
            for _ in range(3):
                # fmt: off
                (
                    cb(1)
                )
                # fmt: on

        state = self.stop_at_call(f, (None,), 4)
        try:
            state.run(OSError(5))
        except OSError as e:
            entry = traceback.extract_tb(e.__traceback__)[-1]
        self.assertEqual((entry.name, entry.lineno), ("f", f.__code__.co_firstlineno + 4))
        self.assertGreater(entry.end_colno, entry.colno)

    def test_state_that_does_not_fit(self):
        def f():
            return 1

        for stack, offset in ([1] * 100, 0), ([], 1000), ([], -1):
            with self.assertRaises(SystemError):
                ext.resume(f, [], list(stack), offset)
        with self.assertRaises(TypeError):
            ext.resume(len, [], [], 0)

    def test_wide_signatures(self):
        scope = {}
        names = ", ".join(f"a{i}" for i in range(20))
        exec(f"def f({names}, *args, k1, k2=0, **kw):\n    return a0, a19, args, k1, k2, kw\n", scope)
        f = scope["f"]
        slots = list(range(20)) + ["k1", "k2", ("args",), {"kw": 1}]
        self.assertEqual(ext.resume(f, slots, [], 0), (0, 19, ("args",), "k1", "k2", {"kw": 1}))
        self.assertEqual(slots, [])

    def test_collection_while_binding(self):
        calls = []

        def f(a, *args, **kw):
            calls.append((a, args, kw))
            return a

        class Cycle:
            def __init__(self):
                self.me = self

            def __del__(self):
                f("from __del__")

        threshold = gc.get_threshold()
        gc.collect()
        gc.set_threshold(1, 1, 1)
        try:
            for i in range(50):
                Cycle()
                slots = [i, ("args",), {"k": i}] + list(f.__closure__)
                start = next(r[4] for r in ext.decode(f.__code__)[0] if r[0] == "NOP")
                self.assertEqual(ext.resume(f, slots, [], start), i)
                self.assertTrue(gc.isenabled())
        finally:
            gc.set_threshold(*threshold)
        gc.collect()
        mine = [c for c in calls if c[0] != "from __del__"]
        self.assertEqual(mine, [(i, ("args",), {"k": i}) for i in range(50)])
        self.assertEqual(len(calls), 100)


@unittest.skipIf(REASON, REASON)
class GeneratorTest(unittest.TestCase):
    def suspended(self, log):
        def g(x):
            total = x
            try:
                while True:
                    got = yield total
                    total += got
            except KeyError as e:
                log.append(e.args)
                yield "caught"
            finally:
                log.append(("end", total))

        yields = [row for row in ext.decode(g.__code__)[0] if row[0] == "YIELD_VALUE"]
        generator = g(0)
        names = g.__code__.co_varnames
        values = {"x": 1, "total": 40}
        slots = [values.get(n, ext.NULL) for n in names] + list(g.__closure__)
        ext.fill_generator(generator, slots, [], yields[0][5])
        return generator

    def test_send_throw_close(self):
        log = []
        generator = self.suspended(log)
        self.assertEqual(generator.send(2), 42)
        self.assertEqual(generator.throw(KeyError(1)), "caught")
        generator.close()
        self.assertEqual(log, [(1,), ("end", 42)])
        generator = self.suspended(log)
        generator.close()
        self.assertEqual(log[-1], ("end", 40))
        generator = self.suspended(log)
        del generator
        gc.collect()
        self.assertEqual(log[-1], ("end", 40))
        self.assertEqual(len(log), 4)

    def test_started_is_refused(self):
        generator = self.suspended([])
        with self.assertRaises(SystemError):
            ext.fill_generator(generator, [], [], 0)


if __name__ == "__main__":
    unittest.main()
