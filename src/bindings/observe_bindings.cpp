#include "bindings/observe_bindings.h"

#include <memory>
#include <vector>

#include "capture/pycompat/ref.h"
#include "capture/pycompat/text.h"
#include "compile/capture_report.h"
#include "compile/record_view.h"
#include "compile/reports.h"
#include "core/observe/clock.h"
#include "core/observe/counters.h"
#include "core/observe/events.h"
#include "core/observe/instructions.h"
#include "core/observe/phases.h"
#include "core/observe/record.h"

namespace stator::bindings {
namespace {
using namespace capture;

/// The text of a str argument; empty with a Python error set.
std::optional<std::string> text_argument(PyObject* object) {
  if (PyUnicode_Check(object)) return text_of(object);
  PyErr_SetString(PyExc_TypeError, "a str is needed");
  return {};
}

// ---- counters

/// counters() -> {group: {name: count}}
PyObject* counters(PyObject*, PyObject*) {
  Ref all = Ref::steal(PyDict_New());
  auto group_of = [&](const std::string& name) {
    Ref key = Ref::steal(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
    Ref fresh = Ref::steal(PyDict_New());
    return key && fresh ? PyDict_SetDefault(all.get(), key.get(), fresh.get()) : nullptr;
  };
  for (const char* group : {"frames", "captures", "breaks", "cache", "recompiles", "skips"})
    if (!group_of(group)) return nullptr;
  for (auto& [name, value] : observe::counts()) {
    const size_t dot = name.find('.');
    PyObject* group = group_of(name.substr(0, dot));
    Ref number = Ref::steal(PyLong_FromLongLong(value));
    if (!group || !number || PyDict_SetItemString(group, name.substr(dot + 1).c_str(), number.get()) < 0)
      return nullptr;
  }
  return all.release();
}

/// count(name, by=1) -> the new value
PyObject* count(PyObject*, PyObject* args) {
  PyObject* name;
  long long by = 1;
  if (!PyArg_ParseTuple(args, "U|L", &name, &by)) return nullptr;
  return PyLong_FromLongLong(observe::count(text_of(name), by));
}
PyObject* count_of(PyObject*, PyObject* name) {
  auto text = text_argument(name);
  return text ? PyLong_FromLongLong(observe::count_of(*text)) : nullptr;
}
PyObject* set_count(PyObject*, PyObject* args) {
  PyObject* name;
  long long value;
  if (!PyArg_ParseTuple(args, "UL", &name, &value)) return nullptr;
  observe::set_count(text_of(name), value);
  Py_RETURN_NONE;
}
PyObject* reset_counts(PyObject*, PyObject* group) {
  auto text = text_argument(group);
  if (!text) return nullptr;
  observe::reset_counts(*text);
  Py_RETURN_NONE;
}

// ---- phases

/// Phases that Python code of this thread has open, the innermost last.
std::vector<std::unique_ptr<observe::Phase>>& python_phases() {
  static thread_local std::vector<std::unique_ptr<observe::Phase>> open;
  return open;
}

/// begin_phase(name) -> how many are open now
PyObject* begin_phase(PyObject*, PyObject* name) {
  auto text = text_argument(name);
  if (!text) return nullptr;
  auto& open = python_phases();
  open.push_back(std::make_unique<observe::Phase>(observe::phase_kind(*text)));
  return PyLong_FromSize_t(open.size());
}
/// end_phase(number): ends the phase for which begin_phase returned it, and those inside that are still open.
PyObject* end_phase(PyObject*, PyObject* number) {
  const size_t wanted = PyLong_AsSize_t(number);
  if (PyErr_Occurred()) return nullptr;
  auto& open = python_phases();
  while (!open.empty() && open.size() >= wanted) open.pop_back();
  Py_RETURN_NONE;
}

/// phase_times() -> {name: (first seen, active, count, total ns, [ns])}
PyObject* phase_times(PyObject*, PyObject*) {
  Ref all = Ref::steal(PyDict_New());
  for (auto& [name, times] : observe::phase_times()) {
    Ref list = Ref::steal(PyList_New(0));
    for (int64_t ns : times.durations) {
      Ref number = Ref::steal(PyLong_FromLongLong(ns));
      if (!list || !number || PyList_Append(list.get(), number.get()) < 0) return nullptr;
    }
    Ref row =
        Ref::steal(Py_BuildValue("(LLLLO)", times.first_seen, times.active, times.count, times.total_ns, list.get()));
    if (!row || PyDict_SetItemString(all.get(), name.c_str(), row.get()) < 0) return nullptr;
  }
  return all.release();
}
PyObject* reset_phase_times(PyObject*, PyObject*) {
  observe::reset_phase_times();
  Py_RETURN_NONE;
}

/// retired_instructions() -> those of this thread so far, or None
PyObject* retired_instructions(PyObject*, PyObject*) {
  const std::optional<int64_t> count = observe::retired_instructions();
  if (!count) Py_RETURN_NONE;
  return PyLong_FromLongLong(*count);
}

// ---- records

PyObject* records(PyObject*, PyObject*) {
  Ref list = Ref::steal(PyList_New(0));
  for (auto& record : observe::records()) {
    Ref row = describe_record(*record);
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return list.release();
}
PyObject* clear_records(PyObject*, PyObject*) {
  observe::clear_records();
  Py_RETURN_NONE;
}
PyObject* record_limit(PyObject*, PyObject*) { return PyLong_FromSize_t(observe::record_limit()); }
PyObject* set_record_limit(PyObject*, PyObject* limit) {
  const size_t wanted = PyLong_AsSize_t(limit);
  if (PyErr_Occurred()) return nullptr;
  observe::set_record_limit(wanted);
  Py_RETURN_NONE;
}
/// open_record() -> (compile id, {name: JSON text}, event data as JSON text) of the innermost record that is open on
/// this thread, or None.
PyObject* open_record(PyObject*, PyObject*) {
  const observe::CompilationRecord* record = observe::open_record();
  if (!record) Py_RETURN_NONE;
  Ref extra = Ref::steal(PyDict_New());
  for (auto& [name, text] : record->extra) {
    Ref value = Ref::steal(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
    if (!extra || !value || PyDict_SetItemString(extra.get(), name.c_str(), value.get()) < 0) return nullptr;
  }
  return Py_BuildValue("(sOs)", record->compile_id.c_str(), extra.get(), record->event_args.c_str());
}
/// extend_record(name, JSON text): False if no record is open.
PyObject* extend_record(PyObject*, PyObject* args) {
  PyObject *name, *text;
  if (!PyArg_ParseTuple(args, "UU", &name, &text)) return nullptr;
  observe::CompilationRecord* record = observe::open_record();
  if (record) record->extra[text_of(name)] = text_of(text);
  return PyBool_FromLong(record != nullptr);
}
/// set_event_args(JSON object as text): False if no record is open.
PyObject* set_event_args(PyObject*, PyObject* args) {
  auto text = text_argument(args);
  if (!text) return nullptr;
  observe::CompilationRecord* record = observe::open_record();
  if (record) record->event_args = *std::move(text);
  return PyBool_FromLong(record != nullptr);
}
/// add_user_context(text): False if no record is open.
PyObject* add_user_context(PyObject*, PyObject* context) {
  auto text = text_argument(context);
  if (!text) return nullptr;
  observe::CompilationRecord* record = observe::open_record();
  if (record && !record->user_contexts) record->user_contexts.emplace();
  if (record) record->user_contexts->insert(*text);
  return PyBool_FromLong(record != nullptr);
}
PyObject* frame_count(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(observe::frame_count()); }
PyObject* reset_frame_count(PyObject*, PyObject*) {
  observe::reset_frame_count();
  Py_RETURN_NONE;
}
PyObject* frames(PyObject*, PyObject*) {
  Ref list = Ref::steal(PyList_New(0));
  for (const std::string& frame : observe::frames()) {
    Ref text = Ref::steal(PyUnicode_DecodeUTF8(frame.data(), static_cast<Py_ssize_t>(frame.size()), "replace"));
    if (!list || !text || PyList_Append(list.get(), text.get()) < 0) return nullptr;
  }
  return list.release();
}
PyObject* set_observer_to(PyObject*, PyObject* observer) {
  set_observer(observer == Py_None ? Ref() : Ref::borrow(observer));
  Py_RETURN_NONE;
}

// ---- events

/// add_event(name, kind, args, time_ns=-1, compile_id=""): `time_ns` since 1970; -1: now.
PyObject* add_event(PyObject*, PyObject* args) {
  PyObject *name, *compile_id = nullptr;
  const char *kind, *data;
  long long time = -1;
  if (!PyArg_ParseTuple(args, "Uss|LU", &name, &kind, &data, &time, &compile_id)) return nullptr;
  const int64_t now = observe::now_ns();
  observe::add_event(
      {text_of(name), kind[0], time < 0 ? now : time - observe::wall_ns(0), data, text_of(compile_id, "")});
  Py_RETURN_NONE;
}
/// events() -> ([(name, kind, ns since 1970, args, compile id, thread, process)], dropped)
PyObject* events(PyObject*, PyObject*) {
  uint64_t dropped = 0;
  Ref list = Ref::steal(PyList_New(0));
  for (const observe::Event& event : observe::events(&dropped)) {
    Ref row = Ref::steal(Py_BuildValue("(sCLssKL)", event.name.c_str(), event.kind, observe::wall_ns(event.time_ns),
                                       event.args.c_str(), event.compile_id.c_str(), event.thread, event.process));
    if (!list || !row || PyList_Append(list.get(), row.get()) < 0) return nullptr;
  }
  return Py_BuildValue("(OK)", list.get(), static_cast<unsigned long long>(dropped));
}
PyObject* clear_events(PyObject*, PyObject*) {
  observe::clear_events();
  Py_RETURN_NONE;
}
PyObject* request_events(PyObject*, PyObject* wanted) {
  observe::request_events(wanted == Py_True);
  Py_RETURN_NONE;
}
PyObject* records_events(PyObject*, PyObject*) { return PyBool_FromLong(observe::records_events()); }
PyObject* set_event_limit(PyObject*, PyObject* limit) {
  const size_t wanted = PyLong_AsSize_t(limit);
  if (PyErr_Occurred()) return nullptr;
  observe::set_event_limit(wanted);
  Py_RETURN_NONE;
}
PyObject* event_limit(PyObject*, PyObject*) { return PyLong_FromSize_t(observe::event_limit()); }

PyMethodDef observe_functions[] = {
    {"counters", counters, METH_NOARGS, nullptr},
    {"count", count, METH_VARARGS, nullptr},
    {"count_of", count_of, METH_O, nullptr},
    {"set_count", set_count, METH_VARARGS, nullptr},
    {"reset_counts", reset_counts, METH_O, nullptr},
    {"begin_phase", begin_phase, METH_O, nullptr},
    {"end_phase", end_phase, METH_O, nullptr},
    {"phase_times", phase_times, METH_NOARGS, nullptr},
    {"reset_phase_times", reset_phase_times, METH_NOARGS, nullptr},
    {"retired_instructions", retired_instructions, METH_NOARGS, nullptr},
    {"records", records, METH_NOARGS, nullptr},
    {"clear_records", clear_records, METH_NOARGS, nullptr},
    {"record_limit", record_limit, METH_NOARGS, nullptr},
    {"set_record_limit", set_record_limit, METH_O, nullptr},
    {"open_record", open_record, METH_NOARGS, nullptr},
    {"extend_record", extend_record, METH_VARARGS, nullptr},
    {"set_event_args", set_event_args, METH_O, nullptr},
    {"add_user_context", add_user_context, METH_O, nullptr},
    {"frame_count", frame_count, METH_NOARGS, nullptr},
    {"reset_frame_count", reset_frame_count, METH_NOARGS, nullptr},
    {"frames", frames, METH_NOARGS, nullptr},
    {"set_observer", set_observer_to, METH_O, nullptr},
    {"add_event", add_event, METH_VARARGS, nullptr},
    {"events", events, METH_NOARGS, nullptr},
    {"clear_events", clear_events, METH_NOARGS, nullptr},
    {"request_events", request_events, METH_O, nullptr},
    {"records_events", records_events, METH_NOARGS, nullptr},
    {"set_event_limit", set_event_limit, METH_O, nullptr},
    {"event_limit", event_limit, METH_NOARGS, nullptr},
    {},
};

}  // namespace

bool add_observe_bindings(PyObject* module) { return PyModule_AddFunctions(module, observe_functions) == 0; }

}  // namespace stator::bindings
