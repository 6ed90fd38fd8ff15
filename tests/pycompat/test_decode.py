"""Decoded code against `dis`, for every function of the standard library."""

import dis
import gc
import importlib.util
import itertools
import opcode
import os
import sys
import time
import types
import unittest

import stator_pycompat_ext as ext

V = sys.version_info[:2]
SKIPPED = {"CACHE", "EXTENDED_ARG", "KW_NAMES", "PRECALL"}
RENAMED = {
    "RESUME": "NOP",
    "JUMP_FORWARD": "JUMP",
    "JUMP_BACKWARD": "JUMP",
    "JUMP_BACKWARD_NO_INTERRUPT": "JUMP",
    "LOAD_FAST_CHECK": "LOAD_FAST",
    "LOAD_FROM_DICT_OR_DEREF": "LOAD_CLASSDEREF",
    "FORMAT_SIMPLE": "FORMAT_VALUE",
    "FORMAT_WITH_SPEC": "FORMAT_VALUE",
}
PAIRS = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
INTRINSICS_1 = {1: "PRINT_EXPR", 2: "IMPORT_STAR", 4: "ASYNC_GEN_WRAP", 5: "UNARY_POSITIVE", 6: "LIST_TO_TUPLE"}
MODULES = """
abc argparse ast asyncio.base_events asyncio.streams asyncio.taskgroups asyncio.tasks base64 bisect calendar cmd code
codecs collections concurrent.futures.thread configparser contextlib copy csv ctypes dataclasses datetime decimal
difflib dis doctest email.message email.parser enum fractions ftplib functools gettext glob gzip heapq hmac html.parser
http.client http.server imaplib importlib._bootstrap importlib._bootstrap_external inspect ipaddress json.decoder
json.encoder keyword locale logging logging.config mailbox mimetypes multiprocessing.pool numbers operator optparse os
pathlib pdb pickle pickletools pkgutil platform plistlib pprint profile pydoc queue random re._compiler re._parser
reprlib sched selectors shelve shlex shutil signal smtplib socket socketserver sqlite3.dbapi2 ssl statistics string
subprocess symtable tarfile tempfile test.support textwrap threading timeit token tokenize traceback types typing
unittest.case unittest.mock urllib.parse urllib.request uuid venv warnings wave weakref xml.dom.minidom
xml.etree.ElementTree xmlrpc.client zipfile zoneinfo
test.test_generators test.test_coroutines test.test_patma test.test_except_star test.test_listcomps test.test_grammar
test.test_dis test.test_compile test.test_with test.test_fstring test.test_super test.test_type_params
"""


def code_objects(root):
    todo = [root]
    while todo:
        code = todo.pop()
        yield code
        todo.extend(c for c in code.co_consts if isinstance(c, types.CodeType))


def corpus():
    for name in MODULES.split():
        try:
            spec = importlib.util.find_spec(name)
            source = spec.loader.get_code(name)
        except (ImportError, AttributeError, SyntaxError):
            continue
        if source is not None:
            yield from code_objects(source)


def neutral(code):
    """The expected decoding, computed from `dis`: (op, arg, arg2, target offset, offset, unit, line)."""
    ops = list(dis.get_instructions(code, show_caches=False))
    lines = {}
    for start, end, line in code.co_lines():
        for at in range(start, end, 2):
            lines[at] = line or 0
    out, start, names = [], None, -1
    for i in ops:
        start = i.offset if start is None else start
        if i.opname == "KW_NAMES":
            names = i.arg
        if i.opname in SKIPPED:
            continue
        op, arg, arg2, target = RENAMED.get(i.opname, i.opname), i.arg or 0, 0, None
        if i.opcode in dis.hasjrel:
            target = i.argval
            for direction in ("FORWARD_", "BACKWARD_"):
                op = op.replace(direction, "") if op.startswith("POP_JUMP") else op
        if op == "CALL":
            arg2 = names
        elif op == "LOAD_GLOBAL":
            arg, arg2 = arg >> 1, arg & 1
        elif op == "LOAD_ATTR" and V >= (3, 12):
            op, arg = ("LOAD_METHOD" if arg & 1 else op), arg >> 1
        elif op == "LOAD_SUPER_ATTR":
            arg, arg2 = arg >> 2, arg & 3
        elif op == "COMPARE_OP":
            arg2 = arg >> 4 & 1 if V >= (3, 13) else 0
            arg = dis.cmp_op.index(i.argval.removeprefix("bool(").removesuffix(")"))
        elif op == "LOAD_CLASSDEREF":
            arg2 = int(V >= (3, 12))
        elif op == "SEND":
            arg2 = int(V >= (3, 12))
        elif op == "CALL_INTRINSIC_1" and arg in INTRINSICS_1:
            op, arg, arg2 = INTRINSICS_1[arg], 0, int(arg in (1, 2))
        elif op == "CALL_INTRINSIC_2" and arg == 1:
            op, arg = "PREP_RERAISE_STAR", 0
        elif i.opname.startswith("FORMAT_"):
            arg = {"FORMAT_VALUE": arg, "FORMAT_SIMPLE": 0, "FORMAT_WITH_SPEC": 4}[i.opname]
        elif op == "FOR_ITER" and V >= (3, 12):
            target += 2 if V == (3, 12) else 4
        line = lines[i.offset]
        if i.opname in PAIRS:
            for half, slot in zip(PAIRS[i.opname], (arg >> 4, arg & 15)):
                out.append((half, slot, 0, None, start // 2, i.offset // 2, line))
        else:
            out.append((op, arg, arg2, target, start // 2, i.offset // 2, line))
        start, names = None, -1
    return out


class DecodeTest(unittest.TestCase):
    maxDiff = 2000

    def check(self, code):
        want = neutral(code)
        got, exceptions, kinds = ext.decode(code)
        first = {}
        for index, row in enumerate(got):
            first.setdefault(row[4], index)
        first[len(code.co_code) // 2] = len(got)
        want = [w[:3] + (-1 if w[3] is None else first[w[3] // 2],) + w[4:] for w in want]
        self.assertEqual(len(got), len(want), code)
        for g, w in zip(got, want):
            self.assertEqual(g, w, code)
            if g[0] == "FOR_ITER" and V >= (3, 12):
                skipped = [got[k][0] for k in range(g[3] - (1 if V == (3, 12) else 2), g[3])]
                self.assertEqual(skipped, ["END_FOR", "POP_TOP"][: len(skipped)])
        entries = [
            (first[e.start // 2], first[e.end // 2], first[e.target // 2], e.depth, bool(e.lasti))
            for e in dis._parse_exception_table(code)
        ]
        self.assertEqual(exceptions, entries, code)
        names = {"local": 1, "cell": 2, "free": 4}
        count = {k: sum(bool(kind & bit) for kind in kinds) for k, bit in names.items()}
        self.assertEqual(count["cell"], len(code.co_cellvars))
        self.assertEqual(count["free"], len(code.co_freevars))
        self.assertGreaterEqual(count["local"], code.co_nlocals)
        return len(got)

    def test_standard_library(self):
        # A third of them, another one for each Python version, unless PYCOMPAT_FULL is set.
        step = 1 if "PYCOMPAT_FULL" in os.environ else 3
        codes = instructions = 0
        for code in itertools.islice(corpus(), V[1] % step, None, step):
            instructions += self.check(code)
            codes += 1
        print(f"  {codes} code objects, {instructions} instructions agree with dis")
        self.assertGreater(codes, 5_000 // step)

    def test_every_opcode_has_a_row(self):
        if V > (3, 13):
            self.skipTest("newer than the rows")
        for name, number in opcode.opmap.items():
            # The compiler emits no pseudo opcodes; PyCode_GetCode returns no instrumented ones.
            if number > 255 or name.startswith("INSTRUMENTED_") or name in ("RESERVED", "ENTER_EXECUTOR"):
                continue
            self.assertTrue(ext.has_row(number), name)
        for number in set(range(256)) - set(opcode.opmap.values()):
            self.assertFalse(ext.has_row(number), number)

    def test_unknown_opcode(self):
        def f():
            return None

        code = f.__code__.replace(co_code=bytes([255, 7]) + f.__code__.co_code[2:])
        self.assertEqual(ext.decode(code)[0][0][:2], ("UNKNOWN", code.co_code[0]))

    def test_many_names_and_locals(self):
        source = "def f(h):\n" + "".join(f"  v{i} = {i}\n" for i in range(300))
        source += "  h(v299, b=v298)\n  for i in h:\n" + "".join(f"    v{i}.a{i}(v{i}, k=1)\n" for i in range(300))
        scope = {}
        exec(source, scope)
        self.check(scope["f"].__code__)

    def test_warm_code_decodes_as_cold(self):
        source = "def f(xs):\n  t = 0\n  for x in xs:\n    t = t + x\n    t = t.real\n  return max(t, 1)\n"
        a, b = {}, {}
        exec(source, a)
        exec(source, b)
        for _ in range(100):
            a["f"](range(10))
        self.assertEqual(ext.decode(a["f"].__code__)[:2], ext.decode(b["f"].__code__)[:2])

    def test_instrumented_code_decodes_as_plain(self):
        source = "def f(xs):\n  for x in xs:\n    if x:\n      yield print\n  return super\n"
        a, b = {}, {}
        exec(source, a)
        exec(source, b)
        sys.settrace(lambda *_: None)
        try:
            list(a["f"]([0, 1]))
            if V >= (3, 12):
                sys.monitoring.use_tool_id(3, "t")
                sys.monitoring.set_events(3, (1 << 12) - 1 & ~sys.monitoring.events.INSTRUCTION)
                list(a["f"]([0, 1]))
                traced = ext.decode(a["f"].__code__)
                sys.monitoring.set_events(3, 0)
                sys.monitoring.free_tool_id(3)
            else:
                traced = ext.decode(a["f"].__code__)
        finally:
            sys.settrace(None)
        self.assertEqual(traced[:2], ext.decode(b["f"].__code__)[:2])

    def test_index_of(self):
        code = DecodeTest.test_index_of.__code__
        rows = ext.decode(code)[0]
        starts = {}
        for index, row in enumerate(rows):
            starts.setdefault(row[4], index)
        for offset in range(-1, len(code.co_code) // 2 + 2):
            self.assertEqual(ext.index_of(code, offset), starts.get(offset, -1))

    def test_cached_and_dropped_with_the_code(self):
        source = "def f(x):\n" + "  x = x + 1\n" * 2000

        def resident_after(rounds):
            for _ in range(rounds):
                scope = {}
                exec(source, scope)
                ext.decode_only(scope["f"].__code__)
                scope.clear()
            gc.collect()
            with open("/proc/self/statm") as statm:
                return int(statm.read().split()[1]) * 4096

        before = resident_after(50)
        one = 8000 * 28  # at least: four instructions a line
        self.assertLess(resident_after(400) - before, 400 * one / 4)

    def test_linear_and_kept(self):
        def measure(n):
            """Nanoseconds for an instruction of a code object that was not decoded yet, and for one that was."""
            scope = {}
            exec("def f(x):\n" + "  x = x + 1\n" * n, scope)
            code = scope["f"].__code__
            code.co_code
            start = time.process_time_ns()
            count = ext.decode_only(code)
            first = (time.process_time_ns() - start) / count
            start = time.process_time_ns()
            for _ in range(1_000):
                ext.decode_only(code)
            return first, (time.process_time_ns() - start) / 1_000 / count

        # The shortest of several: other processes can only make one longer.
        short, long, kept = (
            min(measure(2_000)[0] for _ in range(9)),
            min(measure(20_000)[0] for _ in range(9)),
            min(measure(20_000)[1] for _ in range(9)),
        )
        print(f"  decoding {short:.0f} and {long:.0f} ns an instruction, kept {kept:.2f} ns")
        self.assertLess(long, 5 * short)
        self.assertLess(kept, long / 10)

    def test_bad_input(self):
        self.assertRaises(TypeError, ext.decode, 3)
        code = (lambda: 0).__code__
        jump = opcode.opmap["JUMP_FORWARD"]
        broken = code.replace(co_code=bytes([jump, 200]) + code.co_code[2:])
        self.assertRaises(ValueError, ext.decode, broken)


if __name__ == "__main__":
    unittest.main()
