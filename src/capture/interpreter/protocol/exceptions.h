#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Exceptions of the program: instances whose built-in part is the tuple `args`. They are raised, matched and read
/// inside the capture; one that leaves the captured frame ends the attempt.
namespace stator::capture {

bool is_exception_class(PyTypeObject* type);
/// An instance as BaseException.__new__ makes it; no __init__ of the class runs.
ObjectValue* make_exception(Interpreter& in, PyTypeObject* type, std::vector<Value*> args);
/// The instance before its __init__ runs. Breaks for classes whose built-in part is more than args.
ObjectValue* new_exception(Interpreter& in, PyTypeObject* type, const CallArgs& args);
/// Whether the callable is __init__ of a built-in exception class that only stores args.
bool is_exception_init(PyObject* callable);
/// The value of a real exception that an operation on literals raised. Breaks if it holds anything but literals.
ObjectValue* from_real_exception(Interpreter& in, PyObject* exception);
/// Raises the current Python error, which an operation on literals set, as an exception of the program.
[[noreturn]] void raise_current(Interpreter& in);
/// The result of an operation on literals (a new reference, taken over) as a value. If it is null: raises the current
/// Python error.
Value* result_or_raise(Interpreter& in, PyObject* result);
/// A real exception with the same class and args, for its text; null if they are not literals.
Ref real_exception(Interpreter& in, ObjectValue* exception);

/// `raise exception from cause` (null: no `from`) in the current frame: sets its context to the exception being
/// handled.
[[noreturn]] void raise_exception(Interpreter& in, Value* exception, Value* cause);
/// The exception being handled in the frame or one of its callers, or null.
Value* handled_exception(const Frame& frame);
/// The same for code that reads it (`sys.exc_info`). If the captured frames handle none, neither may their caller: that
/// is guarded. Breaks if the caller handles one.
Value* visible_exception(Interpreter& in);
/// An attribute that built-in exception classes define; null if `name` is none of these.
Value* exception_field(Interpreter& in, ObjectValue* exception, PyObject* name);
/// Writes such an attribute; false if `name` is none of these.
bool set_exception_field(Interpreter& in, ObjectValue* exception, PyObject* name, Value* to);
/// Whether `except classes` catches the exception.
bool exception_matches(Interpreter& in, Value* exception, Value* classes);
bool is_exception(Interpreter& in, Value* value, PyObject* type);
/// An attribute; null if the lookup raises AttributeError.
Value* attribute_or_null(Interpreter& in, Value* value, PyObject* name);
/// For reports.
std::string exception_text(Interpreter& in, Value* exception);
/// A traceback object whose contents are unknown: reading it is a break.
Value* unseen_traceback(Interpreter& in);

}  // namespace stator::capture
