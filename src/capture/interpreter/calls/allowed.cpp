#include "capture/interpreter/calls/allowed.h"

#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/torch/overrides.h"

namespace stator::capture {

static bool is_allowed(const Marks& marks, const Frame* frame) {
  return frame->function && frame->function->function && marks.is_allowed(frame->function->function.get());
}

bool is_within_allowed(const Interpreter& in) {
  const Frame* f = in.frames.current();
  while (f && !is_allowed(in.marks, f)) f = f->caller;
  return f;
}

PyCodeObject* allowed_code(const Interpreter& in) {
  const Frame* f = in.frames.current();
  while (f->caller && !is_allowed(in.marks, f)) f = f->caller;
  return f->caller ? f->function->code : nullptr;
}

static Ref call_object(Interpreter& in, FunctionValue* function, const CallArgs& args) {
  Ref positional = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.positional.size())));
  for (size_t i = 0; i < args.positional.size(); ++i)
    PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), in.to_torch(args.positional[i]).release());
  Ref keywords = Ref::steal(PyDict_New());
  for (auto& [name, value] : args.keywords) PyDict_SetItem(keywords.get(), name.get(), in.to_torch(value).get());
  // Imported here, since few programs need it.
  Ref module = Ref::steal(PyImport_ImportModule("stator.allowed"));
  Ref maker = module ? Ref::steal(PyObject_GetAttrString(module.get(), "AllowedCall")) : Ref();
  if (!maker) return {};
  return Ref::steal(
      PyObject_CallFunctionObjArgs(maker.get(), function->function.get(), positional.get(), keywords.get(), nullptr));
}

static std::vector<PyObject*> items_of(PyObject* tuple) {
  std::vector<PyObject*> items;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) items.push_back(PyTuple_GET_ITEM(tuple, i));
  return items;
}

Value* try_as_node(Interpreter& in, FunctionValue* function, const CallArgs& args) {
  try {
    return call_as_node(in, function, args);
  } catch (const Break&) {
    in.end.node_failed = false;
    return nullptr;
  }
}

Value* call_as_node(Interpreter& in, FunctionValue* function, const CallArgs& args) {
  const std::string what = name_of(function->function.get());
  in.end.node_failed = true;
  if (in.frames.in_transform()) throw Break{BreakId::unknown_call, what + " inside of a transform"};
  if (has_active_mode(in) || is_overridden(in, args))
    throw Break{BreakId::unknown_call, what + ", and what it calls may be overridden"};
  // The function may read what the program has changed; a plan writes that back only when it ends.
  if (!in.effects.empty()) throw Break{BreakId::mutation, what + " after a change of something outside"};
  in.guards.add(function->source, FactKind::Identity, function->function.get());
  Ref call = call_object(in, function, args);
  if (!call) raise_current(in);
  in.torch.locate();
  Ref traced = in.torch.tracer.run_on_fakes([&] { return PyObject_CallMethod(call.get(), "trace", nullptr); });
  if (!traced) in.torch.fail(what.c_str());
  PyObject *result, *given, *made;
  if (!PyArg_ParseTuple(traced.get(), "OO!O!", &result, &PyTuple_Type, &given, &PyTuple_Type, &made)) raise_current(in);
  if (!in.torch.tracer.add_call(call.get(), items_of(given), made, CallNode::Lasting)) in.torch.fail(what.c_str());
  Value* value = in.wrap_result(result);
  in.end.node_failed = false;
  return value;
}

}  // namespace stator::capture
