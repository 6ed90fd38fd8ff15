#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Symbolic numbers: symbolic sizes of inputs, numbers that depend on the data of tensors (`x.item()`, sizes after a
/// mask), and what is computed from these. The graph computes them. An instruction that needs the value is a break.
namespace stator::capture {

/// The only element of a tensor, as `item()` gives it.
Value* tensor_number(Interpreter& in, TensorValue* tensor);
/// The integers in an input tensor of at most one dimension: an int, a bool or a tuple of ints, guarded. Null where the
/// attempt does not read them, or the tensor holds something else.
Value* known_integers(Interpreter& in, TensorValue* tensor);
/// The value of torch's object for a symbolic number; null for any other object.
Value* symbolic_number(Interpreter& in, PyObject* object);
/// The fake of the tensor without dimensions that holds a number.
PyObject* number_fake(Interpreter& in, NumberValue* number);
inline bool is_symbolic_number(const Value* value) { return value->kind == Kind::Number; }

/// A binary operator (a BinaryOp) of which at least one operand is a symbolic number.
Value* number_binary(Interpreter& in, int op, Value* a, Value* b);
Value* number_unary(Interpreter& in, pycompat::Op op, NumberValue* value);
/// A comparison (Py_LT ...). Null if the other operand never equals a number.
Value* number_compare(Interpreter& in, int op, Value* a, Value* b);
/// The operator of this name (shapes::op_name). Breaks if a graph can't compute Python's result.
Value* number_result(Interpreter& in, const char* op, Value* a, Value* b = nullptr);
/// int(), float() or bool() of a number or a tensor; null for anything else.
Value* number_conversion(Interpreter& in, const char* op, Value* value);
/// str(), repr() or format() of a number: a string that the plan makes.
Value* number_text(Interpreter& in, NumberValue* number, int conversion, Value* spec);
/// `text % values`, and `text.format(*values)`, where numbers are among the values: a string that the plan makes. Null
/// if there is no number, or the text may use it in another way than as text.
Value* percent_text(Interpreter& in, Value* text, Value* values);
Value* formatted_text(Interpreter& in, Value* text, const std::vector<Value*>& values);
/// str(), repr() or format() of a list, tuple or torch.Size of numbers and literals: likewise.
Value* sequence_text(Interpreter& in, SequenceValue* sequence, int conversion);
/// The concatenation of strings, of which the plan makes some.
Value* joined_text(Interpreter& in, const std::vector<Value*>& parts);

/// The torch.Size of these values. Breaks if one of them is not an int.
Value* size_of_numbers(Interpreter& in, std::vector<Value*> items);
/// The length of a tensor if it depends on data; null otherwise.
Value* symbolic_length(Interpreter& in, TensorValue* tensor);

/// The truth of a number, if facts about sizes decide it, or the sizes at capture do: then it is guarded.
std::optional<bool> number_truth(Interpreter& in, const Value* value);

/// The int that a symbolic number is for the sizes at capture, guarded, if that leaves the sizes in it more than one
/// value. Any other value is returned unchanged.
Value* with_known_value(Interpreter& in, Value* value);

/// Breaks: the value of a symbolic number, or of one in a text or a tuple, is needed now. If it follows from sizes of
/// inputs, the break names these, and the capture is made again with constants in their place.
[[noreturn]] void needs_number(Interpreter& in, const Value* value, const std::string& what);

}  // namespace stator::capture
