"""Facts about objects, compared with Python's own view."""

import abc
import collections
import sys
import threading
import types
import unittest

import stator_pycompat_ext as ext

V = sys.version_info[:2]
NONE, EMPTY, INLINE, OBJECT = range(4)


class Plain:
    pass


class DictTest(unittest.TestCase):
    def test_tags(self):
        if not ext.has_tags():
            self.assertGreaterEqual(V, (3, 13))
            self.assertEqual(ext.dict_tag({}), 0)
            return
        d = {"a": 1}
        steps = [
            lambda: d.__setitem__("a", 2),
            lambda: d.__setitem__("b", 2),
            lambda: d.__delitem__("b"),
            lambda: d.update(c=3),
            lambda: d.pop("c"),
            lambda: d.setdefault("e", 1),
            lambda: d.clear(),
        ]
        for step in steps:
            before = ext.dict_tag(d)
            self.assertEqual(ext.dict_tag(d), before)
            step()
            self.assertNotEqual(ext.dict_tag(d), before)
            self.assertNotEqual(ext.dict_tag(d), 0)
        held = {"a": []}
        before = ext.dict_tag(held)
        held["a"].append(1)
        held["a"]
        list(held.items())
        self.assertEqual(ext.dict_tag(held), before)

    def test_tag_of_a_materialised_instance_dict(self):
        if not ext.has_tags():
            self.skipTest("no tags")
        p = Plain()
        p.x = 1
        d = p.__dict__
        before = ext.dict_tag(d)
        p.x = 2
        self.assertNotEqual(ext.dict_tag(d), before)

    def test_lookups_run_no_user_code(self):
        calls = []

        class Hostile:
            def __hash__(self):
                return hash("name")

            def __eq__(self, other):
                calls.append(other)
                return True

        d = {Hostile(): 1, "other": 2}
        calls.clear()
        self.assertFalse(ext.has_str_keys(d))
        self.assertIsNone(ext.get_str(d, "name"))
        self.assertEqual(ext.get_str(d, "".join(["oth", "er"])), 2)
        self.assertEqual(calls, [])
        self.assertTrue(ext.has_str_keys({"a": 1}))
        self.assertEqual(ext.get_str({"ab": 1}, "".join(["a", "b"])), 1)
        self.assertIsNone(ext.get_str({"ab": 1}, "c"))

        class Text(str):
            def __eq__(self, other):
                calls.append(other)
                return False

            __hash__ = str.__hash__

        self.assertIsNone(ext.get_str({Text("a"): 1}, "b"))
        self.assertEqual(calls, [])


class TypeTest(unittest.TestCase):
    def test_versions(self):
        class A:
            def f(self):
                pass

        class B(A):
            pass

        version = ext.assign_version(B)
        self.assertNotEqual(version, 0)
        self.assertEqual(ext.type_version(B), version)
        A.f = lambda self: 1
        self.assertNotEqual(ext.type_version(B), version)
        again = ext.assign_version(B)
        self.assertNotIn(again, (0, version))
        B.x = 1
        self.assertEqual(ext.type_version(B), 0)
        self.assertNotEqual(ext.assign_version(int), 0)

    def test_abc_register_is_not_seen(self):
        class A(abc.ABC):
            pass

        version = ext.assign_version(A)
        A.register(int)
        self.assertEqual(ext.assign_version(A), version)


class InstanceTest(unittest.TestCase):
    def test_inline_values_stay_inline(self):
        p = Plain()
        p.b, p.a = 1, 2
        self.assertEqual(ext.instance_dict(p)[0], INLINE)
        self.assertEqual(ext.inline_items(p), [("b", 1), ("a", 2)])
        self.assertEqual(ext.instance_value(p, "".join(["", "a"])), 2)
        self.assertIsNone(ext.instance_value(p, "zz"))
        del p.b
        p.c = 3
        p.b = 4
        self.assertEqual(ext.inline_items(p), [("a", 2), ("c", 3), ("b", 4)])
        self.assertEqual(ext.instance_dict(p)[0], INLINE)

    def test_made_once(self):
        p = Plain()
        p.x = [1]
        d = p.__dict__
        self.assertEqual(ext.instance_dict(p), (OBJECT, d))
        self.assertIs(ext.instance_value(p, "x"), p.x)
        self.assertEqual(ext.inline_items(p), [])
        p.__dict__ = {"y": 5}
        self.assertEqual(ext.instance_dict(p), (OBJECT, {"y": 5}))
        self.assertEqual(ext.instance_value(p, "y"), 5)

    def test_other_layouts(self):
        class Slots:
            __slots__ = ("a",)

        class Text(str):
            pass

        class Sub(tuple):
            pass

        self.assertEqual(ext.instance_dict(Slots()), (NONE, None))
        self.assertEqual(ext.instance_dict(3), (NONE, None))
        for value in (Text("x"), Sub((1, 2)), types.SimpleNamespace(q=1), ValueError(), lambda: 0):
            value.k = 7
            self.assertEqual(ext.instance_value(value, "k"), 7)
        many = Plain()
        for i in range(100):
            setattr(many, f"a{i}", i)
        self.assertEqual(ext.instance_value(many, "a99"), 99)
        self.assertEqual(ext.instance_value(many, "a0"), 0)


class IteratorTest(unittest.TestCase):
    LIST, TUPLE, RANGE, KEYS, VALUES, ITEMS = range(1, 7)

    def test_sequences(self):
        for kind, source in ((self.LIST, [5, 6, 7]), (self.TUPLE, (5, 6, 7))):
            it = iter(source)
            for index in range(3):
                self.assertEqual(ext.iterator(it)[:3], (kind, source, index))
                self.assertEqual(it.__reduce__()[2], index)
                next(it)
            self.assertEqual(list(it), [])
            self.assertEqual(ext.iterator(it)[:2], (kind, None))

    def test_ranges(self):
        for r in (range(3, 30, 4), range(5, -7, -3), range(0), range(-(2**62), 2**62, 2**60)):
            it, left = iter(r), list(r)
            while True:
                kind, _, _, count, start, step = ext.iterator(it)
                self.assertEqual((kind, count), (self.RANGE, len(left)))
                self.assertEqual([start + i * step for i in range(count)], left)
                if not left:
                    break
                self.assertEqual(next(it), left.pop(0))

    def test_dicts(self):
        d = {"a": 1, "b": 2, "c": 3}
        for kind, view in ((self.KEYS, d.keys()), (self.VALUES, d.values()), (self.ITEMS, d.items())):
            it = iter(view)
            next(it)
            got = ext.iterator(it)
            self.assertEqual((got[0], got[2], got[3]), (kind, 1, 2))
            self.assertIs(got[1], d)
            list(it)
            self.assertIsNone(ext.iterator(it)[1])
        self.assertEqual(ext.iterator(iter("ab"))[0], 0)
        self.assertEqual(ext.iterator(iter(collections.OrderedDict(a=1)))[0], 0)

    def test_iterators_of_iterators(self):
        inner = iter([1, 2])
        numbered = enumerate(inner, 7)
        self.assertEqual(ext.iterator(numbered)[:3], (9, inner, 7))
        next(numbered)
        self.assertEqual(ext.iterator(numbered)[:3], (9, inner, 8))
        self.assertEqual(ext.iterator(enumerate([], 2**70))[2], -1)
        for strict in (False, True):
            zipped = zip(inner, "ab", strict=strict)
            kind, asked, _, count, *_ = ext.iterator(zipped)
            self.assertEqual((kind, asked[0], len(asked), count), (10, inner, 2, int(strict)))
        self.assertEqual(ext.iterator(reversed([5, 6]))[:3], (7, [5, 6], 1))
        self.assertEqual(ext.iterator(reversed((5, 6)))[:3], (8, (5, 6), 1))

    def test_peeking_takes_nothing(self):
        item, end, unknown = range(3)
        d = {"a": 1, "b": 2, "c": 3}
        del d["b"]
        makers = (
            lambda: iter([5, 6, 7]),
            lambda: iter((5, 6, 7)),
            lambda: iter(range(5, 50, 20)),
            lambda: iter(range(9, 0, -4)),
            lambda: iter(d),
            lambda: iter(d.values()),
            lambda: iter(d.items()),
            lambda: reversed([5, 6, 7]),
            lambda: reversed((5, 6, 7)),
        )
        for make in makers:
            for taken in range(4):
                it = make()
                for _ in range(taken):
                    next(it, None)
                left = list(make())[taken:]
                for ahead in range(5):
                    found, key, value = ext.peek(it, ahead)
                    self.assertEqual(found, item if ahead < len(left) else end)
                    if ahead < len(left):
                        self.assertEqual((key, value) if key is not None else value, left[ahead])
                self.assertEqual(list(it), left)
                self.assertEqual(ext.peek(it, 0)[0], end)
        it = iter(d)
        d["new"] = 1
        self.assertEqual(ext.peek(it, 0)[0], unknown)
        for it in (iter("ab"), enumerate([1]), zip([1]), (i for i in [1]), reversed("ab")):
            self.assertEqual(ext.peek(it, 0)[0], unknown)


class ThreadTest(unittest.TestCase):
    def test_tracing(self):
        self.assertFalse(ext.is_tracing())
        for setter in (sys.settrace, sys.setprofile):
            setter(lambda *_: None)
            self.assertTrue(ext.is_tracing())
            setter(None)
            self.assertFalse(ext.is_tracing())

    def test_tracing_is_this_thread_s(self):
        ready, done, seen = threading.Event(), threading.Event(), []

        def traced():
            sys.settrace(lambda *_: None)
            seen.append(ext.is_tracing())
            ready.set()
            done.wait()
            sys.settrace(None)

        thread = threading.Thread(target=traced)
        thread.start()
        ready.wait()
        self.assertFalse(ext.is_tracing())
        done.set()
        thread.join()
        self.assertEqual(seen, [True])

    @unittest.skipIf(V < (3, 12), "sys.monitoring")
    def test_monitoring(self):
        monitoring = sys.monitoring
        monitoring.use_tool_id(2, "test")
        try:
            monitoring.set_events(2, monitoring.events.PY_START)
            self.assertTrue(ext.is_tracing())
            monitoring.set_events(2, 0)
            self.assertFalse(ext.is_tracing())
            code = DictTest.test_tags.__code__
            self.assertFalse(ext.is_monitored(code))
            monitoring.set_local_events(2, code, monitoring.events.LINE)
            self.assertTrue(ext.is_monitored(code))
            self.assertFalse(ext.is_tracing())
            monitoring.set_local_events(2, code, 0)
        finally:
            monitoring.free_tool_id(2)


if __name__ == "__main__":
    unittest.main()
