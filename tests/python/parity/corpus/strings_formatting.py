"""Strings: methods, f-strings, format, %, bytes, regular expressions on constants."""

import re
import string
import textwrap

from tests.python.parity.corpus.registry import f, program


@program((f(2), "ab", 3), (f(2), "c", 4))
def f_strings(x, s, n):
    return x * n, f"{s}-{n}", f"{s!r:>6}|{n:04d}|{n:+}|{n:x}", f"{n=}", f"{n / 3:.2f}", f"{{{s}}}"


@program((f(2), 3.14159, 6), (f(2), 2.5, 8))
def nested_format_spec(x, value, width):
    return x * width, f"{value:{width}.{2}f}", f"{value:>{width}}", f"{value:e}", f"{0.25:%}", f"{1234567:,}"


@program((f(2), "name", 3), (f(2), "k", 4))
def percent_formatting(x, s, n):
    return x * n, "%s=%d" % (s, n), "%5.1f|%-4s|%r" % (n / 2, s, s), "%(a)s" % {"a": n}, "%%"


@program((f(2), "name", 3), (f(2), "k", 4))
def format_method(x, s, n):
    return x * n, "{} {}".format(s, n), "{1}{0}".format(s, n), "{k:>5}".format(k=s), "{0[1]}".format([1, n])


@program((f(2), " Hello World "), (f(2), "other text"))
def basic_methods(x, s):
    return x * len(s), s.strip(), s.lower(), s.upper(), s.title(), s.swapcase(), s.replace("o", "0"), s.count("l")


@program((f(2), "a,b,,c"), (f(2), "x"))
def split_and_join(x, s):
    parts = s.split(",")
    return x * len(parts), "-".join(parts), s.partition(","), s.rsplit(",", 1), " a  b ".split(), "a\nb".splitlines()


@program((f(2), "layer.0.weight"), (f(2), "bias"))
def name_parsing(x, name):
    if name.startswith("layer") and name.endswith("weight"):
        _, index, _ = name.split(".")
        return x * int(index)
    return x + 1 if "." not in name else x


@program((f(2), "hello"), (f(2), "abc"))
def indexing(x, s):
    return x * len(s[1:]), s[0], s[-1], s[::-1], s[1:3], "l" in s, s * 2, s + "!"


@program((f(2), "12"), (f(2), "ab"))
def predicates(x, s):
    return x * s.isdigit(), s.isalpha(), s.isalnum(), s.isupper(), s.isspace(), s.isidentifier()


@program((f(2), "abcb"), (f(2), "zzz"))
def find_and_index(x, s):
    try:
        return x * s.index("b"), s.find("b"), s.rfind("b")
    except ValueError as error:
        return x, s.find("b"), str(error)


@program((f(2), "7"), (f(2), "42"))
def padding(x, s):
    return x * int(s), s.zfill(5), s.rjust(4, "."), s.ljust(4) + "|", s.center(7, "*")


@program((f(2), "prefix_name"), (f(2), "name_suffix"))
def removing_affixes(x, s):
    return x * len(s.removeprefix("prefix_")), s.removesuffix("_suffix"), s.lstrip("p"), s.rstrip("x")


@program((f(2), "a"), (f(2), "z"))
def ordinals(x, c):
    return x * ord(c), chr(ord(c) + 1), c < "m", max("abc"), sorted("bca"), "".join(reversed("abc"))


@program((f(2), "x1y22"), (f(2), "none"))
def regular_expressions(x, s):
    numbers = re.findall(r"\d+", s)
    match = re.match(r"([a-z])(\d)", s)
    return x * len(numbers), match.group(2) if match else None, re.sub(r"\d", "#", s)


@program((f(2), "key"), (f(2), "äö"))
def encoding(x, s):
    data = s.encode("utf-8")
    return x * len(data), data, data.decode("utf-8"), bytes([1, 2]) + b"x", data[0], b"e" in data


@program((f(2), "ab"), (f(2), "cd"))
def comparison_and_hash(x, s):
    return x * (s == "ab"), s != "ab", s < "b", s in ("ab", "x"), {s: 1} == {"ab": 1}, s is s


@program((f(2), [1, 2.5, "s", None]), (f(2), [True, (1,)]))
def repr_and_str(x, values):
    return x * len(values), str(values), repr(values), [str(v) for v in values], ascii("ä"), format(3.0, ".1f")


@program((f(2), "a b"), (f(2), "c"))
def translate_and_casefold(x, s):
    table = str.maketrans("ab", "xy", " ")
    return x * 2, s.translate(table), "ẞ".casefold(), s.expandtabs(), string.ascii_lowercase[:3]


@program((f(2), 3), (f(2), 4))
def built_in_a_loop(x, n):
    text = ""
    for k in range(n):
        text += f"{k},"
    return x * len(text), text.rstrip(",")


@program((f(2, 3), 1), (f(4, 3), 2))
def shapes_in_messages(x, n):
    return x + n, f"shape {tuple(x.shape)} dtype {x.dtype} device {x.device} dim {x.dim()}", str(x.shape), repr(x.dtype)


@program((f(2), "  two\n  lines"), (f(2), "one"))
def textwrap_dedent(x, s):
    return x * len(textwrap.dedent(s)), textwrap.dedent(s)


@program((f(2), "n=3;k=4"), (f(2), "a=1"))
def parse_settings(x, text):
    settings = dict(item.split("=") for item in text.split(";"))
    for value in settings.values():
        x = x * int(value)
    return x, settings
