"""Numbers: arithmetic, conversions, rounding, math, bit operations, complex, big and special values."""

import cmath
import decimal
import fractions
import math
import operator

import torch

from tests.python.parity.corpus.registry import f, program


@program((f(2), 7, 2), (f(2), -7, 3))
def integer_arithmetic(x, a, b):
    return x * (a // b), a % b, divmod(a, b), a**b, -a // b, a / b, +a, ~a, abs(a)


@program((f(2), 12, 5), (f(2), 255, 1))
def bit_operations(x, a, b):
    return x * (a & b), a | b, a ^ b, a << b, a >> 1, a.bit_length(), bin(a), hex(a), oct(b), a.bit_count()


@program((f(2), 2.5, 1.5), (f(2), -0.5, 0.25))
def float_arithmetic(x, a, b):
    return x * (a + b), a - b, a * b, a / b, a // b, a % b, abs(a), a**2, round(a), round(a, 1)


@program((f(2), 2.5), (f(2), 3.5), (f(2), -2.675))
def rounding(x, a):
    return x * round(a), round(a, 2), math.floor(a), math.ceil(a), math.trunc(a), int(a), round(12345, -2)


@program((f(2), "3", 2.9), (f(2), "-4", -2.9))
def conversions(x, s, a):
    return x * int(s), int(a), float(s), bool(a), complex(a), int("ff", 16), float("1e3"), bool(""), str(a)


@program((f(2), 0.5), (f(2), 0.25))
def math_functions(x, a):
    return x * math.sqrt(a), math.exp(a), math.log(a), math.sin(a), math.atan2(a, 1), math.pow(a, 2), math.hypot(a, 1)


@program((f(2), 10, 4), (f(2), 12, 18))
def math_integers(x, a, b):
    return x * math.gcd(a, b), math.lcm(a, b), math.factorial(b % 6), math.comb(a, 2), math.isqrt(a), math.prod([a, b])


@program((f(2), 4), (f(2), 9))
def math_constants_and_tests(x, n):
    tests = math.inf > n, math.isnan(math.nan), math.isclose(0.1 + 0.2, 0.3), math.isfinite(n)
    return x * math.pi, math.e, math.tau, tests, math.log2(n), math.log10(n)


@program((f(2), 64), (f(2), 16))
def attention_scale(x, d):
    scale = 1.0 / math.sqrt(d)
    return x * scale, d**-0.5


@program((f(2), 2**70), (f(2), -(2**65)))
def big_integers(x, n):
    return x + 1, n + 1, n // 3, n % 1000, str(n), n == 2**70, n > 0


@program((f(2), float("inf")), (f(2), float("nan")), (f(2), -0.0))
def special_floats(x, a):
    return x * 2, a == a, a > 1, math.isinf(a), repr(a), math.copysign(1, a)


@program((f(2), 1 + 2j), (f(2), 3 - 1j))
def complex_numbers(x, z):
    return x * z.real, z.conjugate(), abs(z), z * z, z.imag, cmath.phase(z), z == complex(1, 2)


@program((f(2), True), (f(2), False))
def bools_are_ints(x, flag):
    return x * flag, flag + 1, flag * 3, sum([flag, True]), int(flag), flag & True, flag ^ True, not flag, -flag


@program((f(2), 1), (f(2), 1.0), (f(2), True))
def equal_but_of_other_type(x, n):
    return x * n, n + 1, type(n).__name__, n == 1


@program((f(2), 0.1), (f(2), 0.2))
def float_methods(x, a):
    return x * a, a.is_integer(), a.as_integer_ratio(), a.hex(), float.fromhex("0x1p-1"), (2.0).is_integer()


@program((f(2), 6), (f(2), 7))
def int_methods(x, n):
    return x * n, n.to_bytes(2, "big"), int.from_bytes(b"\x01\x02", "little"), n.numerator, n.real, n.conjugate()


@program((f(2), 3, 4), (f(2), 4, 3))
def operator_module(x, a, b):
    return x * operator.add(a, b), operator.lt(a, b), operator.itemgetter(1)([a, b]), operator.mul(x, a)


@program((f(2, 3), 2), (f(4, 3), 3))
def operator_getters(x, k):
    shape = operator.attrgetter("shape")(x)
    rows = operator.methodcaller("size", 0)(x)
    return x * k, shape, rows, operator.contains([1, 2], k), operator.index(k)


@program((f(2), 0), (f(2), 3))
def zero_division(x, n):
    try:
        return x * (1 / n)
    except ZeroDivisionError as error:
        return x, str(error)


@program((f(2), 5, 0, 3), (f(2), -5, 0, 3))
def clamping_idiom(x, v, low, high):
    return x * max(low, min(v, high)), min(v, key=None, default=0) if False else min([v, low])


@program((f(2), 3, 4), (f(2), 6, 8))
def fractions_and_decimals(x, a, b):
    fraction = fractions.Fraction(a, b)
    return x * float(fraction), str(fraction), str(decimal.Decimal(a) / decimal.Decimal(b))


@program((f(2, 3), 2), (f(5, 3), 2))
def arithmetic_on_sizes(x, heads):
    rows, width = x.shape
    padded = -(-rows // heads) * heads
    return torch.nn.functional.pad(x, (0, 0, 0, padded - rows)), rows * width, math.ceil(rows / heads)


@program((f(2), 10), (f(2), 11))
def warmup_schedule(x, step):
    rate = 0.5 * (1 + math.cos(math.pi * step / 20)) if step > 10 else step / 10
    return x * rate


@program((f(2), 3), (f(2), 2.0))
def number_against_tensor(x, n):
    return n - x, n / (x.abs() + 1), n**x, n // (x.abs() + 1), x % n, n > x, n == x
