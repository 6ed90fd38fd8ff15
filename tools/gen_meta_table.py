#!/usr/bin/env python3
"""Writes the table of the C++ meta tier from the headers of the torch that is compiled against.

torch declares a shape function `at::meta::NAME` for each structured operator in `ATen/ops/NAME_meta_dispatch.h`, and
the type of each operator overload in `ATen/ops/NAME_ops.h`. This tool joins the two: a declaration belongs to the
overload whose argument and result types it shares. Views, factories and sparse operators are left out: they have
shape functions of Stator's, or no fake at all.

    gen_meta_table.py TORCH_INCLUDE OUTPUT_DIR [--parts N]

writes meta_table_0.cpp ... meta_table_{N-1}.cpp.
"""

import argparse
import pathlib
import re
from dataclasses import dataclass

DECLARATION = re.compile(r"^TORCH_API (?P<result>.*?) (?P<name>\w+)\((?P<args>.*)\);$", re.M)
OVERLOAD = re.compile(
    r"using schema = (?P<type>.*?);.*?"
    r'name = "(?P<name>[\w:]+)";.*?'
    r'overload_name = "(?P<overload>\w*)";.*?'
    r'schema_str = "(?P<schema>.*?)";',
    re.S,
)
# Not pure shape functions of strided tensors: factories, storage surgery, sparse layouts, a reader of data.
LEFT_OUT = re.compile(
    r"sparse|^(_coalesced_|_convert_indices\w+|_efficientzerotensor|_assert_tensor_metadata|_resize_output_|resize_"
    r"|set_|_fill_mem_eff_dropout_mask_|_fused_sdp_choice|_mkldnn_transpose_?|embedding_renorm_|empty\w*"
    r"|_philox\w*)$"
)


@dataclass(frozen=True)
class Row:
    """One overload and the C++ function that computes its result's metadata."""

    name: str
    overload: str
    header: str
    function: str
    type: str


def without_default(argument: str) -> str:
    return argument.split("=", 1)[0].strip()


def split_arguments(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "<({") - (char in ">)}")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in [*parts, text[start:]] if part.strip()]


def argument_type(argument: str) -> str:
    """`const at::Tensor & self=x` gives `const at::Tensor &`."""
    return re.sub(r"\s*\b\w+$", "", without_default(argument)).strip()


def concrete(type_text: str) -> str:
    """The type with integers in place of symbolic ones, so that both spellings of a signature compare equal."""
    for symbolic, plain in (
        ("c10::SymIntArrayRef", "at::IntArrayRef"),
        ("at::OptionalSymIntArrayRef", "at::OptionalIntArrayRef"),
        ("c10::SymInt", "int64_t"),
    ):
        type_text = type_text.replace(symbolic, plain)
    return re.sub(r"\s+", "", type_text)


def is_view(schema: str) -> bool:
    """True when a result aliases an argument that is not written."""
    return re.search(r"\(\w+(\|\w+)*( -> \*)?\)", schema.split(" -> ")[-1]) is not None


def rows_of(header: pathlib.Path) -> list[Row]:
    base = header.name.removesuffix("_meta_dispatch.h")
    overloads = list(OVERLOAD.finditer((header.parent / f"{base}_ops.h").read_text()))
    found: dict[tuple[str, str], Row] = {}
    declarations = list(DECLARATION.finditer(header.read_text()))
    declared = {declaration["name"] for declaration in declarations}
    for declaration in declarations:
        function = declaration["name"]
        # In-place functions that stand alone are declared, but the library does not define them.
        if function.endswith("_") and not {function[:-1], f"{function[:-1]}_outf"} & declared:
            continue
        plain = function.replace("_symint", "")
        if plain.endswith("_out") or LEFT_OUT.search(plain.removesuffix("f")):
            continue
        types = [argument_type(argument) for argument in split_arguments(declaration["args"])]
        signature = f"{declaration['result']} ({', '.join(types)})"
        is_out = plain.endswith("_outf")
        for overload in overloads:
            op_name = overload["name"].removeprefix("aten::")
            if op_name != (plain.removesuffix("_outf") if is_out else plain):
                continue
            if is_view(overload["schema"]) or concrete(overload["type"]) != concrete(signature):
                continue
            key = (overload["name"], overload["overload"])
            if key not in found or "_symint" in function:
                found[key] = Row(*key, f"ATen/ops/{header.name}", function, signature)
    return list(found.values())


def part_text(rows: list[Row], part: int) -> str:
    headers = "".join(f"#include <{header}>\n" for header in sorted({row.header for row in rows}))
    lines = "".join(
        f'  table.add("{row.name}", "{row.overload}",\n'
        f"            static_cast<{row.type.replace(' (', ' (*)(', 1)}>(&at::meta::{row.function}));\n"
        for row in rows
    )
    return (
        "// Written by tools/gen_meta_table.py; do not edit.\n"
        f'#include "core/fake/meta_table_builder.h"\n\n{headers}\n'
        "namespace stator::fake {\n\n"
        f"void fill_meta_table_{part}(MetaTableBuilder& table) {{\n{lines}}}\n\n"
        "}  // namespace stator::fake\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("torch_include", type=pathlib.Path)
    parser.add_argument("output_dir", type=pathlib.Path)
    parser.add_argument("--parts", type=int, default=4)
    options = parser.parse_args()
    headers = sorted((options.torch_include / "ATen/ops").glob("*_meta_dispatch.h"))
    rows = [row for header in headers for row in rows_of(header)]
    if not rows:
        raise SystemExit(f"no shape functions found under {options.torch_include}")
    size = -(-len(rows) // options.parts)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    # Rows of one type stand together: the code for a type is then compiled in as few parts as can be.
    rows.sort(key=lambda row: (row.type, row.name, row.overload))
    for part in range(options.parts):
        text = part_text(rows[part * size : (part + 1) * size], part)
        (options.output_dir / f"meta_table_{part}.cpp").write_text(text)
    print(f"{len(rows)} shape functions, {len({concrete(row.type) for row in rows})} types")


if __name__ == "__main__":
    main()
