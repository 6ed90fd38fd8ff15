#include "capture/interpreter/torch/input_sizes.h"

#include "capture/guards/shape_guards.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/objects.h"

namespace stator::capture {
namespace {

/// The dimensions that an attribute of the tensor, a set of ints, names: a bit for each.
uint64_t marked(PyObject* attributes, const char* name) {
  PyObject* dims = PyDict_GetItemString(attributes, name);
  if (!dims || !PyAnySet_Check(dims)) return 0;
  uint64_t bits = 0;
  pycompat::SetCursor cursor(dims);
  while (PyObject* dim = cursor.next()) {
    const int64_t number = PyLong_CheckExact(dim) ? PyLong_AsLongLong(dim) : -1;
    if (number >= 0 && number < 64) bits |= uint64_t{1} << number;
  }
  PyErr_Clear();
  return bits;
}

struct Marked {
  uint64_t dynamic = 0, constant = 0;
};

/// What the user marked on the tensor, by functions of torch or of stator.
Marked marks_of(PyObject* tensor) {
  static PyObject* const any = PyUnicode_InternFromString("_has_dynamo_dim_marking");
  PyObject* attributes = nullptr;
  if (stator_instance_dict(tensor, &attributes) != kStatorDictObject || !stator_dict_get_str(attributes, any))
    return {};
  return {marked(attributes, "_dynamo_dynamic_indices") | marked(attributes, "_dynamo_weak_dynamic_indices"),
          marked(attributes, "_dynamo_static_indices")};
}

/// The guards, with inputs that refer to `tensors`, which is filled. Null if no size is symbolic.
std::shared_ptr<ShapeGuards> guards_of(Interpreter& in, std::vector<Source*>& tensors) {
  std::shared_ptr<ShapeGuards> guards = in.torch.tracer.shape_guards();
  if (!guards) return nullptr;
  std::vector<int32_t> places(in.torch.inputs.size(), -1);
  for (ShapeGuards::Input& input : guards->inputs) {
    int32_t& place = places[input.tensor];
    if (place < 0) {
      place = static_cast<int32_t>(tensors.size());
      tensors.push_back(in.torch.inputs[input.tensor]->source);
    }
    input.tensor = static_cast<uint32_t>(place);
  }
  return guards;
}

}  // namespace

shapes::InputLayout symbolic_layout(Interpreter& in, const TensorValue* tensor) {
  PyObject* real = tensor->real.get();
  // The shape of a parameter is part of the model.
  const bool is_constant = tensor->layout || tensor->type != TorchTracer::tensor_type();
  if (is_constant || !in.torch.tracer.takes_symbols()) return {};
  const Marked marks = marks_of(real);
  uint64_t dims = in.start.varying_sizes(tensor->source->describe(), marks.dynamic) & ~marks.constant;
  for (int64_t dim = 0; dim < 64; ++dim)
    // Sizes 0 and 1 decide how tensors broadcast, so that they are captured apart.
    if (dim >= dim_of(real) || size_of(real, dim) < 2) dims &= ~(uint64_t{1} << dim);
  return layout_of(real, dims);
}

void guard_sizes(Interpreter& in) {
  std::vector<Source*> tensors;
  std::shared_ptr<ShapeGuards> guards = guards_of(in, tensors);
  if (!guards) return;
  Fact fact{FactKind::Shapes, Ref(), Ref(), 0, in.frames.user_line()};
  Source* first = tensors.front();
  fact.group = std::make_shared<const std::vector<Source*>>(std::move(tensors));
  in.torch.size_guards = guards;
  fact.shapes = std::move(guards);
  in.guards.sources().add_fact(first, std::move(fact));
}

void renew_size_guards(Interpreter& in) {
  std::vector<Source*> tensors;
  if (in.torch.size_guards) *in.torch.size_guards = *guards_of(in, tensors);
}

}  // namespace stator::capture
