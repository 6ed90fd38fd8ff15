"""Dataclasses and enums."""

import dataclasses
import enum
from dataclasses import dataclass, field

import torch

from tests.python.parity.corpus.registry import call, f, program


@dataclass
class Config:
    width: int = 2
    scale: float = 1.5
    names: list = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    x: torch.Tensor
    n: int = 3

    def apply(self, t):
        return t * self.n + self.x


@dataclass(slots=True)
class Slotted:
    x: torch.Tensor
    k: int = 1


@dataclass(order=True)
class Ranked:
    rank: int
    name: str = field(compare=False, default="")


@dataclass
class WithInit:
    x: torch.Tensor
    doubled: torch.Tensor = field(init=False)
    factor: dataclasses.InitVar[int] = 2

    def __post_init__(self, factor):
        self.doubled = self.x * factor


@dataclass
class Base:
    a: int = 1


@dataclass
class Derived(Base):
    b: int = 2

    @property
    def total(self):
        return self.a + self.b


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1

    @property
    def weight(self):
        return self.value * 10


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()
    C = enum.auto()


class Mode(str, enum.Enum):
    TRAIN = "train"
    EVAL = "eval"


@program((f(2), Config()), (f(2), Config(3, names=["a"])))
def config_taken(x, config):
    return x * config.width * config.scale + len(config.names)


@program((f(2), 3), (f(2), 4))
def config_made(x, n):
    c = Config(width=n)
    c.names.append("q")
    return x * c.width, c, Config().names


@program((f(2), Config()), (f(2), Config(5)))
def config_changed(x, config):
    config.width += 1
    config.names.append(config.width)
    return x * config.width


@program((f(2), 3), (f(2), 4))
def frozen_made(x, n):
    fr = Frozen(x, n)
    try:
        fr.n = 10
    except dataclasses.FrozenInstanceError as error:
        return fr.apply(x), str(error)


@program((Frozen(f(2)), f(2)), (Frozen(f(2), 5), f(2)))
def frozen_taken(fr, x):
    return fr.apply(x), dataclasses.replace(fr, n=7).apply(x)


@program((f(2), 3), (f(2), 4))
def slotted(x, k):
    s = Slotted(x)
    s.k = k
    return s.x * s.k, s


@program((f(2), 3, 4), (f(2), 4, 3))
def ordered(x, a, c):
    r, s = Ranked(a, "r"), Ranked(c, "s")
    return x * (r < s), r == Ranked(a, "other"), max(r, s).name, sorted([s, r])[0].rank


@program((f(2), 3), (f(2), 4))
def post_init(x, n):
    w = WithInit(x, n)
    return w.doubled + w.x, WithInit(x).doubled


@program((f(2), 3), (f(2), 4))
def inheritance(x, n):
    d = Derived(b=n)
    return x * d.total, d, isinstance(d, Base)


@program((f(2), Derived(1, 2)), (f(2), Derived(3, 4)))
def fields_asdict_astuple(x, d):
    names = [item.name for item in dataclasses.fields(d)]
    return x * sum(getattr(d, name) for name in names), dataclasses.asdict(d), dataclasses.astuple(d)


@program((f(2), 1), (f(2), 2))
def equality_and_repr(x, n):
    a, c = Derived(n), Derived(1)
    return x * (a == c), repr(a), a != c, dataclasses.is_dataclass(a)


@program((f(2), Color.RED), (f(2), Color.GREEN), (f(2), Color.RED))
def enum_branch(x, color):
    if color is Color.RED:
        return x + 1
    return x * color.value


@program((f(2), "RED"), (f(2), "GREEN"))
def enum_lookup(x, name):
    color = Color[name]
    return x * color.weight, Color(color.value) is color, color.name, [c.name for c in Color], Color.CRIMSON.name


@program((f(2), Level.LOW), (f(2), Level.HIGH))
def int_enum(x, level):
    return x * level + (level > 2), int(level), level == 5, max(Level.LOW, level)


@program((f(2), Flags.A), (f(2), Flags.A | Flags.C))
def flags(x, fl):
    if fl & Flags.C:
        x = x * 3
    if Flags.A in fl:
        x = x + 1
    return x, (fl | Flags.B).value


@program((f(2), Mode.TRAIN), (f(2), "eval"))
def string_enum(x, mode):
    return x * 2 if mode == "train" else x * 3, mode == Mode.EVAL


@program((f(2), {Color.RED: 2, Color.GREEN: 3}), (f(2), {Color.RED: 5}))
def enum_keys(x, table):
    return x * table[Color.RED] + table.get(Color.GREEN, 0)


@program((f(2), Color.RED), (f(2), Color.GREEN))
def returns_members(x, color):
    return x + 1, color, [color, Level.HIGH], {"mode": Mode.EVAL}


@program((f(2), 2), (f(2), 3))
def dataclass_of_tensors_returned(x, n):
    return Frozen(x * n, n), Slotted(x + n)


@program((f(2), [Config(1), Config(2)]), (f(2), [Config(4)]))
def list_of_dataclasses(x, configs):
    total = sum(c.width for c in configs)
    configs[0].scale = float(total)
    return x * total


@program((f(2), 2), (f(2), 3))
def dataclass_defined_inside(x, n):
    @dataclass
    class Local:
        k: int = n

    return x * Local().k + Local(5).k


class Tinted(enum.Enum):
    RED = 1
    BLUE = 2

    def __bool__(self):
        return self is Tinted.RED


def weigh(member, weight):
    member.weight = weight


@program(
    call(f(2), Tinted.RED, before=lambda _: weigh(Tinted.RED, 2)),
    call(f(2), Tinted.RED, before=lambda _: weigh(Tinted.RED, 5)),
    call(f(2), Tinted.BLUE, before=lambda _: weigh(Tinted.BLUE, 1)),
)
def members_with_attributes_that_change(x, colour):
    return x * colour.weight, bool(colour), colour.name
