#include "capture/interpreter/torch/backward_reads.h"

#include "capture/interpreter/protocol/names.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

/// Follows a path from backward to an object that its code uses, as the interpreter would when it runs the code.
class Follower {
 public:
  Follower(Interpreter& in, FunctionValue* backward) : in_(in), backward_(backward) {}

  /// Guards that the path leads to this object. False if it leads elsewhere in the program so far.
  bool guard(PyObject* path, PyObject* expected) {
    Value* at = backward_;
    for (Py_ssize_t i = 0; at && i < PyTuple_GET_SIZE(path); ++i) {
      PyObject* step = PyTuple_GET_ITEM(path, i);
      at = follow(at, exact_text_of(PyTuple_GET_ITEM(step, 0)), PyTuple_GET_ITEM(step, 1));
    }
    return at && guard_object(at, expected);
  }

  bool guard_object(Value* value, PyObject* expected) {
    auto* function = as<FunctionValue>(value);
    if (!function) return in_.constant_of(value) == expected;
    if (!function->function) return true;  // the program makes it in each call
    if (function->function.get() != expected) return false;
    in_.guards.add(function->source, FactKind::Identity, expected);
    in_.guards.add(function->source, FactKind::Code, PyFunction_GET_CODE(expected),
                   reinterpret_cast<int64_t>(PyFunction_GET_GLOBALS(expected)));
    return true;
  }

 private:
  Value* follow(Value* at, const std::string& kind, PyObject* name) {
    if (kind == "attribute") return in_.get_attr(at, name);
    auto* function = as<FunctionValue>(at);
    if (!function) return nullptr;
    return kind == "cell" ? cell(function, name) : global(function, name);
  }

  Value* global(FunctionValue* function, PyObject* name) {
    Frame frame;
    frame.globals = function->globals;
    frame.globals_source = function->globals_source;
    frame.builtins = in_.frames.current()->builtins;
    return in_.load_global(frame, name);
  }

  Value* cell(FunctionValue* function, PyObject* name) {
    if (function->function) in_.open_closure(function);
    Ref names = Ref::steal(PyCode_GetFreevars(function->code));
    for (size_t i = 0; i < function->closure.size(); ++i)
      if (PyUnicode_Compare(PyTuple_GET_ITEM(names.get(), static_cast<Py_ssize_t>(i)), name) == 0)
        return load_cell(in_, function->closure[i]);
    return nullptr;
  }

  Interpreter& in_;
  FunctionValue* backward_;
};

}  // namespace

Ref guard_backward(Interpreter& in, Value* function, PyObject* type, PyObject* context) {
  static PyObject* const examine = known_object("stator.backward_code.examine");
  Ref found = Ref::steal(PyObject_CallFunctionObjArgs(examine, type, context, nullptr));
  if (!found) throw Break{BreakId::unknown_call, take_error_text()};
  if (PyUnicode_Check(found.get())) return found;
  PyObject* name = PyTuple_GET_ITEM(found.get(), 0);
  auto* backward = as<FunctionValue>(in.get_attr(function, name));
  Ref object = Ref::steal(PyObject_GetAttr(type, name));
  PyErr_Clear();
  const Ref changed = Ref::steal(PyUnicode_FromString("the program changed what it reads"));
  if (!backward || !object) return changed;
  Follower follower(in, backward);
  if (!follower.guard_object(backward, object.get())) return changed;
  PyObject* reads = PyTuple_GET_ITEM(found.get(), 1);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(reads); ++i) {
    PyObject* read = PyList_GET_ITEM(reads, i);
    if (!follower.guard(PyTuple_GET_ITEM(read, 0), PyTuple_GET_ITEM(read, 1))) return changed;
  }
  return Ref::steal(PyUnicode_FromString(""));
}

}  // namespace stator::capture
