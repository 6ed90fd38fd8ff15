#pragma once

#include "capture/interpreter/interpreter.h"

/// Exceptions of the program: instances whose built-in part is the tuple `args`. They are raised, matched and read
/// inside the capture; one that leaves the captured frame ends it.
namespace stator::capture {

bool is_exception_class(PyTypeObject* type);
/// An instance as BaseException.__new__ makes it; no __init__ of the class runs.
ObjectValue* make_exception(Interpreter& in, PyTypeObject* type, std::vector<Value*> args);
/// What calling the class makes before __init__ runs; breaks for classes whose built-in part is more than args.
ObjectValue* new_exception(Interpreter& in, PyTypeObject* type, const CallArgs& args);
/// Whether the callable is __init__ of a built-in exception class that only stores args.
bool is_exception_init(PyObject* callable);
/// The exception of a real error that an operation on literals raised. Breaks if it holds anything else.
ObjectValue* from_real_exception(Interpreter& in, PyObject* exception);
/// Raises the current Python error, which an operation on literals set, in the program's own terms.
[[noreturn]] void raise_current(Interpreter& in);
/// What an operation on literals gave (taken over), as a value; null: the current Python error is raised.
Value* result_or_raise(Interpreter& in, PyObject* result);
/// A real exception with the same class and args, for its text; null if they are no literals.
Ref real_exception(Interpreter& in, ObjectValue* exception);

/// `raise exception from cause` (null: no `from`) in the frame that runs: links it with the exception being handled.
[[noreturn]] void raise_exception(Interpreter& in, Value* exception, Value* cause);
/// The exception being handled in the frame or one of its callers, or null.
Value* handled_exception(const Frame& frame);
/// The same for a program that looks at it: where its own frames handle none, the caller must not either, which is
/// guarded. Breaks where the caller does.
Value* visible_exception(Interpreter& in);
/// An attribute that the built-in exception classes describe; null if `name` is none.
Value* exception_field(Interpreter& in, ObjectValue* exception, PyObject* name);
/// Writes such an attribute; false if `name` is none.
bool set_exception_field(Interpreter& in, ObjectValue* exception, PyObject* name, Value* to);
/// What `except classes` decides.
bool exception_matches(Interpreter& in, Value* exception, Value* classes);
bool is_exception(Interpreter& in, Value* value, PyObject* type);
/// For reports.
std::string exception_text(Interpreter& in, Value* exception);
/// A traceback that nobody may look into.
Value* unseen_traceback(Interpreter& in);

}  // namespace stator::capture
