#pragma once

#include "capture/interpreter/interpreter.h"

/// Numbers of the program that depend on the data of tensors: `x.item()`, sizes of what a mask picks, and what is
/// computed of them. The graph computes them; where the program needs to know one, the capture breaks there.
namespace stator::capture {

/// The one element of a tensor, as `item()` gives it.
Value* tensor_number(Interpreter& in, TensorValue* tensor);
/// The value of torch's object for a symbolic number; null for any other object.
Value* symbolic_number(Interpreter& in, PyObject* object);
/// The fake of the tensor that holds a number: an output of the graph, and an operand in a tensor's place.
PyObject* number_fake(Interpreter& in, NumberValue* number);
inline bool is_number(const Value* value) { return value->kind == Kind::Number; }

/// Python's operators, of which at least one operand is such a number. `op` as CPython numbers them.
Value* number_binary(Interpreter& in, int op, Value* a, Value* b);
Value* number_unary(Interpreter& in, pycompat::Op op, NumberValue* value);
/// Null where the other operand is equal to no number.
Value* number_compare(Interpreter& in, int op, Value* a, Value* b);
/// By the names of shapes::op_name. Breaks where Python's result cannot be computed by a graph.
Value* number_result(Interpreter& in, const char* op, Value* a, Value* b = nullptr);
/// int(), float() or bool() of a number or a tensor; null for anything else.
Value* number_conversion(Interpreter& in, const char* op, Value* value);
/// str(), repr() or format() of a number: a string that is made when the plan ends.
Value* number_text(Interpreter& in, NumberValue* number, int conversion, Value* spec);
/// Strings, of which some are not made yet, one after the other.
Value* joined_text(Interpreter& in, const std::vector<Value*>& parts);

/// The length of a tensor whose size depends on data; null where it does not.
Value* symbolic_length(Interpreter& in, TensorValue* tensor);

[[noreturn]] void needs_number(const std::string& what);

}  // namespace stator::capture
