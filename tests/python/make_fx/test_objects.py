"""Operands and tensors that are not plain: generators, script objects, collectives, sparse tensors, subclasses
and modes of the program, operators of the program."""

import pytest
import torch
import torch.utils._pytree as pytree
from torch._library.opaque_object import OpaqueBase, register_opaque_type
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

import stator
from tests.python.make_fx.helpers import calls, names, placeholders

MODES = ["real", "fake", "symbolic"]


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.randn(3, 4)


# ---- generators


@pytest.mark.parametrize("mode", MODES)
def test_a_generator_as_an_argument(x, mode):
    module = stator.make_fx(lambda a, g: a + torch.rand(3, 4, generator=g), tracing_mode=mode)(x, torch.Generator())
    assert calls(module) == ["rand.generator", "add.Tensor"]
    assert names(module, "get_attr") == []
    given, wanted = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    assert torch.equal(module(x, given), x + torch.rand(3, 4, generator=wanted))


@pytest.mark.parametrize("mode", MODES)
def test_a_generator_from_outside(x, mode):
    generator = torch.Generator()
    before = generator.get_state()

    def program(a):
        return a + torch.rand(3, 4, generator=generator) + torch.randn(3, 4, generator=generator)

    module = stator.make_fx(program, tracing_mode=mode)(x)
    assert torch.equal(generator.get_state(), before) == (mode != "real")
    assert names(module, "get_attr") == ["_opaque_obj0", "_opaque_obj0_1"]
    generator.manual_seed(3)
    found = module(x)
    generator.manual_seed(3)
    assert torch.equal(found, program(x))


# ---- script objects


@pytest.fixture
def packed():
    weight = torch.quantize_per_tensor(torch.randn(2, 4), 0.1, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(weight, None)


def test_script_objects(x, packed):
    linear = torch.ops.quantized.linear_dynamic
    captured = stator.make_fx(lambda a: linear(a, packed))(x)
    assert names(captured, "get_attr") == ["_torchbind_obj0"]
    assert torch.equal(captured(x), linear(x, packed))
    given = stator.make_fx(lambda a, p: linear(a, p))(x, packed)
    assert names(given, "get_attr") == []
    assert torch.equal(given(x, packed), linear(x, packed))


# ---- collectives


@pytest.fixture
def group(tmp_path):
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/store")
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_functional_collectives(x, group, mode):
    import torch.distributed._functional_collectives as collectives

    module = stator.make_fx(lambda a: collectives.all_reduce(a, "sum", group) + 1, tracing_mode=mode)(x)
    assert calls(module) == ["all_reduce.default", "wait_tensor.default", "add.Tensor"]
    assert torch.equal(module(x), x + 1)


def test_collectives_in_place(x, group):
    def program(a):
        torch.distributed.all_reduce(a)
        return a + 1

    module = stator.make_fx(program)(x.clone())
    assert calls(module)[0] == "allreduce_.default" and calls(module)[-1] == "add.Tensor"
    assert torch.equal(module(x.clone()), x + 1)


# ---- sparse and nested tensors


def test_sparse_tensors(x):
    def program(a):
        return a.to_sparse().to_dense() + 1

    assert torch.equal(stator.make_fx(program)(x)(x), program(x))
    square = x.t().contiguous()
    module = stator.make_fx(torch.sparse.mm)(square.to_sparse(), x)
    assert torch.allclose(module(square.to_sparse() * 2, x), 2 * square @ x)


def test_nested_tensors_are_refused():
    nested = torch.nested.nested_tensor([torch.randn(2, 3), torch.randn(3, 3)])
    with pytest.raises(RuntimeError, match="nested tensor"):
        stator.make_fx(lambda n: n.sin() * 2)(nested)


# ---- subclasses and modes


class Two(torch.Tensor):
    """Computes on two tensors at once."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)

    def __init__(self, a, b):
        self.a, self.b = a, b

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def side(name):
            return pytree.tree_map(lambda t: getattr(t, name) if isinstance(t, Two) else t, (args, kwargs or {}))

        first, second = [func(*a, **k) for a, k in (side("a"), side("b"))]
        out = pytree.tree_map(lambda p, q: Two(p, q) if isinstance(p, torch.Tensor) else p, first, second)
        return return_and_correct_aliasing(func, args, kwargs or {}, out)


@pytest.mark.parametrize("mode", MODES)
def test_a_subclass_that_the_function_makes(x, mode):
    def program(a, b):
        both = Two(a, b) * 2
        return both.a.sin(), both.b

    module = stator.make_fx(program, tracing_mode=mode)(x, x + 1)
    assert calls(module) == ["mul.Tensor", "mul.Tensor", "sin.default"]
    for found, wanted in zip(module(x, -x), program(x, -x), strict=True):
        assert torch.equal(found, wanted)


@pytest.mark.parametrize("mode", MODES)
def test_composites_on_a_subclass(x, mode):
    w = torch.randn(2, 4)

    def program(a, b, w):
        return torch.nn.functional.linear(Two(a, b), Two(w, w)).a

    module = stator.make_fx(program, tracing_mode=mode)(x, x + 1, w)
    assert torch.allclose(module(x, x, w), torch.nn.functional.linear(x, w))
    assert "linear.default" not in calls(module)


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_a_mode_of_the_program(x, pre_dispatch):
    outside, inside = Log(), Log()

    def program(a):
        with inside:
            return a.sin() + 1

    with outside:
        module = stator.make_fx(program, pre_dispatch=pre_dispatch)(x)
    assert calls(module) == ["sin.default", "add.Tensor"]
    assert inside.seen == [torch.ops.aten.sin.default, torch.ops.aten.add.Tensor]
    assert torch._C._len_torch_dispatch_stack() == 0


def test_regions_of_autocast_are_nodes_before_dispatch(x):
    def program(a, b):
        with torch.autocast("cpu", torch.bfloat16):
            c = a @ b
        return c + 1

    module = stator.make_fx(program, pre_dispatch=True)(x, x.t())
    assert calls(module) == ["_enter_autocast", "matmul.default", "_exit_autocast", "add.Tensor"]
    assert torch.equal(module(x, x.t()), program(x, x.t()))


# ---- operators of the program


@pytest.fixture
def library():
    with torch.library._scoped_library("make_fx_test", "FRAGMENT") as lib:
        lib.define("twice(Tensor a) -> Tensor")
        lib.impl("twice", lambda a: a * 2, "CPU")
        lib.define("thrice(Tensor a) -> Tensor")
        lib.impl("thrice", lambda a: a * 3, "CPU")
        torch.library.register_fake("make_fx_test::thrice", lambda a: torch.empty_like(a), lib=lib)
        yield torch.ops.make_fx_test


@pytest.mark.parametrize("mode", MODES)
def test_an_operator_with_a_fake_kernel(x, library, mode):
    module = stator.make_fx(lambda a: library.thrice(a) + 1, tracing_mode=mode)(x)
    assert calls(module) == ["thrice.default", "add.Tensor"]
    assert torch.equal(module(x), x * 3 + 1)
    if mode == "symbolic":
        assert torch.equal(module(torch.ones(2, 2)), torch.full((2, 2), 4.0))


def test_an_operator_without_a_fake_kernel(x, library):
    assert calls(stator.make_fx(library.twice.default)(x)) == ["twice.default"]
    for mode in ("fake", "symbolic"):
        with pytest.raises(RuntimeError, match=r"register_fake\(\"make_fx_test::twice\"\)"):
            stator.make_fx(lambda a: library.twice(a), tracing_mode=mode)(x)
    assert placeholders(stator.make_fx(torch.sin)(x)) == ["arg0_1"]


# ---- opaque objects


class Reference(OpaqueBase):
    def __init__(self, factor):
        self.factor = factor


class Literal(OpaqueBase):
    def __init__(self, factor):
        self.factor = factor

    def __eq__(self, other):
        return self.factor == other.factor

    def __hash__(self):
        return hash(self.factor)

    def __fx_repr__(self):
        return f"Literal({self.factor})", {"Literal": Literal}


class Hoisted(Literal):
    pass


class Child(OpaqueBase):
    def __init__(self, root):
        self.root = root

    @property
    def factor(self):
        return self.root.factor


def child_of(child, proxy_of, _tracer):
    root = proxy_of(child.root)
    return None if root is None else root.child


Reference.child = property(Child)
register_opaque_type(Reference, typ="reference")
register_opaque_type(Literal, typ="value")
register_opaque_type(Hoisted, typ="value", hoist=True)
register_opaque_type(Child, typ="reference", reconstruct_fn=child_of)


@torch.library.custom_op("stator_tests::times", mutates_args=())
def times(x: torch.Tensor, by: Reference) -> torch.Tensor:
    return x * by.factor


@torch.library.custom_op("stator_tests::times_literal", mutates_args=())
def times_literal(x: torch.Tensor, by: Literal) -> torch.Tensor:
    return x * by.factor


@torch.library.custom_op("stator_tests::times_hoisted", mutates_args=())
def times_hoisted(x: torch.Tensor, by: Hoisted) -> torch.Tensor:
    return x * by.factor


@torch.library.custom_op("stator_tests::times_child", mutates_args=())
def times_child(x: torch.Tensor, by: Child) -> torch.Tensor:
    return x * by.factor


times_hoisted.register_fake(lambda x, by: torch.empty_like(x))
times_child.register_fake(lambda x, by: torch.empty_like(x))
times.register_fake(lambda x, by: torch.empty_like(x))
times_literal.register_fake(lambda x, by: torch.empty_like(x))


@pytest.mark.parametrize("mode", MODES)
def test_an_opaque_object_as_an_argument(x, mode):
    module = stator.make_fx(lambda a, c: times(a, c), tracing_mode=mode)(x, Reference(3))
    assert names(module, "get_attr") == []
    assert torch.equal(module(x, Reference(5)), x * 5)


@pytest.mark.parametrize("mode", MODES)
def test_an_opaque_object_from_outside(x, mode):
    by = Reference(3)
    module = stator.make_fx(lambda a: times(a, by) + times(a, by), tracing_mode=mode)(x)
    assert module._opaque_obj0 is by and not hasattr(module, "_opaque_obj1")
    assert torch.equal(module(x), x * 6)


@pytest.mark.parametrize("mode", MODES)
def test_an_opaque_value_is_a_literal(x, mode):
    module = stator.make_fx(lambda a, c: times_literal(a, c), tracing_mode=mode)(x, Literal(4))
    assert "Literal(4)" in module.code and torch.equal(module(x, Literal(4)), x * 4)


@pytest.mark.parametrize("mode", MODES)
def test_an_opaque_value_that_is_hoisted(x, mode):
    module = stator.make_fx(lambda a, c: times_hoisted(a, c), tracing_mode=mode)(x, Hoisted(4))
    assert torch.equal(module(x, Hoisted(5)), x * 5)


@pytest.mark.parametrize("mode", MODES)
def test_an_opaque_object_that_is_derived_from_an_argument(x, mode):
    def program(a, root):
        child = Child(root)
        return times_child(a, child) + times_child(a, child)

    module = stator.make_fx(program, tracing_mode=mode)(x, Reference(3))
    assert calls(module).count("getattr") == 1 and names(module, "get_attr") == []
    assert torch.equal(module(x, Reference(5)), x * 10)


# ---- collectives in the fake modes


@pytest.mark.parametrize("mode", ["fake", "symbolic"])
def test_collectives_in_place_on_fakes(x, group, mode):
    def program(a):
        torch.distributed.all_reduce(a)
        torch.distributed.broadcast(a, 0)
        return a + 1

    module = stator.make_fx(program, tracing_mode=mode)(x.clone())
    assert calls(module)[0] == "allreduce_.default" and "broadcast_.default" in calls(module)
    assert torch.equal(module(x.clone()), x + 1)


def test_functional_collectives_on_symbolic_sizes(x, group):
    import torch.distributed._functional_collectives as collectives

    def program(a):
        reduced = collectives.all_reduce(a, "sum", group)
        gathered = collectives.all_gather_tensor(reduced, 0, group)
        scattered = collectives.reduce_scatter_tensor(gathered, "sum", 0, group)
        return scattered + gathered.shape[0]

    module = stator.make_fx(program, tracing_mode="symbolic")(x)
    other = torch.randn(5, 2)
    assert torch.equal(module(other), other + 5)


def test_a_constant_that_a_collective_writes_is_not_known(x, group):
    def program(a):
        t = torch.tensor(1.0)
        torch.distributed.all_reduce(t)
        return a * t.item()

    module = stator.make_fx(program, tracing_mode="fake")(x)
    assert "_local_scalar_dense.default" in calls(module)
