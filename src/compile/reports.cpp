#include "compile/reports.h"

#include "capture/call/plan_text.h"
#include "capture/call/signals.h"
#include "compile/phases.h"
#include "core/observe/record.h"

namespace stator {
using namespace capture;

namespace {

Ref& listener() {
  static Ref* made = new Ref;
  return *made;
}
Ref& log() {
  static Ref* made = new Ref;
  return *made;
}
Ref& recorder() {
  static Ref* made = new Ref;
  return *made;
}
GraphWrapper graph_wrapper = nullptr;

void put(PyObject* dict, const char* key, Ref value) {
  if (!value) {
    PyErr_Clear();
    value = Ref::borrow(Py_None);
  }
  PyDict_SetItemString(dict, key, value.get());
}
Ref text(const std::string& value) { return exact_str(value); }
Ref number(double value) { return Ref::steal(PyFloat_FromDouble(value)); }
Ref numbers(const std::vector<double>& values) {
  Ref list = Ref::steal(PyList_New(0));
  for (const double value : values) PyList_Append(list.get(), number(value).get());
  return list;
}
Ref integer(uint64_t value) { return Ref::steal(PyLong_FromUnsignedLongLong(value)); }
Ref texts(const std::vector<std::string>& values) {
  Ref list = Ref::steal(PyList_New(0));
  for (const std::string& value : values) PyList_Append(list.get(), text(value).get());
  return list;
}

/// Whether the Python error that is set is for the program, because a signal handler raised it. Another one is reported
/// as unraisable.
bool keep_error(PyObject* from) {
  if (is_raised_by_signal()) return true;
  PyErr_WriteUnraisable(from);
  return false;
}

/// Py_True or Py_False; null with a Python error set.
PyObject* log_is_wanted() {
  static PyObject* const wanted = PyUnicode_InternFromString("wanted");
  Ref kept = log();
  if (!kept) return Py_False;
  Ref answer = Ref::steal(PyObject_CallMethodNoArgs(kept.get(), wanted));
  if (!answer) return keep_error(kept.get()) ? nullptr : Py_False;
  return answer.get() == Py_True ? Py_True : Py_False;
}

/// Milliseconds by stage.
Ref describe_phases(const observe::CompilationRecord* record) {
  Ref dict = Ref::steal(PyDict_New());
  auto ms = [&](const observe::PhaseKind& kind) {
    return record ? static_cast<double>(record->us_of(kind)) / 1000 : 0;
  };
  const double interpret = ms(explore_phase), guards = ms(guards_phase), plan = ms(plan_phase),
               backend = ms(backend_phase);
  put(dict.get(), "interpret", number(interpret));
  put(dict.get(), "guards", number(guards));
  put(dict.get(), "plan", number(plan));
  put(dict.get(), "backend", number(backend));
  put(dict.get(), "total", number(interpret + guards + plan + backend));
  return dict;
}

}  // namespace

Ref describe_capture(PyCodeObject* code, const Entry& entry, const std::string& recompile_reason,
                     const std::vector<double>& guard_costs) {
  Ref record = Ref::steal(PyDict_New());
  put(record.get(), "function", text(text_of(code->co_qualname)));
  put(record.get(), "file", text(text_of(code->co_filename)));
  put(record.get(), "line", integer(code->co_firstlineno));
  put(record.get(), "code", Ref::borrow(reinterpret_cast<PyObject*>(code)));
  put(record.get(), "offset", integer(entry.offset));
  put(record.get(), "graph", entry.graph && graph_wrapper ? graph_wrapper(entry.graph) : Ref());
  put(record.get(), "ops", integer(entry.ops));
  put(record.get(), "guards", texts(entry.guards->describe()));
  put(record.get(), "slots", texts(entry.guards->slot_names()));
  put(record.get(), "plan", entry.plan ? texts(describe(*entry.plan)) : Ref());
  put(record.get(), "break_reason", entry.broke ? describe_break(*entry.broke) : Ref());
  put(record.get(), "phases", describe_phases(entry.record.get()));
  const std::optional<double> latency = entry.record ? entry.record->guard_latency_us : std::nullopt;
  put(record.get(), "guard_latency_us", latency ? number(*latency) : Ref());
  put(record.get(), "guard_costs_ns", guard_costs.empty() ? Ref() : numbers(guard_costs));
  put(record.get(), "compile_id", text(entry.id()));
  put(record.get(), "recompile_reason", recompile_reason.empty() ? Ref() : text(recompile_reason));
  std::vector<std::string> specialised;
  for (const Specialised& made : entry.specialised) specialised.push_back(made.text());
  put(record.get(), "specialised", texts(specialised));
  put(record.get(), "changed", texts(entry.changed));
  put(record.get(), "resumes", Ref::borrow(entry.runs_plain ? Py_False : Py_True));
  return record;
}

bool tell_listener(PyCodeObject* code, const Entry& entry, const std::string& recompile_reason, const GuardInput& input,
                   const std::function<void()>& check_guards) {
  PyObject* wanted = log_is_wanted();
  if (!wanted) return false;
  const bool is_logged = wanted == Py_True;
  if (!listener() && !is_logged) return true;
  observe::Phase reporting(report_phase);
  std::vector<double> guard_costs;
  if (is_logged) {
    check_guards();
    guard_costs = entry.guards->costs(input);
  }
  Ref record = describe_capture(code, entry, recompile_reason, guard_costs);
  for (const Ref& kept : {listener(), is_logged ? log() : Ref()}) {
    if (!kept) continue;
    Ref told = Ref::steal(PyObject_CallOneArg(kept.get(), record.get()));
    if (!told && keep_error(kept.get())) return false;
  }
  return true;
}

Ref set_failure_recorder(Ref fresh) { return std::exchange(recorder(), std::move(fresh)); }

void record_failure(PyObject* function, PyObject* const* arguments, size_t count, bool fullgraph) {
  if (!recorder()) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  Ref kept = recorder(), values = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(values.get(), static_cast<Py_ssize_t>(i), Ref::borrow(arguments[i]).release());
  PyObject* strict = fullgraph ? Py_True : Py_False;
  Ref told = Ref::steal(PyObject_CallFunctionObjArgs(kept.get(), value, function, values.get(), strict, nullptr));
  if (told || !keep_error(kept.get())) return PyErr_Restore(type, value, trace);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
}

Ref set_capture_listener(Ref fresh) { return std::exchange(listener(), std::move(fresh)); }
void set_capture_log(Ref fresh) { log() = std::move(fresh); }
void set_graph_wrapper(GraphWrapper wrapper) { graph_wrapper = wrapper; }

std::string break_cause(const BreakReason& reason) {
  return reason.detail.empty() ? break_title(reason.id) : break_title(reason.id) + (": " + reason.detail);
}

Ref describe_break(const BreakReason& reason) {
  Ref dict = Ref::steal(PyDict_New());
  put(dict.get(), "id", text(break_name(reason.id)));
  put(dict.get(), "text", text(break_cause(reason)));
  put(dict.get(), "hint", text(break_hint(reason.id)));
  Ref stack = Ref::steal(PyList_New(0));
  for (const StackLine& line : reason.stack) {
    Ref row = Ref::steal(Py_BuildValue("(sis)", line.file.c_str(), line.line, line.function.c_str()));
    PyList_Append(stack.get(), row.get());
  }
  if (!reason.stack.empty()) {
    put(dict.get(), "file", text(reason.stack.back().file));
    put(dict.get(), "line", integer(reason.stack.back().line));
    put(dict.get(), "function", text(reason.stack.back().function));
  }
  put(dict.get(), "stack", std::move(stack));
  return dict;
}

Ref describe_entry(const Entry& entry) {
  Ref dict = Ref::steal(PyDict_New());
  put(dict.get(), "id", text(entry.id()));
  put(dict.get(), "guards", texts(entry.guards->describe()));
  put(dict.get(), "hits", integer(entry.hits));
  put(dict.get(), "backend", text(entry.backend));
  put(dict.get(), "ops", integer(entry.ops));
  put(dict.get(), "graph", entry.graph && graph_wrapper ? graph_wrapper(entry.graph) : Ref());
  put(dict.get(), "break_reason", entry.broke ? describe_break(*entry.broke) : Ref());
  put(dict.get(), "phases", describe_phases(entry.record.get()));
  return dict;
}

}  // namespace stator
