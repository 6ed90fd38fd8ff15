"""Graphs, guards, plans and bytecode as text, for logs and files. Nothing here needs another package."""

from __future__ import annotations

import dis
import io
import keyword
import re
import types
from typing import Any

from . import _C, places
from .times import table

# A guard made of several facts names several lines; the greedy match takes the last, which is the guard's own.
_NEEDED = re.compile(r"(.*\S)\s+\(needed at (.*)\)$", re.DOTALL)


def header(record: dict[str, Any]) -> str:
    """`[0/1] f (file.py:12)` of a capture's record."""
    return f"[{record['compile_id']}] {record['function']} ({places.short_path(record['file'])}:{record['line']})"


def count_calls(graph: _C.Graph) -> int:
    """How many operators the graph calls."""
    return len(graph.nodes())


# ---- graphs


def graph_table(graph: _C.Graph) -> str:
    """A row for each node: kind, name, target, arguments, keyword arguments."""
    names = graph.names()
    rows = [["input", names[value], names[value], "()", "{}"] for value in graph.inputs]
    for name, overload, args, kwargs, results, *_ in graph.nodes():
        target = f"{name}.{overload}" if overload else name
        shown = ", ".join(_operand(arg, names) for arg in args)
        keywords = ", ".join(f"{key}: {_operand(arg, names)}" for key, arg in kwargs.items())
        rows.append(["call", _results(results, names), target, f"({shown})", "{" + keywords + "}"])
    outputs = ", ".join(names[value] for value in graph.outputs)
    rows.append(["output", "output", "output", f"({outputs})", "{}"])
    return table(["kind", "name", "target", "args", "kwargs"], rows)


def graph_code(graph: _C.Graph, title: str = "graph") -> str:
    """The graph as Python statements, each with the sizes of its result and the program's line."""
    names = [identifier(name) for name in graph.names()]
    inputs = ", ".join(f"{names[value]}: {type_of(graph, value)!r}" for value in graph.inputs)
    lines = [f"# {title}", f"def {identifier(graph.name)}({inputs}):"]
    locations, seen = graph.locations(), 0
    for number, (name, overload, args, kwargs, results, _, location) in enumerate(graph.nodes()):
        if location and location != seen:
            file, _, line, *_ = locations[location]
            lines.append(f"    # {places.short_path(file)}:{line}  {places.source_of(file, line)}".rstrip())
        seen = location
        given = [_operand(arg, names) for arg in args]
        given += [f"{key}={_operand(arg, names)}" for key, arg in kwargs.items()]
        made = _results(results, names)
        types_made = ", ".join(type_of(graph, value, number) for value in flat_values(results))
        call = f"{name.replace('::', '.')}{'.' + overload if overload else ''}({', '.join(given)})"
        lines.append(f"    {made} = {call}" + (f"  # {types_made}" if types_made else ""))
    outputs = "".join(f"{names[value]}, " for value in graph.outputs)
    return "\n".join([*lines, f"    return ({outputs.rstrip()})"])


def identifier(name: str) -> str:
    """A name that Python accepts, for a name of the program such as `self.layers[0]`."""
    made = re.sub(r"\W+", "_", name).strip("_") or "value"
    return f"_{made}" if made[0].isdigit() or keyword.iskeyword(made) else made


def _operand(value: Any, names: list[str]) -> str:
    if isinstance(value, _C.Value):
        return names[value]
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_operand(item, names) for item in value)}]"
    if isinstance(value, _C.Graph):
        return f"<graph {value.name}>"
    return repr(value)


def values_in(operands: Any) -> list[int]:
    """The values of the graph among operands, also inside of lists."""
    found: list[int] = []
    for operand in operands:
        if isinstance(operand, _C.Value):
            found.append(operand)
        elif isinstance(operand, (list, tuple)):
            found += values_in(operand)
    return found


def flat_values(results: Any) -> list[int]:
    """The values that a node gives back."""
    flat: list[int] = []
    for result in results:
        flat += flat_values(result) if isinstance(result, (list, tuple)) else [result] if result is not None else []
    return flat


def _results(results: Any, names: list[str]) -> str:
    return ", ".join(names[value] for value in flat_values(results)) or "_"


def type_of(graph: _C.Graph, value: int, node: int | None = None) -> str:
    """`float32[2, 3]`: dtype and sizes of a value, as an input or as the result of a node."""
    known = graph.has_meta(value) if node is None else graph.has_meta(value, node)
    if not known:
        return "number"
    meta = graph.meta(value) if node is None else graph.meta(value, node)
    if meta is None:
        return "?"
    dtype, sizes, *_ = meta
    return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, sizes))}]"


def symbolic_inputs(graph: _C.Graph) -> dict[str, str]:
    """The inputs that have symbols among their sizes: name, sizes as text."""
    first = str(graph).partition(") {")[0]
    sizes = re.findall(r"%(\"[^\"]*\"|\w+): \w+\[([^\]]*)\]", first)
    return {name.strip('"'): f"[{text}]" for name, text in sizes if re.search(r"[A-Za-z]", text)}


# ---- guards


def guard_tree(guards: list[str], latency_us: float | None = None, costs_ns: list[float] | None = None) -> str:
    """Guards below the sources that they are about: `self`, below it `self.weight`. Each line ends with the line of the
    program that needed the guard. `costs_ns`: the time of each guard alone, and last that of reading the objects."""
    cost = "" if latency_us is None else f", one check took {latency_us:.1f} us"
    if costs_ns:
        cost += f"\nrepeated, it takes {sum(costs_ns):.0f} ns; {costs_ns[-1]:.0f} ns of that for reading the objects"
    root: dict[Any, Any] = {}
    for number, guard in enumerate(guards):
        needed = _NEEDED.match(guard)
        text = needed[1] if needed else guard
        source, fact = _split_guard(text)
        node = root
        for part in _path(source):
            node = node.setdefault(part, {})
        own = f"  [{costs_ns[number]:.0f} ns]" if costs_ns else ""
        node.setdefault(None, []).append(fact + own + (f"  ({places.short_path(needed[2])})" if needed else ""))
    return "\n".join([f"{len(guards)} guards{cost}", *_branches(root, "")])


def _split_guard(text: str) -> tuple[str, str]:
    """`self.k == 2`: the source, and the fact."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char in "[(<") - (char in "])>")
        if char == " " and depth <= 0:
            return text[:at], text[at + 1 :]
    return text, ""


def _path(source: str) -> list[str]:
    return re.findall(r"^[^.\[]+|\.[^.\[]+|\[[^\]]*\]", source) or [source]


def _branches(node: dict[Any, Any], indent: str) -> list[str]:
    lines = []
    for name, below in node.items():
        if name is None:
            continue
        lines.append(f"{indent}+- {name}")
        lines += [f"{indent}|  {fact}" for fact in below.get(None, ())]
        lines += _branches(below, indent + "|  ")
    return lines


# ---- plans


def plan_code(record: dict[str, Any]) -> str:
    """What a call does for which the guards hold, as Python: gathers the inputs, runs the graph, makes the results,
    repeats the side effects, returns or continues the frame."""
    slots: list[str] = record.get("slots") or []
    lines = [f"# plan of {header(record)}", "def call():"]
    if record["plan"] is None:
        return "\n".join([*lines, "    ...  # nothing was captured: the instruction runs as plain Python"])
    for line in record["plan"]:
        lines.append("    " + _statement(line, slots, record))
    return "\n".join(lines)


def _statement(line: str, slots: list[str], record: dict[str, Any]) -> str:
    def name(slot: str) -> str:
        return slots[int(slot)] if int(slot) < len(slots) else f"slot_{slot}"

    if found := re.fullmatch(r"graph inputs: slots ?([\d ]*); outputs: (\d+)", line):
        inputs = ", ".join(map(name, found[1].split()))
        ops = record["ops"]
        return f"outputs = graph({inputs})  # {ops} operator{'' if ops == 1 else 's'}"
    line = re.sub(r"%(\d+)", r"v\1", line)
    if found := re.fullmatch(r"(v\d+) = slot (\d+)", line):
        return f"{found[1]} = {name(found[2])}"
    if found := re.fullmatch(r"(v\d+) = output (\d+)", line):
        return f"{found[1]} = outputs[{found[2]}]"
    if found := re.fullmatch(r"(v\d+) = constant (.*)", line, re.DOTALL):
        return f"{found[1]} = {found[2]}"
    if found := re.fullmatch(r"(v\d+) = (list|tuple|set) \((.*)\)", line):
        marks = {"list": "[{}]", "tuple": "({},)" if found[3] else "({})", "set": "{{{}}}"}[found[2]]
        return f"{found[1]} = {marks.format(found[3])}"
    if line.startswith("return "):
        return line
    if found := re.fullmatch(r"resume the frame at offset (\d+)", line):
        return f"resume(offset={found[1]})  # {_instruction_line(record.get('code'), int(found[1]))}"
    if re.fullmatch(r"v\d+ = [\w.]+ ?\(.*\)", line):
        return line.replace(" (", "(", 1)
    return f"# {line}"


def _instruction_line(code: types.CodeType | None, offset: int) -> str:
    """The program's line of a code unit."""
    if code is None:
        return ""
    line = next((line for start, end, line in code.co_lines() if start <= 2 * offset < end and line), None)
    return f"{places.short_path(code.co_filename)}:{line}" if line else places.short_path(code.co_filename)


# ---- bytecode


def bytecode(code: types.CodeType, title: str) -> str:
    """The disassembly, after a line with title, function, file and line."""
    out = io.StringIO()
    dis.dis(code, file=out, depth=0)
    where = f"{title} {code.co_qualname} {code.co_filename} line {code.co_firstlineno}"
    return f"{where}\n{out.getvalue().rstrip()}"


def function_tag(code: types.CodeType) -> str:
    """`'name' (file.py:line)`"""
    return f"'{code.co_name}' ({places.short_path(code.co_filename)}:{code.co_firstlineno})"


# ---- lines of the program


def source_range(file: str, line: int, column: int, end_line: int, end_column: int) -> str:
    """The lines of a range of the source, each with a line of marks below: `~` under the range, `^` under the operator,
    the brackets or the parentheses of the call that it is; `^` under all of it if it is none of these. Columns are in
    bytes, as CPython counts them. Empty if the source is not there."""
    import ast
    import linecache

    texts = [linecache.getline(file, number).rstrip("\n") for number in range(line, end_line + 1)]
    if line <= 0 or not any(texts):
        return ""
    columns = [0] * len(texts)
    columns[0] = _characters(texts[0], column)
    ends = [len(text) for text in texts]
    ends[-1] = _characters(texts[-1], end_column)
    marks = [_marks(text, begin, end) for text, begin, end in zip(texts, columns, ends, strict=True)]
    segment = "\n".join(text[begin:end] for text, begin, end in zip(texts, columns, ends, strict=True))
    anchors = None
    try:
        # In brackets, so that it may span lines.
        tree = ast.parse(f"(\n{segment}\n)")
        anchors = _anchors(tree.body[0].value, segment) if tree.body else None  # type: ignore[attr-defined]
    except SyntaxError:
        pass
    for number, row in enumerate(marks):
        if anchors is None:
            marks[number] = row.replace("~", "^")
            continue
        for at_line, begin, end in anchors:
            if at_line == number:
                offset = columns[number]
                marks[number] = row[: offset + begin] + "^" * (end - begin) + row[offset + end :]
    return "".join(f"{text}\n{mark.rstrip()}\n" for text, mark in zip(texts, marks, strict=True))


def _characters(text: str, column: int) -> int:
    return len(text.encode()[:column].decode(errors="replace"))


def _marks(text: str, begin: int, end: int) -> str:
    begin = max(begin, len(text) - len(text.lstrip())) if begin == 0 else begin
    return " " * begin + "~" * (end - begin)


def _anchors(node: Any, segment: str) -> list[tuple[int, int, int]] | None:
    """Line, first and last column of the marks in the segment; None: the expression has none."""
    import ast

    lines = segment.split("\n")
    if isinstance(node, ast.BinOp):
        left, right = node.left, node.right
        at_line = (left.end_lineno or 0) - 2
        at = _characters(lines[at_line], left.end_col_offset or 0)
        last_line = right.lineno - 2
        while at_line <= last_line:
            text = lines[at_line].split("#")[0] if at_line < last_line else lines[at_line]
            stop = _characters(lines[at_line], right.col_offset) if at_line == last_line else len(text)
            if found := re.search(r"[^\s()\\]+", text[at:stop]):
                return [(at_line, at + found.start(), at + found.end())]
            at_line, at = at_line + 1, 0
        return None
    if isinstance(node, (ast.Subscript, ast.Call)):
        inner = node.value if isinstance(node, ast.Subscript) else node.func
        first, last = (inner.end_lineno or 0) - 2, len(lines) - 1
        opening = "[" if isinstance(node, ast.Subscript) else "("
        start = lines[first].find(opening, _characters(lines[first], inner.end_col_offset or 0))
        if start < 0:
            return None
        if first == last:
            return [(first, start, len(lines[last]))]
        middle = [
            (number, len(lines[number]) - len(lines[number].lstrip()), len(lines[number]))
            for number in range(first + 1, last + 1)
        ]
        return [(first, start, len(lines[first])), *middle]
    return None
