#include "capture/interpreter/opcodes/operands.h"

namespace stator::capture {

std::vector<Value*> pop_many(Frame& f, int count) {
  std::vector<Value*> items(f.stack.end() - count, f.stack.end());
  f.stack.resize(f.stack.size() - count);
  for (Value*& item : items) item = f.read(item);
  return items;
}

Value* unpackable(Interpreter& in, Value* value) {
  PyTypeObject* type = in.type_of(value);
  if (!type->tp_iter && !(type->tp_as_sequence && type->tp_as_sequence->sq_item))
    throw Break{BreakId::raises, std::string("a ") + type->tp_name + " is unpacked"};
  return value;
}

}  // namespace stator::capture
