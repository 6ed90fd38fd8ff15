"""import inside functions, module attributes, dynamic lookup, annotations and typing at run time."""

import importlib
import math
import sys
import types
import typing

import torch

from tests.python.parity.corpus.registry import call, f, program

if typing.TYPE_CHECKING:
    from collections.abc import Sequence

helpers = types.ModuleType("helpers")
helpers.scale = 3
helpers.apply = lambda x: x * helpers.scale


@program(f(2), f(3))
def import_inside(x):
    import math as m

    return x * m.pi


@program(f(2), f(3))
def from_import_inside(x):
    from torch.nn.functional import gelu, relu

    return relu(x) + gelu(x)


@program(f(2), f(3))
def import_of_submodule(x):
    import torch.nn.functional
    import torch.nn.functional as functional

    return functional.relu(x) + torch.nn.functional.silu(x)


@program(f(2), f(3))
def import_in_try(x):
    try:
        import a_package_that_is_not_there
    except ImportError as error:
        return x * 2, error.name
    return x * a_package_that_is_not_there.k


@program((f(2), "sqrt"), (f(2), "exp"))
def attribute_of_module_by_name(x, name):
    return x * getattr(math, name)(4.0), hasattr(math, "nothing")


@program((f(2), "relu"), (f(2), "tanh"))
def torch_function_by_name(x, name):
    return getattr(torch, name)(x), getattr(torch.nn.functional, name)(x)


@program(f(2), call(f(2), before=lambda t: setattr(helpers, "scale", 5)))
def module_attribute_changes_between_calls(x):
    return helpers.apply(x) + helpers.scale


@program(f(2), f(2), f(2))
def module_attribute_written(x):
    helpers.scale += 1
    return x * helpers.scale


@program(f(2), f(3))
def module_attribute_added(x):
    helpers.extra = x.shape[0]
    return x * helpers.extra, hasattr(helpers, "extra")


@program(f(2), f(3))
def importlib_import(x):
    m = importlib.import_module("math")
    return x * m.e


@program(f(2), f(3))
def sys_modules(x):
    return x * sys.modules["math"].pi, "math" in sys.modules


@program(f(2), f(3))
def star_style_locals(x):
    from math import cos, floor, sin

    return x * sin(1.0) + cos(1.0) - floor(2.5)


@program((f(2), 3), (f(2), 4))
def typing_at_run_time(x, n):
    values: typing.Optional[list[int]] = [n]
    alias = typing.Union[int, str]
    return typing.cast(int, values[0]) * x, alias is not None, typing.TYPE_CHECKING


def annotated(x: "Sequence[int]", n: int = 2) -> torch.Tensor:
    return x * n


@program(f(2), f(3))
def annotations_of_function(x):
    return annotated(x), sorted(annotated.__annotations__), annotated.__defaults__


@program(f(2), f(3))
def function_metadata(x):
    return (
        x + 1,
        annotated.__name__,
        annotated.__module__.split(".")[-1],
        annotated.__code__.co_argcount,
        annotated.__qualname__,
    )


@program(f(2), f(3))
def module_metadata(x):
    return x + 1, math.__name__, __name__.split(".")[-1], torch.nn.__name__, __doc__[:6]


@program((f(2), 3), (f(2), 4))
def nested_namespace(x, n):
    space = types.SimpleNamespace(inner=types.SimpleNamespace(n=n))
    space.inner.n += 1
    return x * space.inner.n


@program(f(2), f(3))
def torch_constants(x):
    return x * torch.pi, torch.inf, torch.finfo(x.dtype).eps, torch.iinfo(torch.int32).max, torch.float32.itemsize


@program(f(2), f(3))
def version_checks(x):
    if sys.version_info >= (3, 8) and torch.__version__ >= "2.0":
        return x * 2
    return x


@program(f(2), f(3))
def availability_checks(x):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return x.to(device), torch.backends.mkldnn.is_available() is not None, torch.get_num_threads() > 0


@program(f(2), f(3))
def relative_lookup_through_globals(x):
    return globals()["annotated"](x), vars(helpers)["scale"]


class Settings(types.ModuleType):
    limit = 3

    def doubled(self):
        return self.limit * 2

    def __getattr__(self, name):
        if name.startswith("made_"):
            return len(name)
        raise AttributeError(name)


settings = Settings("settings")


@program(call(f(2)), call(f(2), before=lambda _: setattr(settings, "limit", 4)), call(f(2)))
def module_of_a_class_with_methods(x):
    return x * settings.doubled(), settings.made_up, hasattr(settings, "absent"), settings.limit
