"""Torch's own names: each row of the table in docs/torch-names.md."""

import contextlib
import functools
import logging
import pathlib
import re
import sys
import warnings

import pytest
import torch
import torch._dynamo
from torch._dynamo import callback

import stator
from tests.python.helpers import Counting, captures, run_program

DOCS = pathlib.Path(__file__).parents[3] / "docs" / "torch-names.md"
CHECKS = {}
x = torch.ones(3)


def row(name):
    """The check of the row for this name."""

    def add(check):
        assert name not in CHECKS
        CHECKS[name] = check
        return check

    return add


def rows():
    table = DOCS.read_text().split("<!-- names: begin -->")[1].split("<!-- names: end -->")[0]
    return re.findall(r"^\| `([^`]*)` \|", table, flags=re.MULTILINE)


def test_each_row_has_a_check():
    assert sorted(rows()) == sorted(CHECKS)


@pytest.mark.parametrize("name", rows())
def test_row(name):
    stator.reset()
    torch._dynamo.reset()
    CHECKS[name]()


def functions_captured(run):
    """The names of the functions in which `run()` captured a graph."""
    found = []
    before = stator._C.set_capture_listener(lambda record: found.append(record["function"]))
    try:
        run()
    finally:
        stator._C.set_capture_listener(before)
    return {name.rsplit(".", 1)[-1] for name in found}


@row("torch.compiler.is_dynamo_compiling")
def is_dynamo_compiling():
    def program(a):
        return a * 2 if torch.compiler.is_dynamo_compiling() else a * 3

    assert torch.equal(stator.compile(program, fullgraph=True)(x), x * 2)
    assert torch.equal(program(x), x * 3)


@row("torch.compiler.wrap_numpy")
def wrap_numpy():
    numpy = pytest.importorskip("numpy")
    wrapped = torch.compiler.wrap_numpy(lambda a: numpy.multiply(a, 2) + 1)
    assert torch.equal(stator.compile(wrapped, fullgraph=True)(x), x * 2 + 1)
    assert torch.equal(stator.compile(lambda a: wrapped(a) + 1, fullgraph=True)(x), x * 2 + 2)


# ---- marks on functions


def below(a):
    return a * 3


def marked_program(mark):
    """A program that calls a marked function, which calls another; what the marked one saw."""
    seen = []

    def body(a):
        seen.append(torch.compiler.is_compiling() or stator.is_compiling())
        return below(a) + 1

    marked = mark(body)

    def program(a):
        return marked(a * 2) - 1

    return program, seen


def captured_in(mark):
    program, seen = marked_program(mark)
    compiled = stator.compile(program)
    found = functions_captured(lambda: [compiled(x) for _ in range(3)])
    assert torch.equal(compiled(x), (x * 2) * 3 + 1 - 1) and not any(seen) and len(seen) == 4
    return found


@row("torch.compiler.disable")
def disable():
    assert captured_in(torch.compiler.disable) == {"program"}
    with pytest.raises(stator.Unsupported, match="marked as disabled"):
        stator.compile(marked_program(torch.compiler.disable)[0], fullgraph=True)(x)

    @torch.compiler.disable
    class Whole(torch.nn.Module):
        def forward(self, a):
            return below(a)

    whole = Whole()
    compiled = stator.compile(lambda a: whole(a + 1) + 1)
    assert functions_captured(lambda: [compiled(x) for _ in range(3)]) == {"<lambda>"}


@row("torch.compiler.disable(recursive=False)")
def disable_one():
    assert captured_in(lambda fn: torch.compiler.disable(fn, recursive=False)) == {"program", "below"}


@row("torch._dynamo.decorators.skip")
def skip():
    assert captured_in(torch._dynamo.decorators.skip) == {"program", "below"}


def frame_program(leave):
    def program(a):
        a = a * 2
        leave()
        return a + 1

    return program


def runs_plain(leave):
    compiled = stator.compile(frame_program(leave))
    assert torch.equal(compiled(x), x * 2 + 1) and torch.equal(compiled(x), x * 2 + 1) and captures() == 0


@row("torch._dynamo.skip_frame")
def skip_frame():
    runs_plain(torch._dynamo.skip_frame)


@row("torch._dynamo.step_unsupported")
def step_unsupported():
    def program(a):
        a = a * 2
        torch._dynamo.step_unsupported()
        a = a + 1
        return below(a) if torch.compiler.is_compiling() else below(a) + 1

    compiled = stator.compile(program)
    for _ in range(2):
        assert torch.equal(compiled(x), (x * 2 + 1) * 3 + 1)
    assert captures() == 2 and stator.counters["breaks"] == {"skip_rest": 1}  # the graph before it, and `below`
    with pytest.raises(stator.Unsupported, match="step_unsupported"):
        stator.compile(program, fullgraph=True)(x)


@row("torch._dynamo.graph_break")
def graph_break():
    compiled = stator.compile(frame_program(torch._dynamo.graph_break))
    assert torch.equal(compiled(x), x * 2 + 1) and captures() == 2 and stator.counters["breaks"] == {"user": 1}


@row("torch._dynamo.forbid_in_graph")
def forbid_in_graph():
    compiled = stator.compile(marked_program(torch._dynamo.forbid_in_graph)[0])
    assert torch.equal(compiled(x), x * 6) and stator.counters["breaks"]["disabled"] == 1


@row("torch._dynamo.disallow_in_graph")
def disallow_in_graph():
    torch._dynamo.disallow_in_graph(torch.erfinv)
    try:
        assert torch.equal(stator.compile(lambda a: torch.erfinv(a * 0) * 2)(x), x * 0)
    finally:
        torch._dynamo.allow_in_graph(torch.erfinv)
    assert stator.counters["breaks"]["disabled"] == 1


def targets_of(mark, backend):
    def body(a):
        return a.sin() + 1

    marked = mark(body)
    compiled = stator.compile(lambda a: marked(a) * 2, backend=backend, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(x), (x.sin() + 1) * 2)
    (gm,) = backend.graphs
    return [str(gm.get_submodule(node.target)) for node in gm.graph.nodes if node.op == "call_module"]


@row("torch.compiler.allow_in_graph")
def allow_in_graph():
    (call,) = targets_of(torch.compiler.allow_in_graph, Counting())
    assert "body" in call
    helper = torch.compiler.allow_in_graph(lambda a: a.sin() + 1)
    report = stator.explain(lambda a: helper(a) * 2)(x)
    assert set(report.captures[0].operators) == {"sin", "add", "mul"}


@row("torch._dynamo.nonstrict_trace")
def nonstrict_trace():
    (call,) = targets_of(torch._dynamo.nonstrict_trace, Counting())
    assert "body" in call


@row("torch.compiler.assume_constant_result")
def assume_constant_result():
    calls = []

    @torch.compiler.assume_constant_result
    def value():
        calls.append(1)
        return 3

    compiled = stator.compile(lambda a: a * value(), fullgraph=True)
    assert torch.equal(compiled(x), x * 3) and torch.equal(compiled(x), x * 3) and len(calls) == 1


@row("torch.compiler.substitute_in_graph")
def substitute_in_graph():
    def original(a):
        raise AssertionError("called")

    @torch.compiler.substitute_in_graph(original)
    def substitute(a):
        return a + 5

    assert torch.equal(stator.compile(lambda a: original(a), fullgraph=True)(x), x + 5)


@row("torch.compiler.nested_compile_region")
def nested_compile_region():
    region = torch.compiler.nested_compile_region(lambda a, *, k=1: a.sin() * k)
    compiled = stator.compile(lambda a: region(a, k=2) + region(a), fullgraph=True)
    assert torch.equal(compiled(x), x.sin() * 2 + x.sin()) and captures() == 1


@row("torch.compiler.is_compiling")
def is_compiling():
    def program(a):
        return a + 1 if torch.compiler.is_compiling() else a - 1

    assert torch.equal(stator.compile(program)(x), x + 1) and torch.equal(program(x), x - 1)
    # An optimizer that asked would compute its bias corrections in float32.
    parameters = [torch.nn.Parameter(x.clone()) for _ in range(2)]
    for parameter, backend in zip(parameters, (None, "eager"), strict=True):
        optimizer = torch.optim.Adam([parameter], lr=0.3)
        step = stator.compile(optimizer.step, backend=backend) if backend else optimizer.step
        for _ in range(4):
            parameter.grad = parameter.detach() * 0.7
            step()
    assert torch.equal(*parameters)


@row("torch._dynamo.is_compiling")
def dynamo_is_compiling():
    def program(a):
        return a + 1 if torch._dynamo.is_compiling() else a - 1

    assert torch.equal(stator.compile(program, fullgraph=True)(x), x + 1) and torch.equal(program(x), x - 1)


@row("torch.compiler.is_exporting")
def is_exporting():
    def program(a):
        return a + 1 if torch.compiler.is_exporting() else a - 1

    assert torch.equal(stator.compile(program, fullgraph=True)(x), x - 1)


@row("torch.compiler.cudagraph_mark_step_begin")
def cudagraph_mark_step_begin():
    compiled = stator.compile(frame_program(torch.compiler.cudagraph_mark_step_begin))
    for _ in range(2):
        assert torch.equal(compiled(x), x * 2 + 1)
    assert captures() >= 2 and stator.counters["breaks"]


@row("torch._dynamo.comptime.comptime")
def comptime():
    from torch._dynamo.comptime import comptime

    called = []

    def program(a):
        comptime(called.append)
        return a + 1

    assert torch.equal(stator.compile(program, fullgraph=True)(x), x + 1) and not called


def captures_below(wrap):
    """`wrap(function)`, compiled, and called by a captured function."""
    compiled = stator.compile(wrap(below))
    assert functions_captured(lambda: compiled(x)) == {"below"} and torch.equal(compiled(x), x * 3)
    torch._dynamo.reset()
    wrapped = wrap(below)
    compiled = stator.compile(lambda a: wrapped(a * 2) + 1)
    for _ in range(2):
        assert torch.equal(compiled(x), x * 6 + 1)


@row("torch._dynamo.run")
def run():
    captures_below(torch._dynamo.run)


@row("torch._dynamo.optimize")
def optimize():
    captures_below(torch._dynamo.optimize("eager"))


@row("torch._dynamo.optimize_assert")
def optimize_assert():
    captures_below(torch._dynamo.optimize_assert("eager"))


@row("torch._dynamo.explain")
def explain():
    found = torch._dynamo.explain(stator.compile(lambda a: below(a) + 1))(x)
    assert found.graph_count == 1 and found.op_count == 2 and captures() == 0


@row("torch._dynamo.disable_nested_graph_breaks")
def disable_nested_graph_breaks():
    wrapped = torch._dynamo.disable_nested_graph_breaks(below)
    for compiled in (stator.compile(wrapped), stator.compile(lambda a: wrapped(a) + 0)):
        assert torch.equal(compiled(x), x * 3) and torch.equal(compiled(x), x * 3)
    with pytest.raises(stator.Unsupported):
        stator.compile(lambda a: wrapped(a) + 1, fullgraph=True)(x)


@row("torch._dynamo.override_cudagraphs")
def override_cudagraphs():
    def program(a):
        with torch._dynamo.override_cudagraphs(fwd=False):
            return below(a) + 1

    assert torch.equal(stator.compile(program, fullgraph=True)(x), x * 3 + 1)
    decorated = torch._dynamo.override_cudagraphs(fwd=False)(below)
    assert torch.equal(stator.compile(decorated, fullgraph=True)(x), x * 3)


@row("torch._dynamo.set_recursion_limit")
def set_recursion_limit():
    before = sys.getrecursionlimit()

    def program(a):
        a = a * 2
        torch._dynamo.set_recursion_limit(before)
        return a + 1

    assert torch.equal(stator.compile(program)(x), x * 2 + 1) and captures() == 2
    assert sys.getrecursionlimit() == before
    with pytest.raises(stator.Unsupported):
        stator.compile(program, fullgraph=True)(x)


@row("torch.compiler.set_default_backend")
def set_default_backend():
    counting = Counting()
    torch.compiler.set_default_backend(counting)
    try:
        assert torch.equal(stator.compile(below)(x), x * 3) and counting.count == 1
    finally:
        torch.compiler.set_default_backend("inductor")
    stator.compile(lambda a: below(a) + 1)(x)
    assert counting.count == 1


@row("torch._dynamo.register_backend")
def register_backend():
    counting = Counting()
    name = f"counting_{id(counting)}"
    torch._dynamo.register_backend(counting, name=name)
    assert torch.equal(stator.compile(below, backend=name)(x), x * 3) and counting.count == 1


@row("torch._dynamo.dont_skip_tracing")
def dont_skip_tracing():
    wrapped = torch._dynamo.dont_skip_tracing(below)
    for compiled in (stator.compile(wrapped), stator.compile(lambda a: wrapped(a) + 0)):
        assert torch.equal(compiled(x), x * 3) and torch.equal(compiled(x), x * 3)
    with pytest.raises(stator.Unsupported):
        stator.compile(lambda a: wrapped(a) + 1, fullgraph=True)(x)


@row("torch._dynamo.decorators.patch_dynamo_config")
def patch_dynamo_config():
    def program(a):
        with torch._dynamo.decorators.patch_dynamo_config(capture_scalar_outputs=True):
            inside = torch._dynamo.config.capture_scalar_outputs
        return a + inside, torch._dynamo.config.capture_scalar_outputs

    before = torch._dynamo.config.capture_scalar_outputs
    compiled = stator.compile(program)
    for _ in range(2):
        made, after = compiled(x)
        assert torch.equal(made, x + 1) and after == before
    assert stator.counters["breaks"]


# ---- the compiler's state


@row("torch.compiler.reset")
def reset():
    compiled = stator.compile(below)
    for clear in (torch.compiler.reset, torch._dynamo.reset):
        stator.compile(below)
        compiled(x)
        assert stator.cache_entries(compiled)
        clear()
        assert not stator.cache_entries(compiled)


@row("torch.compiler.set_stance")
def set_stance():
    compiled = stator.compile(below)
    with torch.compiler.set_stance("force_eager"):
        assert torch.equal(compiled(x), x * 3) and captures() == 0
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(stator.RecompileForbidden):
        compiled(x)
    compiled(x)
    assert captures() == 1


@row('torch.compiler.set_stance("aot_eager_then_compile")')
def aot_eager_then_compile():
    for stance in (torch.compiler.set_stance, stator.set_stance):
        stator.reset()
        with stance("aot_eager_then_compile"):
            compiled = stator.compile(below)
            assert torch.equal(compiled(x), x * 3) and captures() == 0
            assert torch.equal(compiled(x), x * 3) and captures() == 1


@row("torch.compiler.set_stance(force_backend=...)")
def force_backend():
    for stance in (torch.compiler.set_stance, stator.set_stance):
        stator.reset()
        graphs = []
        compiled = stator.compile(below)
        with stance(force_backend=lambda gm, example_inputs, graphs=graphs: graphs.append(gm) or gm.forward):
            assert torch.equal(compiled(x), x * 3) and torch.equal(compiled(x), x * 3)
        assert len(graphs) == 1


FACTOR = 2


@row("torch.compiler.set_stance(skip_guard_eval_unsafe=True)")
def skip_guard_eval_unsafe():
    global FACTOR
    for stance in (torch.compiler.set_stance, stator.set_stance):
        stator.reset()
        compiled = stator.compile(lambda a, k: a * k * FACTOR, dynamic=False)
        FACTOR = 2
        assert torch.equal(compiled(x, 2), x * 4)
        FACTOR = 3
        with stance(skip_guard_eval_unsafe=True):
            assert torch.equal(compiled(x, 2), x * 4)  # the caller vouches for what is not an argument
            assert captures() == 1
            assert torch.equal(compiled(x, 5), x * 15)  # arguments are checked
            assert torch.equal(compiled(x, 2), x * 6)  # several entries: so is everything
        assert captures() == 3


@row("torch._dynamo.error_on_graph_break")
def error_on_graph_break():
    def program(a):
        with torch._dynamo.error_on_graph_break(True):
            stator.graph_break()
        return a + 1

    with pytest.raises(stator.Unsupported):
        stator.compile(program)(x)


# ---- guards

SCALE = 2.0


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Dropout(0.0)
        self.factor = 3.0

    def forward(self, a):
        return self.layer(a) * self.factor * SCALE


def kept(guard_filter):
    """The guards that a filter keeps, and whether the program still gives the right answer."""
    guards = []
    model = Scaled()
    for backend in (None, "aot_eager", Counting()):
        compiled = stator.compile(model, backend=backend, options={"guard_filter_fn": guard_filter})
        assert torch.equal(compiled(x), model(x)) and torch.equal(compiled(x), model(x))
    compiled = stator.compile(model, guard_filter_fn=guard_filter, guard_export_fn=guards.extend)
    assert torch.equal(compiled(x), model(x)) and torch.equal(compiled(x), model(x))
    return [guard.text for guard in guards], model, compiled


def mentions(guards, text):
    return any(guard.startswith(text) for guard in guards)


@row("torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe")
def skip_builtin_modules():
    guards, *_ = kept(torch.compiler.skip_guard_on_inbuilt_nn_modules_unsafe)
    assert mentions(guards, "self.factor == ") and not mentions(guards, "self.layer.p == ")


@row("torch.compiler.skip_guard_on_all_nn_modules_unsafe")
def skip_all_modules():
    guards, *_ = kept(torch.compiler.skip_guard_on_all_nn_modules_unsafe)
    assert not mentions(guards, "self.factor == ") and mentions(guards, "SCALE == ")


@row("torch.compiler.keep_tensor_guards_unsafe")
def keep_tensor_guards():
    guards, model, compiled = kept(torch.compiler.keep_tensor_guards_unsafe)
    assert not mentions(guards, "self.factor == ") and not mentions(guards, "SCALE == ")
    assert torch.equal(compiled(x.double()), model(x.double()))


@row("torch.compiler.keep_portable_guards_unsafe")
def keep_portable_guards():
    compiled = stator.compile(below, options={"guard_filter_fn": torch.compiler.keep_portable_guards_unsafe})
    for _ in range(2):
        assert torch.equal(compiled(x), x * 3)
    assert captures() == 1


@row("torch.compiler.skip_guard_on_globals_unsafe")
def skip_globals():
    guards, *_ = kept(torch.compiler.skip_guard_on_globals_unsafe)
    assert mentions(guards, "self.factor == ") and not mentions(guards, "SCALE == ")


@row("torch.compiler.skip_all_guards_unsafe")
def skip_all():
    guards, model, compiled = kept(torch.compiler.skip_all_guards_unsafe)
    model.factor = 7.0  # the user vouches that this does not happen
    assert torch.equal(compiled(x), x * 6.0)


# ---- settings


def sizes_captured(compiled, calls=6):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(1, calls + 1):
            compiled(torch.ones(n))
    return captures()


@row("torch._dynamo.config.recompile_limit")
def recompile_limit():
    with torch._dynamo.config.patch(recompile_limit=3):
        assert sizes_captured(stator.compile(below, dynamic=False)) == 3
        stator.reset()
        with stator.config.patch(recompile_limit=4):
            assert sizes_captured(stator.compile(below, dynamic=False)) == 4


@row("torch._dynamo.config.accumulated_recompile_limit")
def accumulated_recompile_limit():
    with torch._dynamo.config.patch(accumulated_recompile_limit=2):
        assert sizes_captured(stator.compile(below, dynamic=False)) == 2


@row("torch._dynamo.config.fail_on_recompile_limit_hit")
def fail_on_recompile_limit_hit():
    with torch._dynamo.config.patch(recompile_limit=2, fail_on_recompile_limit_hit=True):
        with pytest.raises(stator.RecompileLimitExceeded):
            sizes_captured(stator.compile(below, dynamic=False))


def broken(gm, example_inputs):
    raise ValueError("boom")


@row("torch._dynamo.config.suppress_errors")
def suppress_errors():
    with torch._dynamo.config.patch(suppress_errors=True), pytest.warns(RuntimeWarning, match="boom"):
        assert torch.equal(stator.compile(below, backend=broken)(x), x * 3)


@row("torch._dynamo.config.disable")
def disable_setting():
    with torch._dynamo.config.patch(disable=True):
        assert stator.compile(below) is below
    assert stator.compile(below) is not below


@row("torch._dynamo.config.automatic_dynamic_shapes")
def automatic_dynamic_shapes():
    assert sizes_captured(stator.compile(below)) < 6
    stator.reset()
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False):
        assert sizes_captured(stator.compile(below), calls=6) == 6


@row("torch._dynamo.config.assume_static_by_default")
def assume_static_by_default():
    with torch._dynamo.config.patch(assume_static_by_default=False):
        compiled = stator.compile(below)
        compiled(torch.ones(3)), compiled(torch.ones(5))
    assert captures() == 1


@row("torch._dynamo.config.specialize_int")
def specialize_int():
    def times(x, n):
        return x * n

    def ints_captured():
        stator.reset()
        compiled = stator.compile(times)
        for n in range(2, 7):
            compiled(x, n)
        return captures()

    assert ints_captured() == 2
    with torch._dynamo.config.patch(specialize_int=True):
        assert ints_captured() == 5


def captures_of(fn, calls):
    stator.reset()
    compiled = stator.compile(fn)
    for args in calls:
        assert torch.equal(compiled(*args), fn(*args))
    return captures()


@row("torch._dynamo.config.specialize_float")
def specialize_float():
    calls = [(x, n / 2) for n in range(1, 6)]
    assert captures_of(lambda x, n: x * n, calls) == 2
    with torch._dynamo.config.patch(specialize_float=True):
        assert captures_of(lambda x, n: x * n, calls) == 5


@row("torch._dynamo.config.automatic_dynamic_shapes_mark_as")
def automatic_dynamic_shapes_mark_as():
    calls = [(torch.ones(n),) for n in (3, 4, 1, 0, 7)]
    assert captures_of(lambda x: x * 2, calls) == 4
    with torch._dynamo.config.patch(automatic_dynamic_shapes_mark_as="unbacked"):
        assert captures_of(lambda x: x * 2, calls) == 2


@row("torch._dynamo.config.allow_ignore_mark_dynamic")
def allow_ignore_mark_dynamic():
    def fn(x):
        return x + sum(range(x.size(0)))

    def marked(n):
        made = torch.ones(n)
        stator.mark_dynamic(made, 0)
        return (made,)

    with pytest.raises(stator.ConstraintViolation):
        captures_of(fn, [marked(3)])
    with torch._dynamo.config.patch(allow_ignore_mark_dynamic=True):
        assert captures_of(fn, [marked(3), marked(4)]) == 2


@row("torch.compiler.config.dynamic_values")
def dynamic_values():
    def fn(x, n):
        return x * n

    calls = [(torch.ones(1111), 2222), (torch.ones(5), 7), (torch.ones(6), 2222)]
    assert captures_of(fn, calls) == 2
    with torch.compiler.config.patch(dynamic_values="1111, 2222"):
        assert captures_of(fn, calls) == 1
        assert captures_of(fn, [(torch.ones(5), 7), (torch.ones(5), 7)]) == 1


@row("torch.fx.experimental._config.backed_size_oblivious")
def backed_size_oblivious():
    from torch.fx.experimental import _config

    calls = [(torch.ones(n),) for n in (3, 4, 1, 0)]
    with _config.patch(backed_size_oblivious=True):
        assert captures_of(lambda x: x * 2, calls) == 4


@row("torch._dynamo.config.force_parameter_static_shapes")
def force_parameter_static_shapes():
    def parameters_captured():
        stator.reset()
        compiled = stator.compile(below)
        for n in range(2, 7):
            compiled(torch.nn.Parameter(torch.ones(n)))
        return captures()

    assert parameters_captured() == 5
    with torch._dynamo.config.patch(force_parameter_static_shapes=False):
        assert parameters_captured() == 2


def data_captured():
    stator.reset()
    compiled = stator.compile(lambda x: (x * x.sum().item(), x.nonzero()), backend=lambda gm, _: gm.forward)
    compiled(torch.ones(3))
    return sum(stator.counters()["breaks"].values()) == 0


@row("torch._dynamo.config.capture_scalar_outputs")
def capture_scalar_outputs():
    with torch._dynamo.config.patch(capture_scalar_outputs=False):
        assert data_captured()
        with stator.config.patch(capture_scalar_outputs=False):
            assert not data_captured()


@row("torch._dynamo.config.capture_dynamic_output_shape_ops")
def capture_dynamic_output_shape_ops():
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=False):
        assert data_captured()
        with stator.config.patch(capture_dynamic_output_shape_ops=False):
            assert not data_captured()


@row("TORCH_COMPILE_DISABLE=1")
def compile_disable():
    program = """
        import stator
        def f(x): return x
        print(stator.compile(f) is f)
    """
    assert run_program(program, TORCH_COMPILE_DISABLE="1") == "True" and run_program(program) == "False"


@row("TORCH_LOGS")
def torch_logs():
    # tests/python/api/test_messages.py shows the variable in the environment.
    stream = Lines()
    with contextlib.redirect_stderr(stream):
        torch._logging.set_logs(graph_breaks=True)
        try:
            stator.compile(frame_program(stator.graph_break))(x)
        finally:
            torch._logging.set_logs()
    assert "[stator.breaks] graph break in frame_program" in "".join(stream.lines)
    assert not logging.getLogger("stator.breaks").isEnabledFor(logging.INFO)


class Lines:
    def __init__(self):
        self.lines = []

    def write(self, text):
        self.lines.append(text)

    def flush(self):
        pass


# ---- callbacks and counters


def called(register):
    told = []
    register(told.append)
    try:
        compiled = stator.compile(below)
        compiled(x), compiled(x), compiled(torch.ones(4))
    finally:
        callback.callback_handler.clear()
    return told


@row("torch._dynamo.callback.on_compile_start")
def on_compile_start():
    told = called(callback.on_compile_start)
    assert [args.compile_id for args in told] == ["0/0", "0/1"]


@row("torch._dynamo.callback.on_compile_end")
def on_compile_end():
    told = called(callback.on_compile_end)
    assert [args.compile_id for args in told] == ["0/0", "0/1"]


@row("torch._dynamo.utils.counters")
def counters():
    counts = torch._dynamo.utils.counters
    counts.clear()
    stator.compile(frame_program(stator.graph_break))(x)
    assert counts["frames"] == {"total": 2, "ok": 2}
    assert counts["stats"] == {"calls_captured": 2, "unique_graphs": 2}
    assert list(counts["graph_break"].values()) == [1]


# ---- marks on tensors


def dimension_mark(name):
    for namespace in (torch._dynamo, stator):
        stator.reset()
        compiled = stator.compile(below)
        for n in (4, 5):
            tensor = torch.ones(n)
            getattr(namespace, name)(tensor, 0)
            assert torch.equal(compiled(tensor), tensor * 3)
        assert captures() == 1
        backend = Counting()
        compiled = stator.compile(below, backend=backend)
        for n in (4, 5):
            tensor = torch.ones(n)
            getattr(namespace, name)(tensor, 0)
            assert torch.equal(compiled(tensor), tensor * 3)
        assert backend.count == 1


@row("torch._dynamo.mark_dynamic")
def mark_dynamic():
    dimension_mark("mark_dynamic")
    program = """
        import sys, torch, stator, warnings
        warnings.simplefilter("ignore")
        t = torch.ones(3)
        stator.mark_dynamic(t, 0), stator.maybe_mark_dynamic(t, 0), stator.mark_unbacked(t, 0)
        stator.mark_static(t, 0), stator.mark_static_address(t)
        print("torch._dynamo" in sys.modules)
    """
    assert run_program(program) == "False"


@row("torch._dynamo.maybe_mark_dynamic")
def maybe_mark_dynamic():
    dimension_mark("maybe_mark_dynamic")


@row("torch._dynamo.decorators.mark_unbacked")
def mark_unbacked():
    def fn(x, y):
        return x + y if x.size(0) >= 2 else x - y

    def marked(n, m):
        made = torch.ones(n), torch.ones(m)
        for each in made:
            torch._dynamo.decorators.mark_unbacked(each, 0, shape_id="rows", min=2, max=8)
        return made

    assert captures_of(fn, [marked(n, n) for n in (3, 2, 8, 5)]) == 1
    captures_of(fn, [marked(3, 3), marked(9, 9), marked(1, 1), marked(1, 4), marked(4, 1), marked(3, 3)])


@row("torch._dynamo.mark_static")
def mark_static():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for mark in (torch._dynamo.mark_static, stator.mark_static):
            tensor = torch.ones(4)
            mark(tensor, 0)
            stator.reset()
            compiled = stator.compile(below, dynamic=True)
            for marked in (tensor, torch.ones(5)):
                mark(marked, 0)
                assert torch.equal(compiled(marked), marked * 3)
            assert captures() == 2


@row("torch._dynamo.mark_static_address")
def mark_static_address():
    for mark in (torch._dynamo.mark_static_address, stator.mark_static_address):
        tensor, seen = torch.ones(4), []
        mark(tensor)

        def backend(gm, example_inputs, seen=seen):
            seen.extend(example._dynamo_static_input_type for example in example_inputs)
            return gm.forward

        stator.compile(below, backend=backend)(tensor)
        assert seen == ["unguarded"]


# ---- arguments of compile


@row("torch.compile(dynamic=True)")
def dynamic():
    for dynamic, expected in ((True, 1), (None, 2), (False, 4)):
        stator.reset()
        compiled = stator.compile(below, dynamic=dynamic)
        for n in (4, 5, 6, 7):
            assert torch.equal(compiled(torch.ones(n)), torch.ones(n) * 3)
        assert captures() == expected


@row("torch.compile(shapes_spec=...)")
def shapes_spec():
    from torch.fx.experimental.dynamic_spec import ShapesSpec, ShapeVar, TensorSpec

    n = ShapeVar("n", max=8)
    for compiler in (stator.compile, functools.partial(torch.compile, backend="eager")):
        compiled = compiler(
            lambda x: x * 2, shapes_spec=ShapesSpec({"x": TensorSpec([n, None])}, assumptions=[n % 2 == 0])
        )
        for size in (4, 0, 2, 8):
            assert compiled(torch.ones(size, 3)).shape == (size, 3)
        for size in (3, 10):
            with pytest.raises((stator.ConstraintViolation, RuntimeError, AssertionError)):
                compiled(torch.ones(size, 3))
    assert captures() == 1


@row("torch.compile(name=...)")
def name():
    with pytest.raises(stator.Unsupported, match="in my_step: "):
        stator.compile(frame_program(stator.graph_break), name="my_step", fullgraph=True)(x)
    with pytest.raises(stator.InvalidOption):
        stator.compile(below, name=3)


@row("torch.compile(recompile_limit=...)")
def own_recompile_limit():
    assert sizes_captured(stator.compile(below, recompile_limit=2, dynamic=False)) == 2
    with pytest.raises(stator.InvalidOption):
        stator.compile(below, recompile_limit=0)


@row("torch.compile(isolate_recompiles=True)")
def isolate_recompiles():
    one, other = (stator.compile(below, recompile_limit=3, isolate_recompiles=True, dynamic=False) for _ in range(2))
    assert sizes_captured(one) == 3 and sizes_captured(other) == 6
    with pytest.raises(stator.InvalidOption):
        stator.compile(below, isolate_recompiles=1)


def test_nothing_is_imported():
    program = """
        import sys, torch, stator
        def f(a):
            a = a * 2
            stator.graph_break()
            return a + 1
        compiled = stator.compile(f, name="g", recompile_limit=2, isolate_recompiles=True)
        compiled(torch.ones(3)), compiled(torch.ones(4))
        print([name for name in sys.modules if name.startswith("torch._dynamo")])
    """
    assert run_program(program) == "[]"
    assert "torch._dynamo" in sys.modules
