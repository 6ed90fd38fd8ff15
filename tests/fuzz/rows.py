"""Tables of the grammar: the prelude, and rows of source text by kind, with holes to fill.

{int} is an expression of that kind, {=int} a variable that is assigned, {@int} an existing variable. Simple rows
come first, because shrinking prefers them. Nothing may grow without bound in a loop: results are cut to a size.
"""

PRELUDE = """
import contextlib, copy, functools, itertools, math, operator, time
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field, replace
import torch

log = []
g_count = 0
g_table = {"a": 1, "b": 2}
g_tensor = torch.zeros(3)
SCALE = 2
Pair = namedtuple("Pair", "left right")


class Refused(ValueError):
    def __init__(self, k):
        super().__init__(f"refused {k}")
        self.k = k


class Base:
    kind = "base"

    def step(self, k=1):
        self.n += k
        return self.t * self.n

    def name(self):
        return self.kind


class Obj(Base):
    kind = "obj"
    total = 0

    def __init__(self, n, t):
        self.n, self.t, self.items = n, t, []

    def step(self, k=1):
        self.items.append(k)
        return super().step(k) + len(self.items)

    @property
    def twice(self):
        return self.n * 2

    @twice.setter
    def twice(self, value):
        log.append("set")
        self.n = value // 2

    @classmethod
    def make(cls, t):
        cls.total += 1
        return cls(cls.total, t)

    def __add__(self, other):
        return Obj(self.n + 1, self.t + other)

    def __getitem__(self, k):
        return self.t * k

    def __setitem__(self, k, value):
        self.items.append((k, value))

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        return iter([self.t, self.t * 2])

    def __contains__(self, k):
        return k == self.n

    def __eq__(self, other):
        return isinstance(other, Obj) and self.n == other.n

    def __hash__(self):
        return 7

    def __bool__(self):
        return self.n > 0

    def __call__(self, t):
        return t + self.n

    def __getattr__(self, name):
        if name.startswith("lazy"):
            return len(name)
        raise AttributeError(name)


class Other(Obj):
    kind = "other"

    def step(self, k=1):
        return self.t - k


class Slotted:
    __slots__ = ("n", "t")

    def __init__(self, n, t):
        self.n, self.t = n, t


class Layer(torch.nn.Module):
    def __init__(self, width=3, scale=0.5):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, width))
        self.register_buffer("seen", torch.zeros(()))
        self.scale = scale

    def forward(self, t):
        t = t * self.weight.sum() * self.scale
        return t + self.seen if self.training else t - 1

    def note(self, t):
        self.seen += t.detach().sum().to(self.seen.dtype)
        return self.seen


@dataclass
class Config:
    width: int = 2
    names: list = field(default_factory=list)

    def scaled(self, t):
        return t * self.width


class Scope:
    def __init__(self, name, suppress=False):
        self.name, self.suppress = name, suppress

    def __enter__(self):
        log.append(("enter", self.name))
        return 2

    def __exit__(self, kind, value, trace):
        log.append(("exit", self.name, kind.__name__ if kind else None))
        return self.suppress


@contextlib.contextmanager
def managed(name):
    log.append(name)
    try:
        yield 3
    finally:
        log.append("left")


def helper(t, k=1, *more, scale=2, **rest):
    log.append(k)
    return t * scale * SCALE + k + len(more) + len(rest)


def noisy(t, k=0):
    u = t + k
    print("noisy", k)
    return u * 2


def checked(t, k):
    if k > 2:
        raise Refused(k)
    return t + k


def numbers(t, k):
    for j in range(int(k) % 4):
        yield t + j


def counter(k):
    try:
        while k < 3:
            got = yield k
            k += got or 1
    finally:
        log.append("counter done")
    return "end"


def collected(k, into=[]):
    into.append(k)
    return len(into)


def deep(t, k):
    return t if k <= 0 else deep(t + 1, k - 1) * 2


def doubled(fn):
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs) * 2

    return wrapper


@doubled
def decorated(t, k=1):
    return t - k
"""

# The initial variables of a program, and a default expression for each kind.
ARGUMENTS = {
    "vector": ["x", "y"],
    "scalar": [],
    "int": ["n"],
    "float": ["w"],
    "bool": ["flag"],
    "str": [],
    "tensors": ["xs"],
    "ints": ["ns"],
    "dict": ["d"],
    "set": [],
    "tuple": [],
    "object": ["obj"],
    "objects": ["objs"],
    "layer": [],
}
CONSTANTS = {
    "vector": ["torch.ones_like(x)"],
    "scalar": ["x.sum()", "y[0]"],
    "int": ["0", "1", "2", "3", "-1"],
    "float": ["0.5", "2.0", "-1.5"],
    "bool": ["(n > 1)", "flag"],
    "str": ["'a'", "''", "'bc'"],
    "tensors": ["[]"],
    "ints": ["[]", "[3, 1, 2]"],
    "dict": ["{}", "{'a': 1}"],
    "set": ["set()", "{1, 2}"],
    "tuple": ["()", "(1, 2)"],
    "object": ["obj", "objs[0]", "objs[-1]"],
    "objects": ["objs", "[obj]"],
    "layer": ["layers[0]", "layers[-1]"],
}

EXPRESSIONS = {
    "vector": [
        "{vector} + {vector}",
        "{vector} * {int}",
        "{vector} - {scalar}",
        "torch.sin({vector})",
        "{vector}.relu()",
        "{vector}.clone()",
        "(-{vector})",
        "{vector} * {float}",
        "{int} - {vector}",
        "{vector}.flip(0)",
        "torch.where({vector} > 0, {vector}, {vector})",
        "({vector} if {bool} else {vector})",
        "helper({vector}, {int})",
        "helper({vector}, scale={int})",
        "helper({vector}, {int}, 1, 2, extra={int})",
        "helper(*[{vector}, {int}], **{dict})",
        "noisy({vector}, {int})",
        "checked({vector}, {int})",
        "decorated({vector}, {int})",
        "deep({vector}, {int} % 4)",
        "{object}.t",
        "{object}.step({int})",
        "{object}.step(k={int})",
        "{object}({vector})",
        "{object}[{int}]",
        "({object} + {vector}).t",
        "Obj.make({vector}).t",
        "Config({int}).scaled({vector})",
        "Pair({vector}, 1).left",
        "sum({object})",
        "g_tensor",
        "{vector}[:]",
        "{vector}.view(-1)",
        "torch.stack([{scalar}] * len(x))",
        "torch.cat([{vector}[:1], {vector}[1:]])",
        "(lambda t, k={int}: t + k)({vector})",
        "sum([{vector} * k for k in range(1, 3)])",
        "sum((t for t in {tensors}), {vector})",
        "list(numbers({vector}, 2))[-1]",
        "functools.reduce(lambda a, b: a + b, {tensors}, {vector})",
        "functools.partial(helper, {vector})({int})",
        "{tensors}[0]",
        "{tensors}[{int}]",
        "dict(k={vector})['k']",
        "{vector}.detach()",
        "{vector}.to(torch.float64).to(x.dtype)",
        "torch.add({vector}, {vector}, alpha={int})",
        "max([{vector}, {vector}], key=lambda t: t.shape[0])",
        "getattr({vector}, 'abs')()",
        "{vector}.t() if {vector}.dim() == 2 else {vector}",
        "operator.add({vector}, {vector})",
        "{vector}.unsqueeze(0).squeeze(0)",
        "copy.copy({object}).t",
        "[*{tensors}, {vector}][0]",
        "{layer}({vector})",
        "{layer}.weight.sum() * {vector}",
        "sum(layer({vector}) for layer in layers)",
        "torch.nn.Sequential(*layers)({vector})",
        "Layer(2, {float})({vector})",
        "copy.deepcopy({layer})({vector})",
        "functools.reduce(lambda t, layer: layer(t), layers, {vector})",
        "sum([o.t * o.n for o in {objects}])",
        "[o.step({int}) for o in {objects}][-1]",
        "sum(o(x) for o in {objects})",
        "Slotted({int}, {vector}).t",
        "[Slotted(k, {vector} * k) for k in range(2)][-1].t",
        "Obj({int}, {vector}).step() + Obj({int}, {vector}).step()",
    ],
    "scalar": [
        "{vector}.sum()",
        "{vector}[0]",
        "{vector}.max()",
        "{scalar} + {int}",
        "{scalar} * {scalar}",
        "torch.tensor(float({int}))",
        "{vector}.mean()",
        "torch.dot({vector}, {vector})",
        "{vector}[{int} % 2]",
        "g_tensor.sum()",
        "{vector}.norm() * {float}",
        "({scalar} if {bool} else {scalar})",
        "{layer}.note({vector})",
        "{layer}.weight[0].detach()",
    ],
    "int": [
        "{int} + {int}",
        "{int} * 2",
        "{int} - {int}",
        "{int} % 5",
        "({int} if {bool} else {int})",
        "len({ints})",
        "len({tensors})",
        "abs({int})",
        "max({int}, {int})",
        "min([{int}, {int}, 4])",
        "sum({ints})",
        "{vector}.shape[0]",
        "{vector}.dim()",
        "int({bool})",
        "int({float})",
        "round({float})",
        "{object}.n",
        "{object}.twice",
        "len({object})",
        "{object}.lazy_value",
        "Obj.total",
        "g_count",
        "collected({int})",
        "{dict}['a']",
        "{dict}.get('zz', {int})",
        "g_table['b']",
        "len({str})",
        "{int} // {int}",
        "{ints}[0]",
        "{ints}[{int} % 3]",
        "{tuple}[0]",
        "len({tuple} + (1,))",
        "len({set})",
        "(lambda k: k * 2)({int})",
        "({int} or {int})",
        "({int} and {int})",
        "int({scalar} > 0)",
        "sum(k for k in {ints} if k > 0)",
        "len({dict})",
        "math.gcd({int}, 6)",
        "divmod({int}, 3)[1]",
        "next(iter({ints}), {int})",
        "({int} & 3) | 4",
        "hash({str}) % 1 + {int}",
        "Config(names={ints}).width",
        "sum(map(lambda k: k + 1, {ints}))",
        "max({ints}, default={int})",
        "{ints}.index({int})",
        "{ints}.count({int})",
        "next(counter({int} % 3))",
        "sum(counter({int} % 3))",
        "int('12') + {int}",
        "Counter({ints})[{int}]",
        "functools.reduce(operator.mul, {ints}[:3], 1)",
        "-{int} // 2",
        "{int} << 1",
        "len({objects})",
        "sum(o.n for o in {objects})",
        "{objects}.count({object})",
        "len({{id(o) for o in {objects}}})",
        "len({{o: o.n for o in {objects}}})",
        "len({{*layers}})",
        "Slotted({int}, x).n",
        "sum(1 for _ in {layer}.parameters())",
    ],
    "float": [
        "{float} + {int}",
        "{float} * 2",
        "{int} / 4",
        "abs({float})",
        "math.sqrt(abs({float}))",
        "float({int})",
        "round({float}, 1)",
        "{float} % 1",
        "max({float}, {int})",
        "({float} if {bool} else {float})",
        "{scalar}.item() * 0 + {int}",
        "{int} / {int}",
        "float({str} or '1')",
        "{layer}.scale",
        "{float} * {float}",
        "1 - {float}",
        "min({float}, 0.75)",
    ],
    "bool": [
        "{int} > {int}",
        "{int} == {int}",
        "not {bool}",
        "({bool} and {bool})",
        "({bool} or {bool})",
        "{int} in {ints}",
        "'a' in {dict}",
        "{str} == {str}",
        "isinstance({int}, int)",
        "0 <= {int} < 3",
        "bool({ints})",
        "any(k > 1 for k in {ints})",
        "all(k > 0 for k in {ints})",
        "hasattr({object}, 'extra')",
        "{vector} is {vector}",
        "{ints} == {ints}",
        "{dict} == {dict}",
        "{tuple} < {tuple}",
        "{int} in {set}",
        "{set} <= {set}",
        "{object} == {object}",
        "{int} in {object}",
        "bool({object})",
        "not {ints}",
        "isinstance({object}, Base)",
        "bool({scalar} > 0)",
        "({vector} > 0).all().item()",
        "{str}.startswith('a')",
        "obj.t is not None",
        "torch.is_grad_enabled()",
        "{vector}.requires_grad",
        "{float} > {int}",
        "callable(helper)",
        "{vector}.dtype == torch.float32",
        "{vector}.is_contiguous()",
        "type({int}) is int",
        "{object} is {object}",
        "{objects}[0] is {objects}[-1]",
        "{objects}[0].t is {objects}[-1].t",
        "{object} in {objects}",
        "{layer} is {layer}",
        "layers[0].weight is layers[-1].weight",
        "{layer}.training",
        "{float} > 0.3",
        "bool({float})",
        "type({object}) is Obj",
    ],
    "str": [
        'f"{{{int}}}"',
        'f"{{{int}:>4}}-{{{str}!r}}"[:9]',
        "({str} + {str})[:9]",
        "({str} * 2)[:9]",
        "str({int})",
        "{str}.upper()",
        "','.join([{str}, {str}])[:9]",
        "('%s=%d' % ({str}, {int}))[:9]",
        "{str}.replace('a', 'b')",
        "str({ints})[:9]",
        "str({vector}.shape)",
        'f"{{{bool}}}"',
        "repr({str}[:4])",
        "'{{}}'.format({int})",
        "type({vector}).__name__",
        'f"{{{scalar}.item():.2f}}"',
        "str({float})[:9]",
        'f"{{{float}:.2f}}"',
        "{object}.name()",
        "str({tuple})[:9]",
        "str({dict})[:9]",
        "''.join(sorted({str}))",
        "({str} or 'q')[0]",
        "helper.__name__",
        "'-'.join(str(k) for k in {ints}[:3])",
        "str(type({int}))",
    ],
    "tensors": [
        "[{vector}]",
        "[{vector}, {vector}]",
        "[t * 2 for t in {tensors}]",
        "list(numbers({vector}, {int}))",
        "{tensors}[-4:] + [{vector}]",
        "list(map(torch.sin, {tensors}))",
        "[{vector} + k for k in {ints}]",
        "{tensors}[::-1]",
        "list({tensors})",
        "list(itertools.chain({tensors}, [{vector}]))",
        "[noisy(t) for t in {tensors}]",
        "[a + b for a, b in zip({tensors}, {tensors})]",
        "list({object})",
        "[{vector}] * 2",
        "sorted({tensors}, key=len)",
    ],
    "ints": [
        "[{int}, {int}]",
        "list(range({int} % 5))",
        "sorted({ints})",
        "[k + 1 for k in {ints}]",
        "[k for k in {ints} if k > {int}]",
        "{ints}[1:]",
        "{ints} + [{int}]",
        "list(reversed({ints}))",
        "[j * k for j in range(2) for k in {ints}[:3]]",
        "[i for i, _ in enumerate({ints})]",
        "[k for k in {dict}.values() if isinstance(k, int)]",
        "sorted({ints}, key=lambda k: -k)",
        "list(itertools.accumulate({ints}))",
        "[*{ints}, {int}]",
        "list(dict.fromkeys({ints}))",
        "sorted(set({ints}))",
        "list({tuple})",
        "sorted({set})",
        "{ints}[::-1]",
        "{ints}.copy()",
        "[fn() for fn in [lambda: k for k in range(3)]]",
        "list(itertools.islice(itertools.count({int}), 2))",
        "list(deque({ints}, maxlen=3))",
        "list(counter({int} % 3))",
        "list(filter(None, {ints}))",
        "[a - b for a, b in itertools.pairwise({ints})]",
        "collected.__defaults__[0][:3]",
    ],
    "dict": [
        "dict({dict})",
        "{{**{dict}, 'c': {int}}}",
        "{{k: {int} for k in 'ab'}}",
        "{{str(k): k for k in {ints}[:3]}}",
        "dict(a={int}, b={int})",
        "dict(zip('abc', {ints}))",
        "{dict} | {dict}",
        "dict(sorted({dict}.items(), key=lambda kv: kv[0]))",
        "dict(Counter({str}))",
        "copy.copy({dict})",
        "{{v: k for k, v in dict(a=1).items()}}",
    ],
    "set": [
        "set({ints})",
        "{{{int}, {int}}}",
        "{{k % 3 for k in {ints}}}",
        "{set} | {set}",
        "{set} & {set}",
        "{set} - {set}",
        "frozenset({ints})",
    ],
    "tuple": [
        "({int}, {int})",
        "tuple({ints})",
        "{tuple}[:3] + ({int},)",
        "tuple(k * 2 for k in {ints}[:3])",
        "{tuple}[::-1]",
        "divmod({int}, 3)",
        "Pair({int}, {int})",
        "tuple({vector}.shape)",
    ],
    "object": [
        "{object} + {vector}",
        "Obj({int}, {vector})",
        "Obj.make({vector})",
        "copy.copy({object})",
        "max([{object}], key=lambda o: o.n)",
        "min({objects}, key=lambda o: o.n)",
        "{objects}[{int} % 2]",
        "Other({int}, {vector})",
    ],
    "objects": [
        "[{object}, {object}]",
        "[Obj(k, {vector}) for k in range(2)]",
        "{objects}[::-1]",
        "sorted({objects}, key=lambda o: o.n)",
        "[o for o in {objects} if o.n > {int}] + [{object}]",
        "[copy.copy(o) for o in {objects}]",
    ],
    "layer": [
        "Layer(2)",
        "layers[{int} % 2]",
        "copy.deepcopy({layer})",
        "max(layers, key=lambda layer: layer.scale)",
    ],
}

# Statements of one line.
SIMPLE = [
    "{=vector} = {vector}",
    "{=int} = {int}",
    "{=ints} = {ints}",
    "{=tensors} = {tensors}",
    "{=scalar} = {scalar}",
    "{=str} = {str}",
    "{=bool} = {bool}",
    "{=float} = {float}",
    "{=dict} = {dict}",
    "{=set} = {set}",
    "{=tuple} = {tuple}",
    "{=object} = {object}",
    "{=objects} = {objects}",
    "{=layer} = {layer}",
    "{=vector} += {vector}",
    "{=int} += {int}",
    "{=vector} *= {int}",
    "{=float} += {int}",
    "{=ints} += {ints}[:2]",
    "{=tensors} += {tensors}[:2]",
    "{=str} += {str}[:2]",
    "{=set} |= {set}",
    "{=dict} |= {dict}",
    "{=vector} = {=vector} = {vector}",
    "{=int}, {=int} = {int}, {int}",
    "{=int}, {=vector} = {int}, {vector}",
    "{=int}, *{=ints} = [{int}, {int}, {int}]",
    "({=int}, {=int}), {=str} = ({int}, {int}), {str}",
    "log.append({int})",
    "log.append({str})",
    "log.append({tuple})",
    "log.append((k0 := {int}) + k0)",
    "log.append({vector})",
    "print({int})",
    "print({str}, {int})",
    "print({ints}, {float})",
    "{@ints}.append({int})",
    "{@tensors}.append({vector})",
    "{@ints}.insert(0, {int})",
    "{@ints}.sort()",
    "{@ints}.sort(key=lambda k: -k)",
    "{@ints}.reverse()",
    "{@ints}.extend({ints}[:2])",
    "{@ints}.clear()",
    "{@ints}.pop()",
    "{@tensors}.pop(0)",
    "{@ints}[0] = {int}",
    "{@ints}[0] += {int}",
    "{@tensors}[0] = {vector}",
    "{@tensors}[0] += {vector}",
    "{@ints}[:2] = {ints}[:3]",
    "del {@ints}[-1]",
    "{@ints}.remove({int})",
    "{@dict}['a'] = {int}",
    "{@dict}['a'] += {int}",
    "{@dict}['new'] = {vector}",
    "{@dict}['list'] = {ints}",
    "{@dict}.update(b={int})",
    "{@dict}.pop('b', None)",
    "{@dict}.setdefault('c', {int})",
    "{@dict}.setdefault('l', []).append({int})",
    "del {@dict}['a']",
    "g_table['b'] = {int}",
    "g_table[{str}] = {int}",
    "{@object}.n = {int}",
    "{@object}.n += {int}",
    "{@object}.t = {vector}",
    "{@object}.extra = {str}",
    "{@object}.items.append({int})",
    "{@object}.twice = {int}",
    "{@object}[{int}] = {vector}",
    "del {@object}.items",
    "{@objects}.append({object})",
    "{@objects}[0] = {object}",
    "{@objects}[-1].t = {vector}",
    "{@objects}[-1].n += {int}",
    "{@objects}[0].t.add_({scalar})",
    "{@object}.step = lambda k=1: x * k",
    "{@object}.kind = {str}",
    "{@object}.t = {@object}.t",
    "{@layer}.scale = {float}",
    "{@layer}.scale *= 0.5",
    "{@layer}.seen.add_(1)",
    "{@layer}.eval()",
    "{@layer}.weight = layers[0].weight",
    "{@layer}.forward = lambda t: t + 1",
    "Obj.total += {int}",
    "setattr({@object}, 'extra', {int})",
    "g_count = {int}",
    "g_count += {int}",
    "g_tensor = {vector}",
    "g_tensor.add_({scalar})",
    "{@vector}.add_({vector})",
    "{@vector}.mul_({int})",
    "{@vector}[0] = {int}",
    "{@vector}[1:] = {scalar}",
    "{@vector}[:] = {vector}",
    "{@vector}[{int} % 2] += {scalar}",
    "{@vector}.zero_()",
    "{=vector} = {@vector}.view(-1)",
    "{=vector} = {@vector}.detach()",
    "assert {bool}, {str}",
    "{=int} = int({scalar})",
    "{=int} = {vector}.tolist().count(0.0)",
    "time.sleep(0)",
    "noisy({vector}, {int})",
    "helper({vector}, *{ints})",
    "raise ValueError({str})",
    "raise KeyError({int}) from None",
    "raise Refused({int})",
    "raise RuntimeError({str}) from ValueError({int})",
    "checked({vector}, {int})",
    "log.append(list({dict}))",
    "log.append([t.shape for t in {tensors}])",
    "log.extend({ints})",
    "helper(t={vector}, k=collected({int}))",
    "{vector}.undefined_attribute",
    "({int}).undefined_attribute",
    "pass",
]
TENSOR_ROWS = [row for row in SIMPLE if "vector" in row]

HEADS = {
    "if": "if {bool}:",
    "if_int": "if {int}:",
    "if_tensor": "if {scalar} > 0:",
    "for_range": "for {=int} in range({int} % 4):",
    "for_list": "for {=int} in {ints}[:3]:",
    "for_tensors": "for {=vector} in {tensors}[:3]:",
    "for_enumerate": "for {=int}, {=vector} in enumerate({tensors}[:3]):",
    "for_zip": "for {=int}, {=vector} in zip([1, 2], {tensors}):",
    "for_rows": "for {=scalar} in {vector}:",
    "for_dict": "for {=str}, k_ in list({dict}.items())[:3]:",
    "for_keys": "for {=str} in sorted(map(str, {dict})):",
    "for_generator": "for {=vector} in numbers({vector}, {int}):",
    "for_object": "for {=vector} in {object}:",
    "for_objects": "for {=object} in {objects}[:3]:",
    "for_layers": "for {=layer} in layers:",
    "if_float": "if {float} > 0.3:",
    "for_counter": "for {=int} in counter({int} % 3):",
    "for_product": "for {=int}, {=int} in itertools.product(range(2), repeat=2):",
    "with_scope": "with Scope({str}):",
    "with_suppress": "with Scope({str}, True):",
    "with_value": "with managed({str}) as {=int}:",
    "with_two": "with Scope('p') as {=int}, managed('q'):",
    "with_no_grad": "with torch.no_grad():",
    "with_contextlib": "with contextlib.suppress(ZeroDivisionError, ValueError):",
}
LOOPS = {name for name in HEADS if name.startswith("for")}
HANDLERS = [
    "ValueError",
    "(IndexError, KeyError)",
    "ZeroDivisionError",
    "Exception",
    "(TypeError, AssertionError)",
    "Refused",
    "AttributeError",
]

# Rows that break a capture or leave the program; a calm program has none of them.
LOUD = {
    "noisy({vector}, {int})",
    "noisy(t)",
    "[noisy(t) for t in {tensors}]",
    "checked({vector}, {int})",
    "{int} // {int}",
    "{int} / {int}",
    "{ints}[0]",
    "{ints}[{int} % 3]",
    "{ints}.index({int})",
    "{tuple}[0]",
    "{tensors}[0]",
    "{tensors}[{int}]",
    "{dict}['a']",
    "int({scalar} > 0)",
    "bool({scalar} > 0)",
    "({vector} > 0).all().item()",
    "{scalar}.item() * 0 + {int}",
    "float({str} or '1')",
    'f"{{{scalar}.item():.2f}}"',
    "print({int})",
    "print({str}, {int})",
    "print({ints}, {float})",
    "{@ints}.pop()",
    "{@tensors}.pop(0)",
    "{@ints}[0] = {int}",
    "{@ints}[0] += {int}",
    "{@tensors}[0] = {vector}",
    "{@tensors}[0] += {vector}",
    "{@dict}['a'] += {int}",
    "{@ints}.remove({int})",
    "del {@ints}[-1]",
    "del {@dict}['a']",
    "del {@object}.items",
    "assert {bool}, {str}",
    "{=int} = int({scalar})",
    "{=int} = {vector}.tolist().count(0.0)",
    "time.sleep(0)",
    "raise ValueError({str})",
    "raise KeyError({int}) from None",
    "raise Refused({int})",
    "raise RuntimeError({str}) from ValueError({int})",
    "{vector}.undefined_attribute",
    "({int}).undefined_attribute",
    "next(counter({int} % 3))",
    "if_tensor",
}
