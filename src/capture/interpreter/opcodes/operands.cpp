#include "capture/interpreter/opcodes/operands.h"

namespace stator::capture {

std::vector<Value*> pop_many(Frame& f, int count) {
  std::vector<Value*> items(f.stack.end() - count, f.stack.end());
  f.stack.resize(f.stack.size() - count);
  for (Value*& item : items) item = f.read(item);
  return items;
}

bool is_iterable(Interpreter& in, Value* value) {
  PyTypeObject* type = in.type_of(value);
  return type->tp_iter || (type->tp_as_sequence && type->tp_as_sequence->sq_item);
}

Value* unpackable(Interpreter& in, Value* value) {
  if (!is_iterable(in, value))
    in.raise(PyExc_TypeError, std::string("cannot unpack non-iterable ") + in.type_of(value)->tp_name + " object");
  return value;
}

}  // namespace stator::capture
