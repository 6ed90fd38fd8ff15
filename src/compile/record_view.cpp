#include "compile/record_view.h"

#include "compile/phases.h"
#include "core/observe/clock.h"

namespace stator {
namespace {

using Texts = std::set<std::string>;

Ref view(const std::string& value) {
  return Ref::steal(PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace"));
}
Ref view(int64_t value) { return Ref::steal(PyLong_FromLongLong(value)); }
Ref view(double value) { return Ref::steal(PyFloat_FromDouble(value)); }
Ref view(bool value) { return Ref::steal(PyBool_FromLong(value)); }
template <class List>
Ref view_list(const List& values) {
  Ref list = Ref::steal(PyList_New(0));
  for (const std::string& value : values)
    if (Ref item = view(value); !list || !item || PyList_Append(list.get(), item.get()) < 0) return {};
  return list;
}
Ref view(const std::vector<std::string>& values) { return view_list(values); }
Ref view(const Texts& values) {
  Ref list = view_list(values);
  return list ? Ref::steal(PySet_New(list.get())) : Ref();
}
template <class T>
Ref view(const std::optional<T>& value) {
  return value ? view(*value) : Ref::borrow(Py_None);
}
/// Empty text means that there is none.
Ref view_or_none(const std::string& text) { return text.empty() ? Ref::borrow(Py_None) : view(text); }
Ref line_or_none(int64_t line) { return line > 0 ? view(line) : Ref::borrow(Py_None); }

/// A dict that is filled; null after a failure.
class DictMaker {
 public:
  DictMaker() : dict_(Ref::steal(PyDict_New())) {}
  void put(const char* name, Ref value) {
    if (dict_ && (!value || PyDict_SetItemString(dict_.get(), name, value.get()) < 0)) dict_ = Ref();
  }
  Ref take() { return std::move(dict_); }

 private:
  Ref dict_;
};

/// None if the graph is gone with its entry.
Ref view_shapes(const observe::CompilationRecord& record) {
  const std::shared_ptr<const void> graph = record.graph.lock();
  if (!graph) return Ref::borrow(Py_None);
  DictMaker shapes;
  for (auto& [name, text] : shapes_of(*static_cast<const graph::Graph*>(graph.get())))
    shapes.put(name.c_str(), view(text));
  return shapes.take();
}

Ref view_spans(const observe::CompilationRecord& record) {
  Ref list = Ref::steal(PyList_New(0));
  for (const observe::Span& span : record.spans) {
    DictMaker row;
    row.put("name", view(span.kind->name()));
    row.put("start_us", view((span.start_ns - record.start_ns) / 1000));
    row.put("duration_us", view((span.end_ns - span.start_ns) / 1000));
    row.put("depth", view(int64_t{span.depth}));
    row.put("number", view(int64_t{span.number}));
    Ref made = row.take();
    if (!list || !made || PyList_Append(list.get(), made.get()) < 0) return {};
  }
  return list;
}

void put_identity(DictMaker& to, const observe::CompilationRecord& r) {
  to.put("compile_id", view(r.compile_id));
  to.put("frame_key", view(std::to_string(r.frame_key)));
  to.put("co_name", view(r.name));
  to.put("co_qualname", view(r.qualified_name));
  to.put("co_filename", view(r.file));
  to.put("co_firstlineno", view(r.line));
  to.put("backend", view(r.backend));
  to.put("stack_trace", view(r.stack));
  to.put("cache_size", view(r.cache_size));
  to.put("accumulated_cache_size", view(r.accumulated_cache_size));
  to.put("guard_count", view(r.guard_count));
  to.put("shape_guard_count", view(r.shape_guard_count));
  to.put("guard_latency_us", view(r.guard_latency_us));
  to.put("recompile_reason", view_or_none(r.recompile_reason));
  to.put("recompile_user_contexts", view(r.user_contexts));
}

void put_graph(DictMaker& to, const observe::CompilationRecord& r) {
  to.put("graph_op_count", view(r.op_count));
  to.put("graph_node_count", view(r.node_count));
  to.put("graph_input_count", view(r.input_count));
  to.put("graph_node_shapes", view_shapes(r));
  to.put("num_graph_breaks", view(r.breaks));
  to.put("break_id", view_or_none(r.break_id));
  to.put("break_reason", view_or_none(r.break_reason));
  to.put("break_filename", view_or_none(r.break_file));
  to.put("break_lineno", line_or_none(r.break_line));
  to.put("ir_count", view(r.instructions));
  to.put("has_guarded_code", view(r.has_code));
  to.put("is_forward", view(r.is_forward));
  to.put("param_count", view(r.param_count));
  to.put("param_numel", view(r.param_numel));
  to.put("param_bytes", view(r.param_bytes));
  to.put("compliant_custom_ops", view(r.custom_ops));
  to.put("non_compliant_ops", view(r.refused_ops));
  to.put("float_inputs", view(r.float_inputs));
  to.put("symbolic_sizes", view(r.symbolic_sizes));
  to.put("fixed_numbers", view(r.fixed_numbers));
}

void put_times(DictMaker& to, const observe::CompilationRecord& r) {
  const int64_t end = r.end_ns ? r.end_ns : observe::now_ns();
  to.put("start_time_us", view(observe::wall_ns(r.start_ns) / 1000));
  to.put("end_time_us", view(observe::wall_ns(end) / 1000));
  to.put("duration_us", view((end - r.start_ns) / 1000));
  to.put("capture_us", view(r.us_of(explore_phase)));
  to.put("guards_us", view(r.us_of(guards_phase)));
  to.put("plan_us", view(r.us_of(plan_phase)));
  to.put("backend_us", view(r.us_of(backend_phase)));
  to.put("before_restart_us", view(r.before_restart_ns / 1000));
  to.put("logging_us", view(r.us_of(report_phase)));
  to.put("cpu_instructions", view(r.cpu_instructions));
  to.put("spans", view_spans(r));
  to.put("spans_dropped", view(static_cast<int64_t>(r.spans_dropped)));
}

void put_failure(DictMaker& to, const observe::CompilationRecord& r) {
  to.put("fail_type", view_or_none(r.fail_type));
  to.put("fail_reason", view_or_none(r.fail_reason));
  to.put("fail_user_frame_filename", view_or_none(r.fail_file));
  to.put("fail_user_frame_lineno", line_or_none(r.fail_line));
  to.put("exception_stack_trace", view_or_none(r.fail_stack));
  to.put("attempts", view(r.attempts));
  to.put("restart_reasons", view(r.restart_reasons));
}

}  // namespace

Ref describe_record(const observe::CompilationRecord& record) {
  DictMaker made;
  put_identity(made, record);
  put_graph(made, record);
  put_times(made, record);
  put_failure(made, record);
  made.put("is_runtime", view(false));
  made.put("log_format_version", view(int64_t{observe::kRecordVersion}));
  DictMaker extra;  // JSON texts
  for (auto& [name, text] : record.extra) extra.put(name.c_str(), view(text));
  made.put("extra", extra.take());
  made.put("stator_config", view(record.config));
  return made.take();
}

}  // namespace stator
