#include "capture/guards/shape_guards.h"

#include "capture/guards/describe.h"
#include "capture/guards/tensor_expectation.h"

namespace stator::capture {

bool ShapeCheck::holds(PyObject* const* objects) const {
  constexpr size_t kOnStack = 32;
  const size_t count = guards->inputs.size();
  int64_t few[kOnStack];
  std::vector<int64_t> many(count > kOnStack ? count : 0);
  int64_t* sizes = count > kOnStack ? many.data() : few;
  for (size_t i = 0; i < count; ++i) {
    const ShapeGuards::Input& input = guards->inputs[i];
    PyObject* object = objects[slots[input.tensor]];
    int overflow = 0;
    sizes[i] = input.dim < 0     ? PyLong_AsLongLongAndOverflow(object, &overflow)
               : input.is_stride ? stride_of(object, input.dim)
                                 : size_of(object, input.dim);
    if (overflow != 0) return false;
  }
  return guards->program.holds(sizes);
}

std::string describe(const ShapeGuards& guards) {
  std::string text = "has sizes with ";
  for (const ShapeGuards::Text& row : guards.texts)
    text += (&row != guards.texts.data() ? ", " : "") + row.guard + at_line(row.line);
  text += guards.texts.empty() ? "" : "; ";
  for (const std::string& symbol : guards.symbols) text += (&symbol != guards.symbols.data() ? ", " : "") + symbol;
  return text;
}

}  // namespace stator::capture
