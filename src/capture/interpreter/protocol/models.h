#pragma once

#include <span>

#include "capture/interpreter/protocol/interpreter.h"

/// Models: native implementations, over values, of C functions, methods and classes.
namespace stator::capture {

using Model = Value* (*)(Interpreter&, CallArgs&);

struct ModelRow {
  const char* path;  // e.g. "builtins.dict.get"
  Model model;
  // The number of positional arguments (including `self`), and the keywords: names separated by spaces, or "*". A call
  // that does not match breaks, so that the real function raises its own error.
  int least = 0, most = kAny;
  const char* keywords = "";
  // The function is Python code that handles `__torch_function__` itself: if an argument overrides it, that code is
  // interpreted instead of the model.
  bool asks = false;

  static constexpr int kAny = 1 << 20;
};

/// The row of a callable object, or null.
const ModelRow* model_of(PyObject* callable);
/// Runs a model if the call matches its row; otherwise throws Break{raises}.
Value* call_model(Interpreter& in, const ModelRow& row, CallArgs& args);

/// How a C callable without a model is handled:
///   Unknown    not called; a break.
///   Torch      called on fakes.
///   Pure       called on literals.
///   Ambient    changes ambient state that the capture tracks (grad mode, autocast).
///   Transform  as Torch, and may open or close a level of a transform.
///   Asked      reads state of the process or thread; a guard calls it again.
enum class CallableKind : uint8_t { Unknown, Torch, Pure, Ambient, Transform, Asked };
CallableKind kind_of_callable(PyObject* callable);
/// Whether it is a torch binding that a `__torch_function__` can override.
bool is_overridable(PyObject* callable);

}  // namespace stator::capture
