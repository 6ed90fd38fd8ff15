"""Every kind of expression on numbers that depend on data, and on strings made of them: the value, or the error."""

import math
import operator

import pytest
import torch

import stator
from tests.python.helpers import assert_same

# k: an int, m: a float, b: a bool, s: a string made of two of them, x: a tensor of three elements.
NUMBERS = """
sum([1], k); k < "a"; k + "a"; "a" + k; "a" * k; k * "a"; [1] * k; k * [1]; (1,) * k; [1, 2, 3][k]; [1, 2, 3][:k];
[1, 2, 3][k:]; "abc"[k]; "abc"[:k]; (1, 2)[k]; {0: 1}.get(k); {k: 1}; {k}; k in [1, 2]; k in {1: 2}; k in (1, k); k
== "a"; k == None; k is None; k is k; k is True; k == k; k != k; k < m; k <= m; k == m; k + m; k - m; k * m; k / m;
k // m; k % m; k ** 2; 2 ** k; m ** 2; m ** k; k & 1; k | 1; k ^ 1; k << 1; k >> 1; ~k; -k; +k; abs(k); abs(m);
round(m); round(m, 1); round(k); int(m); float(k); bool(k); complex(k); str(k); hash(k) and 1; divmod(k, 2); pow(k,
2); pow(k, 2, 5); max(k, 1); min(k, m); max(k, m); sum([k, k]); sum([k, m]); range(k); list(range(k));
len(range(k)); k(); k.real; k.imag; k.bit_length(); m.is_integer(); k.numerator; m.hex(); k[0]; len(k); iter(k);
list(k); [*k]; k + None; None + k; k + [1]; not k; k and 1; k or 1; k if k else 0; k + True; b + b; b & b; b | True;
b ^ b; b and k; b == 1; b is True; -b; ~b; not b; int(b); b * m; b + k; b / 2; b // 1; b % 2; b < k; sum([b, b]);
isinstance(k, int); isinstance(b, int); type(k) is int; type(b) is bool; k.__class__; k.__add__(1); (k).__neg__();
operator.add(k, 1); operator.index(k); operator.truediv(k, 2); math.sqrt(k); math.floor(m); math.ceil(m);
math.isnan(m); math.log(k); math.gcd(k, 2); math.pow(k, 2); math.inf > k; [k] + [m]; {"a": k}["a"]; (lambda q: q +
1)(k); [i * k for i in range(2)]; check(k > 0); k > 0 and k < 10; 0 < k < 10; (k > 0) + 1; [0, 1][k > 0]; {True:
1}[k > 0]; f"{k}{m}"; f"{k:d}"; f"{k:5.2f}"; f"{m:d}"; f"{k:c}"; f"{m:.1%}"; "%d" % k; "{}".format(k);
"{:d}".format(k); str(k) + "a"; str(k) == "3"; int(str(k)); k.to_bytes(2, "big"); float(m) + k; int(m) + 1; int(m)
// 2; math.trunc(m); m // 1; m % 1; m == m; m != m; m < m; m is m; float("nan") == m; k == 3.0; k == 2.5; k < 2.5; k
+ 0.5; k * 0.5; 7 // k; 7 % k; -7 // k; 7 / k; 0 // k; k // 1; k // -1; k - k; (k + 1) - k; k * 0; m * 0; m - m
"""
TEXT = """
len(s); s[0]; s[1:]; s + "a"; "a" + s; s * 2; 2 * s; s % (); s in "12.0"; "1" in s; s == "12"; s < "3"; hash(s) and
1; bool(s); not s; -s; +s; ~s; iter(s) and 1; list(s); tuple(s); set(s); s.upper(); s.join(["a","b"]); ",".join([s,
s]); ",".join(s); "%s" % s; "{}".format(s); f"{s:>9}"; f"{s!r}"; str(s); repr(s); int(s[0]); float(s); s is s;
isinstance(s, str); type(s); {s: 1}; {s}; s or 1; s and 1; [s] * 2; (s,) + (1,); [s].index(s); [s].count(s); s[k];
s(); s.x; s[0:1] + s; sorted([s, "a"]); max(s, "a"); min([s, "a"]); zip(s, s) and 1; list(enumerate(s));
list(map(str, s)); any(s); all(s); ord(s); s.split("."); s.startswith("1"); "x" if s else "y"; [*s]; {**{"a": s}};
dict(a=s); s.__len__(); s.format(); s != 1; 1 != s; s is None; s == None; s == 1; s > 1; (k, m, b, s); f"{k:s}";
f"{k!s:>5}"; "%s %s" % (k, m)
"""
TORCH = """
k.x; x + k; k + x; x - k; k - x; x * k; k * x; x / k; k / x; x ** k; k ** x; x % k; k % x; x // k; k // x; x < k; k
< x; x == k; k == x; x[k]; x[:k]; x[k:]; x[None, k]; x[[k]]; x[k] + m; x.add(k); x.add(m, alpha=k); x.sum(k - k);
x.view(k, 1); x.reshape(k); x.expand(k, 3); x.repeat(k); x.roll(k); x.unsqueeze(k - 3); x.clamp(min=k); x.fill_(k);
x.mul_(m); torch.full((2,), k); torch.full((2,), m); torch.tensor(k); torch.tensor([k, k]); torch.tensor(m);
torch.arange(k); torch.zeros(k); torch.ones(k, k); torch.eye(k); torch.linspace(0, 1, k); torch.where(x > k, x, m);
torch.cat([x, x[:k]]); torch.stack([x, x * k]); torch.pow(x, k); torch.add(x, k); torch.sub(k, x); torch.max(x,
torch.tensor(k)); torch.Size([k]); torch.full_like(x, m); torch.dropout(x, m - m, False); torch.nn.functional.pad(x,
(0, k)); torch.narrow(x, 0, 0, k); x.split(k); x.chunk(k); x.topk(k); x.select(0, k - 1); x.index_fill(0,
torch.tensor([0]), m); x.masked_fill(x > 1, m); format(k, "x")
"""

# Results whose size is the number; 2**62 would not fit in memory.
LARGE = ("*", "<<", "range", "zeros", "ones", "repeat", "eye", "linspace", "expand", "pad", "view", "split", "chunk")


def expressions(text):
    return [expression.strip() for expression in text.replace("\n", " ").split("; ")]


def check(condition):
    assert condition
    return 1


def program_of(expression):
    source = f"""
def program(x, n):
    k, m, b = n.item(), (x.sum() * 0.5).item(), (x > 1).any().item()
    s = f"{{k}}.{{m}}"
    try:
        return {expression}, x + 1
    except Exception as error:
        return type(error).__name__, str(error), x + 1
"""
    names = {"math": math, "operator": operator, "torch": torch, "check": check}
    exec(compile(source, "<expression>", "exec"), names)
    return names["program"]


@pytest.mark.parametrize("expression", [*expressions(NUMBERS), *expressions(TEXT), *expressions(TORCH)])
@pytest.mark.filterwarnings("ignore")
def test_expression(expression):
    stator.reset()
    program = program_of(expression)
    compiled = stator.compile(program)
    for n in (3, 0, -2, 1, 2**62, 3):
        if n == 2**62 and any(word in expression for word in LARGE):
            continue
        expected = program(torch.arange(3.0), torch.tensor(n))
        actual = compiled(torch.arange(3.0), torch.tensor(n))
        # Iterators and similar objects have no equality.
        if repr(actual) != repr(expected):
            assert_same(actual, expected)
    assert stator.counters()["captures"]["graphs"] >= 1
