#!/usr/bin/env python3
"""Writes docs/fake_tiers.md (which tier serves each ATen operator, and which break) and the table of breaks that
tests/python/fake/test_op_database.py holds the database to.

    gen_fake_tiers.py [--check]     --check only says whether the files are up to date

Refuses to write when a run on fakes differs from the real one: a wrong result is a defect, not a break.
"""

import argparse
import json
import multiprocessing
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "python" / "fake"
BREAKS = TESTS / "breaks.json"
DOCS = ROOT / "docs" / "fake_tiers.md"

TIERS = {
    "own": "own rule",
    "composite": "composite: the operator's own program runs on fakes",
    "cpp_meta": "C++ meta kernel on a meta twin",
    "python": "meta kernel that came with a registered operator",
    "refused": "break",
}


def run_part(part):
    """{entry: sorted reasons} and the differences, for every `count`-th entry of the database."""
    sys.path[:0] = [str(TESTS), str(ROOT)]
    import op_samples
    import torch

    index, count = part
    torch.set_num_threads(1)
    breaks, wrong = {}, []
    for number, (name, op) in enumerate(sorted(op_samples.entries().items())):
        if number % count != index:
            continue
        for dtype in op_samples.DTYPES:
            if not op.supports_dtype(dtype, "cpu"):
                continue
            _, reasons, differences = op_samples.run_entry(op, dtype, most=op_samples.samples_for(dtype))
            breaks.setdefault(name, set()).update(reasons)
            wrong.extend(f"{name} {dtype}: {text}" for text in differences)
    return {name: sorted(reasons) for name, reasons in breaks.items() if reasons}, wrong


def measure(processes):
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        parts = pool.map(run_part, [(i, processes) for i in range(processes)])
    breaks, wrong = {}, []
    for part_breaks, part_wrong in parts:
        breaks.update(part_breaks)
        wrong.extend(part_wrong)
    return dict(sorted(breaks.items())), wrong


def operators():
    import torch

    from stator import _C

    rows = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if not name.startswith("aten::"):
            continue
        try:
            tier, reason = _C._fake.tier_of(name)
        except KeyError:
            continue  # declared without a schema
        rows.append((name[len("aten::") :], tier, reason))
    return rows


def page(rows, breaks, entries):
    counts = {tier: sum(row[1] == tier for row in rows) for tier in TIERS}
    lines = [
        "# Which tier serves which operator",
        "",
        "Written by `tools/gen_fake_tiers.py`; checked against PyTorch's operator database in four layouts, with and",
        "without grad, in float32, int64, bool, bfloat16 and complex64 (`tests/python/fake/test_op_database.py`).",
        "",
        f"Of {entries} database entries {entries - len(breaks)} run on fakes without a break; the others break for the",
        "reasons below in at least one sample. None is wrong.",
        "",
        "| tier | operators |",
        "|---|---|",
        *(f"| {text} | {counts[tier]} |" for tier, text in TIERS.items()),
        "",
        "No operator of torch's own is answered by a Python kernel: wherever C++ gave no exact answer, those did not",
        "either, or an own rule was written. The last but one tier is for operators that users register.",
        "",
        "Some composite operators look at values although the metadata of their results does not depend on them (a",
        "check, a path over raw memory). A capture records them whole; the values are looked at when the graph runs:",
        "`max_pool1d`, `ctc_loss` with lengths in tensors, `one_hot` with a number of classes, `quantile`,",
        "`nanquantile`, `cov`, `corrcoef`, `istft`. A result whose size comes out of a tensor's data (`nonzero`, masks",
        "as indices, `unique`, `bincount`, `repeat_interleave` by tensors) has a size of its own symbol in a capture,",
        "and breaks anywhere else; `tensor_split` by tensors and packed sequences break.",
        "",
        "## Database entries that break",
        "",
        "| entry | reasons |",
        "|---|---|",
        *(f"| {name} | {'<br>'.join(reasons)} |" for name, reasons in breaks.items()),
        "",
        "## Operators",
        "",
    ]
    for tier, text in TIERS.items():
        named = [row for row in rows if row[1] == tier]
        lines += [f"### {text[0].upper()}{text[1:]}", ""]
        if tier == "refused":
            reasons = sorted({row[2] for row in named})
            for reason in reasons:
                names = ", ".join(f"`{row[0]}`" for row in named if row[2] == reason)
                lines += [f"{reason}: {names}", ""]
        else:
            lines += [", ".join(f"`{row[0]}`" for row in named) or "none of ATen", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    breaks, wrong = measure(args.processes)
    if wrong:
        print("\n".join(wrong))
        return f"{len(wrong)} runs on fakes differ from the real ones"
    sys.path[:0] = [str(TESTS), str(ROOT)]
    import op_samples

    wanted = {
        BREAKS: json.dumps(breaks, indent=1) + "\n",
        DOCS: page(operators(), breaks, len(op_samples.entries())),
    }
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    if args.check:
        return f"not up to date: {', '.join(map(str, stale))}" if stale else 0
    for path in stale:
        path.write_text(wanted[path])
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
