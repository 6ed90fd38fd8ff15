"""Records of compilations, and what is added to them."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from pathlib import Path

import pytest
import torch

import stator
from stator import events, metrics, trace


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()
    metrics.reset_frame_count()
    metrics.clear()
    yield
    metrics.reset_user_contexts()
    metrics.set_limit(64)
    stator.reset()


def three_ops(x):
    return (x + 1).relu() * 2


def last() -> dict:
    return metrics.records()[-1]


class TestRecord:
    def test_identity(self):
        stator.compile(three_ops)(torch.ones(3))
        record = last()
        code = three_ops.__code__
        assert (record["co_name"], record["co_filename"], record["co_firstlineno"]) == (
            "three_ops",
            code.co_filename,
            code.co_firstlineno,
        )
        assert record["compile_id"] == "0/0" and record["frame_key"] == "1"
        assert record["stack_trace"][-1] == f"{code.co_filename}:{code.co_firstlineno}, in three_ops"
        assert record["stack_trace"][-2].endswith("in TestRecord.test_identity")

    def test_frames_of_stator_are_not_in_the_stack(self):
        stator.compile(three_ops, options={"shadow": 1})(torch.ones(3))
        inner = last()["stack_trace"][-2:]
        assert [line.rpartition(", in ")[2] for line in inner] == [
            "TestRecord.test_frames_of_stator_are_not_in_the_stack",
            "three_ops",
        ]

    def test_frames_and_recompilations_have_ids(self):
        f = stator.compile(three_ops, dynamic=False)
        f(torch.ones(3))
        f(torch.ones(4))
        stator.compile(lambda x: x + 1)(torch.ones(3))
        assert [record["compile_id"] for record in metrics.records()] == ["0/0", "0/1", "1/0"]

    def test_recompile_reason(self):
        f = stator.compile(three_ops, dynamic=False)
        f(torch.ones(2))
        assert last()["recompile_reason"] is None and last()["cache_size"] == 0
        f(torch.ones(3))
        reason = last()["recompile_reason"]
        assert all(part in reason for part in ("0/0", "x", "2", "3"))
        assert last()["cache_size"] == 1 and last()["accumulated_cache_size"] == 1
        assert last()["guard_latency_us"] > 0 and last()["guard_count"] > 0

    def test_graph(self):
        stator.compile(three_ops)(torch.ones(3))
        record = last()
        assert (record["graph_op_count"], record["graph_node_count"], record["graph_input_count"]) == (3, 5, 1)
        assert record["has_guarded_code"] is True and record["num_graph_breaks"] == 0 and record["is_forward"] is True
        assert record["graph_node_shapes"]["x"] == "(3,)" and len(record["graph_node_shapes"]) == 4
        assert record["ir_count"] > 5

    def test_symbolic_sizes(self):
        f = stator.compile(three_ops, dynamic=True)
        f(torch.ones(5))
        assert last()["graph_node_shapes"]["x"] == "(s0,)"

    def test_times(self):
        def breaks(x):
            y = x + 1
            print("")
            return y

        stator.compile(breaks)(torch.ones(3))
        first = metrics.records()[0]
        stages = ("capture_us", "guards_us", "plan_us", "backend_us", "before_restart_us")
        assert all(0 <= first[stage] <= first["duration_us"] for stage in stages)
        assert first["end_time_us"] >= first["start_time_us"]
        assert first["before_restart_us"] > 0 and first["attempts"] == 2
        assert any("print" in reason for reason in first["restart_reasons"])
        assert {span["name"] for span in first["spans"]} >= {"frame", "attempt", "build_guards"}
        assert first["break_id"] == "unknown_call" and first["break_lineno"] == breaks.__code__.co_firstlineno + 2

    def test_an_error_of_the_program(self):
        f = stator.compile(lambda x: x @ torch.ones(4, 4), fullgraph=True)
        with pytest.raises(RuntimeError):
            f(torch.ones(3, 3))
        record = last()
        assert record["fail_type"] == "RuntimeError" and "3x3 and 4x4" in record["fail_reason"]
        assert record["fail_user_frame_filename"] == __file__ and record["fail_user_frame_lineno"] > 0
        assert record["has_guarded_code"] is False and record["graph_op_count"] is None

    def test_a_break_that_is_an_error(self):
        def breaks(x):
            print("")
            return x + 1

        with pytest.raises(stator.Unsupported):
            stator.compile(breaks, fullgraph=True)(torch.ones(3))
        assert last()["fail_type"] == "stator.errors.Unsupported" and last()["has_guarded_code"] is False
        assert last()["fail_user_frame_lineno"] == breaks.__code__.co_firstlineno + 1

    def test_a_backend_that_fails(self):
        def backend(gm, inputs):
            raise ValueError("no such kernel")

        with pytest.raises(stator.BackendCompilerFailed):
            stator.compile(three_ops, backend=backend)(torch.ones(3))
        record = last()
        assert record["fail_type"] == "stator.errors.BackendCompilerFailed"
        assert "no such kernel" in record["fail_reason"] and "no such kernel" in record["exception_stack_trace"]
        assert record["has_guarded_code"] is False

    def test_settings_and_versions(self):
        with stator.config.patch(recompile_limit=5):
            stator.compile(three_ops)(torch.ones(3))
        settings = json.loads(last()["stator_config"])
        assert settings["recompile_limit"] == 5 and list(settings) == sorted(settings)
        assert set(settings) == set(stator.config.to_dict())
        assert last()["python_version"] == sys.version and last()["pytorch_version"] == torch.__version__
        assert isinstance(last()["log_format_version"], int)

    def test_parameters(self):
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(3))
                self.register_buffer("scale", torch.ones(3))

            def forward(self, x):
                return x * self.weight + self.scale

        stator.compile(Model())(torch.ones(3))
        assert (last()["param_numel"], last()["param_bytes"], last()["param_count"]) == (3, 12, 1)

    def test_floats_become_inputs(self):
        f = stator.compile(lambda x, scale: x * scale)
        for scale in (0.5, 0.25, 0.125, 0.75):
            f(torch.ones(3), scale)
        assert len(metrics.records()) == 2 and last()["float_inputs"] == 1

    def test_custom_operators(self):
        @torch.library.custom_op("observe_test::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        twice.register_fake(torch.empty_like)
        stator.compile(lambda x: twice(x) + 1)(torch.ones(3))
        assert last()["compliant_custom_ops"] == {"observe_test::twice"}

    def test_only_the_newest_are_kept(self):
        for _ in range(70):
            stator.compile(lambda x: x + 1)(torch.ones(2))
            stator.reset()
        assert len(metrics.records()) == 64
        keys = [record["frame_key"] for record in metrics.records()]
        metrics.set_limit(2)
        assert [record["frame_key"] for record in metrics.records()] == keys[-2:]
        metrics.clear()
        assert metrics.records() == []

    def test_every_field_is_known(self):
        stator.compile(three_ops)(torch.ones(3))
        assert set(last()) == set(metrics.fields())
        page = Path(__file__).parents[3] / "docs" / "observability.md"
        section = page.read_text().partition("## Records")[2].partition("## Callbacks")[0]
        rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(metrics.fields())


class TestInstructions:
    def test_only_while_the_setting_is_on(self):
        stator.compile(three_ops)(torch.ones(3))
        assert last()["cpu_instructions"] is None and "instructions" not in stator.counters()
        stator.reset()
        with stator.config.patch(count_instructions=True):
            stator.compile(three_ops)(torch.ones(3))
        counted = last()["cpu_instructions"]
        if stator._C.retired_instructions() is None:  # the kernel or the processor counts none
            assert counted is None and "instructions" not in stator.counters()
        else:
            assert counted > 1000 and stator.counters["instructions"]["compile"] >= counted
            stator.counters.clear()
            assert stator.counters["instructions"]["compile"] == 0


class TestCalls:
    def test_hits_and_misses(self):
        f = stator.compile(three_ops, dynamic=False)
        for size in (3, 3, 3, 4, 3):
            f(torch.ones(size))
        (row,) = metrics.calls()
        assert (row["hits"], row["misses"], row["entries"]) == (3, 2, 2)
        assert row["function"] == "three_ops" and row["line"] == three_ops.__code__.co_firstlineno
        assert row["guard_us"] > 0  # the second hit is timed
        stator.reset()
        assert metrics.calls() == []

    def test_a_continuation_counts_for_its_function(self):
        def f(x):
            x = x + 1
            print("", end="")
            return x * 2

        compiled = stator.compile(f)
        compiled(torch.ones(3))
        compiled(torch.ones(3))
        assert [(row["hits"], row["misses"]) for row in metrics.calls()] == [(2, 2)]


class TestCreate:
    def test_derived_fields(self):
        made = metrics.create({"start_time_us": 2_500_000, "guards_us": 1999, "compile_id": 7})
        assert made["start_time"] == 2.5 and made["guard_build_time_ms"] == 1 and made["compile_id"] == "7"
        assert made["backend_compile_time_s"] is None
        assert metrics.create({"start_time_us": 2_500_000, "start_time": 1.0})["start_time"] == 1.0

    def test_sets_become_text(self):
        made = metrics.create({"restart_reasons": {"b", "a"}, "non_compliant_ops": "abc"})
        assert made["restart_reasons"] == "a,b" and made["non_compliant_ops"] == "<unknown>"
        assert made["compliant_custom_ops"] is None

    def test_unknown_field(self):
        with pytest.raises(TypeError, match="zzz"):
            metrics.create({"zzz": 1})


def in_backend(action):
    """Runs `action` while something is compiled; the record of the compilation."""

    def backend(gm, inputs):
        action()
        return gm.forward

    stator.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
    return last()


class TestContext:
    def test_fields_of_a_compilation(self):
        def action():
            context = metrics.context()
            assert context.in_progress()
            context.set("scale", 8)
            context.increment("steps", 2)
            context.increment("steps", 3)
            context.add_to_set("kinds", "a")
            context.add_to_set("kinds", "a")
            context.set_key_value("sizes", "x", 1)
            context.set_key_value("sizes", "y", 2)
            for i in range(30):
                context.add_top_n("slow", f"k{i}", i)

        record = in_backend(action)
        assert record["scale"] == 8 and record["steps"] == 5 and record["kinds"] == {"a"}
        assert record["sizes"] == {"x": 1, "y": 2}
        assert list(record["slow"]) == [(f"k{i}", i) for i in range(29, 4, -1)]

    def test_set_once(self):
        def action():
            metrics.context().set("scale", 8)
            with pytest.raises(RuntimeError, match=r"(?s)'scale'.*test_metrics\.py.*in action\n"):
                metrics.context().set("scale", 9)
            with pytest.raises(RuntimeError, match="'scale'"):
                metrics.context().update({"other": 1, "scale": 9})
            metrics.context().set("scale", 10, overwrite=True)

        record = in_backend(action)
        assert record["scale"] == 10 and "other" not in record

    @pytest.mark.parametrize("name", ["kind", "payload", "compile_id", "v", "duration_us", "spans"])
    def test_reserved_names(self, tmp_path, name):
        """They would spoil the record, or its line of the trace."""
        context = metrics.context()

        def action():
            for write in (
                lambda: context.set(name, 1, overwrite=True),
                lambda: context.update({"other": 1, name: 1}),
                lambda: context.increment(name),
                lambda: context.add_to_set(name, "a"),
                lambda: context.set_key_value(name, "a", 1),
                lambda: events.compilation_metric(**{name: 1}),
            ):
                with pytest.raises(ValueError, match=f"'{name}' is reserved"):
                    write()
            with pytest.raises(ValueError, match="reserved"), stator.timed("mine", column="duration_us"):
                pass

        trace.start(tmp_path)
        record = in_backend(action)
        trace.stop()
        assert "other" not in record and record["duration_us"] > 1
        (line,) = [line for line in trace.read(tmp_path) if line["kind"] == "metrics"]
        assert line["compile_id"] == record["compile_id"] and line["duration_us"] == record["duration_us"]
        with context:  # not of a compilation
            context.set(name, 1)

    def test_outside(self):
        context = metrics.context()
        assert not context.in_progress()
        for write in (
            lambda: context.set("scale", 1),
            lambda: context.update({"scale": 1}),
            lambda: context.update_outer({"scale": 1}),
            lambda: context.increment("scale"),
            lambda: context.add_to_set("scale", "a"),
            lambda: context.set_key_value("scale", "a", 1),
        ):
            with pytest.raises(RuntimeError, match="'scale'"):
                write()
        context.add_top_n("scale", "a", 1)

    def test_blocks_nest_and_end_once(self):
        ended = []
        context = metrics.MetricsContext(lambda *args: ended.append(args))
        with context:
            context.set("a", 1)
            with context:
                context.update_outer({"b": 2})  # not the outermost
            context.update_outer({"c": 3})
        ((start, end, fields, kind, error),) = ended
        assert fields == {"a": 1, "c": 3} and kind is None and error is None and start <= end
        with pytest.raises(ValueError, match="body"), context:
            raise ValueError("body")
        assert ended[1][2] == {} and ended[1][3] is ValueError and str(ended[1][4]) == "body"

    def test_an_error_of_the_recorder_is_logged(self, caplog):
        def fails(*args):
            raise KeyError("zzz")

        with caplog.at_level(logging.ERROR, "stator"), metrics.MetricsContext(fails):
            pass
        assert "zzz" in caplog.text
        runtime = metrics.RuntimeMetricsContext(fails)
        runtime.increment("a_us", 1)
        runtime.finish()

    def test_one_per_thread(self):
        def other():
            assert metrics.context() is not here
            assert not metrics.context().in_progress()

        here = metrics.context()
        with here:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    def test_runtime_extras(self):
        ended = []
        context = metrics.RuntimeMetricsContext(lambda *args: ended.append(args[2]))
        context.increment("a_us", 1, {"x": None, "y": 1})
        context.increment("a_us", 2, {"y": 2})
        context.finish()
        context.finish()
        assert ended == [{"a_us": 3, "y": 1}]

    def test_features_and_passes(self):
        def action():
            metrics.set_feature_use("x", False)
            metrics.set_feature_use("x", True)
            metrics.log_pass("fuse", {"fused": 4})

        record = in_backend(action)
        assert record["feature_usage"] == {"x": True} and record["pass_log"] == {"fuse": {"fused": 4}}
        metrics.set_feature_use("x", True)
        metrics.log_pass("fuse", 1)

    def test_a_value_that_is_no_json(self):
        record = in_backend(lambda: metrics.context().set("f", len))
        assert "not JSON serializable" in record["f"]


class TestUserContexts:
    def test_text_is_cut(self):
        in_backend(lambda: None)
        assert last()["recompile_user_contexts"] is None
        remove = metrics.register_user_context(lambda: "e" * 300)
        stator.reset()
        assert in_backend(lambda: None)["recompile_user_contexts"] == {"e" * 256}
        remove()
        stator.reset()
        assert in_backend(lambda: None)["recompile_user_contexts"] is None

    def test_a_hook_that_raises(self, caplog):
        def fails():
            raise ValueError("no epoch")

        metrics.register_user_context(fails)
        metrics.register_user_context(lambda: "epoch 3")
        with caplog.at_level(logging.ERROR, "stator"):
            assert in_backend(lambda: None)["recompile_user_contexts"] == {"epoch 3"}
        assert "no epoch" in caplog.text

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
    def test_a_hook_that_ends_the_program(self, caplog, tmp_path, kind):
        """It does not: it is logged, and the other listeners are told."""

        def fails(*_):
            raise kind("no epoch")

        metrics.register_user_context(fails)
        stator.callbacks.on_start(fails)
        told = []
        stator.callbacks.on_start(told.append)
        trace.start(tmp_path)
        try:
            with caplog.at_level(logging.ERROR, "stator"):
                in_backend(lambda: None)
        finally:
            trace.stop()
            stator.callbacks.clear()
        assert caplog.text.count("no epoch") >= 2 and len(told) == 1
        assert [line["kind"] for line in trace.read(tmp_path)].count("metrics") == 1


class TestCompileId:
    @pytest.mark.parametrize("text", ["2/3", "0/0", "!4/2/3", "2/3_1"])
    def test_round_trip(self, text):
        assert str(metrics.CompileId.parse(text)) == text

    @pytest.mark.parametrize("text", ["x", "", "1", "1/2/3", "1/-2", "٣/٢"])
    def test_other_texts(self, text):
        with pytest.raises(ValueError, match=repr(text)):
            metrics.CompileId.parse(text)
