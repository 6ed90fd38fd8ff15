#include "capture/interpreter/torch/input_sizes.h"

#include <algorithm>
#include <optional>

#include "capture/guards/shape_guards.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/interpreter/torch/assumptions.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/pycompat/facts.h"
#include "capture/pycompat/objects.h"
#include "capture/pycompat/text.h"

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

struct SizeMarks {
  uint64_t dynamic = 0, maybe = 0, constant = 0, unbacked = 0;
  std::vector<shapes::InputLayout::Bounds> bounds;  // by dimension; empty: none has bounds
};

/// An int attribute of a range that a mark states; empty for None.
std::optional<int64_t> bound_of(PyObject* range, const char* name) {
  const Ref bound = Ref::steal(PyObject_GetAttrString(range, name));
  int overflow = 0;
  const bool is_int = bound && PyLong_CheckExact(bound.get());
  const long long number = is_int ? PyLong_AsLongLongAndOverflow(bound.get(), &overflow) : 0;
  PyErr_Clear();
  return is_int && overflow == 0 ? std::optional<int64_t>(number) : std::nullopt;
}

/// The ranges of sizes that an attribute of the tensor, a set of objects with `dim`, `min` and `max`, states.
std::vector<shapes::InputLayout::Bounds> stated_bounds(PyObject* attributes, int64_t dims) {
  std::vector<shapes::InputLayout::Bounds> bounds;
  PyObject* ranges = PyDict_GetItemString(attributes, "_dynamo_dynamic_range");
  if (!ranges || !PyAnySet_Check(ranges)) return bounds;
  pycompat::SetCursor cursor(ranges);
  while (PyObject* range = cursor.next()) {
    const auto dim = bound_of(range, "dim"), low = bound_of(range, "min"), high = bound_of(range, "max");
    if (!dim || *dim < 0 || *dim >= dims || (!low && !high)) continue;
    bounds.resize(dims);
    shapes::InputLayout::Bounds& stated = bounds[*dim];
    stated.low = std::max(stated.low, low.value_or(INT64_MIN));
    stated.high = std::min(stated.high, high.value_or(INT64_MAX));
  }
  return bounds;
}

/// What the user marked on the tensor, by functions of torch or of stator.
SizeMarks marks_of(PyObject* tensor) {
  static PyObject* const any = PyUnicode_InternFromString("_has_dynamo_dim_marking");
  PyObject* attributes = nullptr;
  if (stator_instance_dict(tensor, &attributes) != kStatorDictObject || !stator_dict_get_str(attributes, any))
    return {};
  return {marked(attributes, "_dynamo_dynamic_indices"), marked(attributes, "_dynamo_weak_dynamic_indices"),
          marked(attributes, "_dynamo_static_indices"),
          marked(attributes, "_dynamo_unbacked_indices") | marked(attributes, "_dynamo_strict_unbacked_indices"),
          stated_bounds(attributes, dim_of(tensor))};
}

/// Keeps what the user marked, for messages. A stated range counts in any case.
void note_marks(Interpreter& in, const std::string& tensor, PyObject* real, const SizeMarks& marks) {
  for (int32_t dim = 0; dim < dim_of(real) && dim < 64; ++dim) {
    const bool is_strict = (marks.dynamic >> dim & 1) != 0;
    if (!is_strict && (marks.maybe >> dim & 1) == 0) continue;
    MarkedSize made{tensor, dim, is_strict, size_of(real, dim)};
    if (!marks.bounds.empty()) {
      made.low = marks.bounds[dim].low;
      made.high = marks.bounds[dim].high;
    }
    in.torch.marked.push_back(std::move(made));
  }
}

/// Lets the inputs of the guards refer to the sources that are returned, in place of the graph's inputs.
std::vector<Source*> refer_to_sources(Interpreter& in, ShapeGuards& guards) {
  std::vector<Source*> sources;
  std::vector<int32_t> places(in.torch.inputs.size(), -1);
  for (ShapeGuards::Input& input : guards.inputs) {
    int32_t& place = places[input.tensor];
    if (place < 0) {
      place = static_cast<int32_t>(sources.size());
      sources.push_back(in.torch.inputs[input.tensor]->source);
    }
    input.tensor = static_cast<uint32_t>(place);
  }
  return sources;
}

}  // namespace

/// The layout of a tensor of which the user's spec states all sizes.
static shapes::InputLayout layout_of_spec(Interpreter& in, const TensorValue* tensor) {
  PyObject* real = tensor->real.get();
  const uint64_t dims = in.start.spec()->dimensions(*tensor->source, dim_of(real));
  shapes::InputLayout layout = layout_of(real, dims, 0);
  for (int64_t dim = 0; !layout.is_static() && dim < dim_of(real); ++dim)
    layout.unbacked.push_back(dim < 64 && (dims >> dim & 1) != 0);
  return layout;
}

shapes::InputLayout symbolic_layout(Interpreter& in, const TensorValue* tensor) {
  PyObject* real = tensor->real.get();
  // The shape of a parameter is part of the model, unless the user says otherwise.
  const bool is_constant =
      tensor->layout || !TorchTracer::is_plain_class(tensor->type) ||
      (tensor->type == TorchTracer::parameter_type() && in.start.has_constant_sizes(*tensor->source));
  if (const ShapesSpec* spec = in.start.spec()) {
    const bool is_known = !tensor->layout && TorchTracer::is_plain_class(tensor->type);
    if (!is_known || !in.torch.tracer.takes_symbols() || !spec->has_tensor(*tensor->source)) return {};
    return layout_of_spec(in, tensor);
  }
  if (is_constant || !in.torch.tracer.takes_symbols()) return {};
  SizeMarks marks = marks_of(real);
  const std::string source = tensor->source->describe();
  note_marks(in, source, real, marks);
  const bool is_strict = in.start.marks_are_strict();
  uint64_t asked = marks.maybe | (is_strict ? 0 : marks.dynamic);
  for (int64_t dim = 0; dim < dim_of(real) && dim < 64; ++dim)
    if (in.start.is_asked_size(size_of(real, dim))) asked |= uint64_t{1} << dim;
  uint64_t dims = in.start.varying_sizes(*tensor->source, asked);
  // A size with the stronger mark is a symbol even where earlier captures needed its value: the user is told so.
  dims = (dims | (is_strict ? marks.dynamic : 0)) & ~marks.constant;
  marks.unbacked |= in.start.unbacked_sizes(*tensor->source);
  for (int64_t dim = 0; dim < 64; ++dim) {
    const uint64_t bit = uint64_t{1} << dim;
    if (dim >= dim_of(real)) marks.unbacked &= ~bit;
    // Sizes 0 and 1 decide how tensors broadcast, so that they are captured apart.
    if (dim >= dim_of(real) || size_of(real, dim) < 2) dims &= ~bit;
  }
  shapes::InputLayout layout = layout_of(real, dims | marks.unbacked, in.start.varying_strides(*tensor->source));
  if (layout.is_static()) return layout;
  layout.bounds = std::move(marks.bounds);
  for (int64_t dim = 0; marks.unbacked != 0 && dim < dim_of(real); ++dim)
    layout.unbacked.push_back(dim < 64 && (marks.unbacked >> dim & 1) != 0);
  return layout;
}

namespace {

/// Calls `take(dimension, value)` for each item of a dict that an attribute of the tensor holds.
template <class F>
void each_mark(PyObject* attributes, const char* name, int64_t dims, F&& take) {
  PyObject* marks = PyDict_GetItemString(attributes, name);
  Py_ssize_t position = 0;
  PyObject *key, *value;
  while (marks && PyDict_CheckExact(marks) && PyDict_Next(marks, &position, &key, &value)) {
    const int64_t dim = PyLong_CheckExact(key) ? PyLong_AsLongLong(key) : -1;
    PyErr_Clear();
    if (dim >= 0 && dim < dims) take(dim, value);
  }
}

/// A symbolic size of an input; null if it is a constant.
Value* symbolic_size(Interpreter& in, TensorValue* tensor, int64_t dim) {
  PyObject* fake = in.fake_of(tensor);
  Value* size =
      in.torch_result([&] { return PyObject_CallMethod(fake, "size", "L", static_cast<long long>(dim)); }, "size");
  return is_symbolic_number(size) ? size : nullptr;
}

void assume_truth(Interpreter& in, const char* op, Value* a, Value* b) {
  Value* truth = number_result(in, op, a, b);
  if (is_symbolic_number(truth) && !number_truth(in, truth)) assume(in, truth, true);
}

}  // namespace

void assume_marks(Interpreter& in, TensorValue* tensor) {
  PyObject *real = tensor->real.get(), *attributes = nullptr;
  if (stator_instance_dict(real, &attributes) != kStatorDictObject || !attributes) return;
  const int64_t dims = dim_of(real);
  each_mark(attributes, "_dynamo_unbacked_bounds", dims, [&](int64_t dim, PyObject* bounds) {
    Value* size = PyTuple_Check(bounds) && PyTuple_GET_SIZE(bounds) == 2 ? symbolic_size(in, tensor, dim) : nullptr;
    if (!size) return;
    for (int place : {0, 1})
      if (PyObject* bound = PyTuple_GET_ITEM(bounds, place); PyLong_CheckExact(bound))
        assume_truth(in, place == 0 ? "ge" : "le", size, in.constant(bound));
  });
  each_mark(attributes, "_dynamo_shape_ids", dims, [&](int64_t dim, PyObject* name) {
    Value* size = PyUnicode_CheckExact(name) ? symbolic_size(in, tensor, dim) : nullptr;
    if (!size) return;
    const auto [known, is_first] = in.torch.named_sizes.try_emplace(text_of(name), size);
    if (!is_first) assume_truth(in, "eq", size, known->second);
  });
}

namespace {

/// The value of an expression of a spec. Null if it is one of constants only, or of a slot that the capture did not
/// use.
Value* stated_value(Interpreter& in, PyObject* stated) {
  if (!PyTuple_Check(stated)) return in.constant(stated);
  const std::string name = text_of(PyTuple_GET_ITEM(stated, 0));
  if (name == "slot") {
    const auto found = in.torch.spec_slots.find(text_of(PyTuple_GET_ITEM(stated, 1)));
    return found == in.torch.spec_slots.end() ? nullptr : found->second;
  }
  const bool is_binary = PyTuple_GET_SIZE(stated) > 2;
  Value* a = stated_value(in, PyTuple_GET_ITEM(stated, 1));
  Value* b = is_binary ? stated_value(in, PyTuple_GET_ITEM(stated, 2)) : nullptr;
  if (!a || (is_binary && !b)) return nullptr;
  if (!is_symbolic_number(a) && !(b && is_symbolic_number(b))) return nullptr;
  return number_result(in, name.c_str(), a, b);
}

void assume_condition(Interpreter& in, PyObject* stated) {
  try {
    Value* truth = stated_value(in, stated);
    if (truth && is_symbolic_number(truth) && !number_truth(in, truth)) assume(in, truth, true);
  } catch (const Break&) {  // a graph can't compute it: then nothing is assumed
  }
}

}  // namespace

void assume_spec(Interpreter& in, const Source& source, const std::vector<Value*>& symbols) {
  if (!in.torch.spec_wiring)
    in.torch.spec_wiring = Ref::steal(PyObject_CallMethod(in.start.spec()->object(), "begin", nullptr));
  const std::string text = source.describe();
  const Ref due = in.torch.spec_wiring
                      ? Ref::steal(PyObject_CallMethod(in.torch.spec_wiring.get(), "bind", "s", text.c_str()))
                      : Ref();
  if (!due) throw Break{BreakId::internal, take_error_text()};
  const bool is_int = source.object && PyLong_Check(source.object.get());
  for (size_t dim = 0; dim < symbols.size(); ++dim)
    if (symbols[dim]) in.torch.spec_slots[is_int ? text : size_text(text, static_cast<int64_t>(dim))] = symbols[dim];
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(due.get()); ++i) assume_condition(in, PyList_GET_ITEM(due.get(), i));
}

void assume_spec(Interpreter& in, TensorValue* tensor) {
  const ShapesSpec* spec = in.start.spec();
  if (!spec || !spec->has_tensor(*tensor->source)) return;
  const int64_t dims = dim_of(tensor->real.get());
  const uint64_t varying = spec->dimensions(*tensor->source, dims);
  std::vector<Value*> symbols(dims);
  for (int64_t dim = 0; dim < dims && dim < 64; ++dim)
    if ((varying >> dim & 1) != 0) symbols[dim] = symbolic_size(in, tensor, dim);
  assume_spec(in, *tensor->source, symbols);
}

void find_size_guards(Interpreter& in) { in.torch.size_guards = in.torch.tracer.shape_guards(); }

void guard_sizes(Interpreter& in) {
  if (!in.torch.size_guards) return;
  auto guards = std::make_shared<ShapeGuards>(*in.torch.size_guards);
  std::vector<Source*> tensors = refer_to_sources(in, *guards);
  Fact fact{FactKind::Shapes, Ref(), Ref(), 0, in.frames.user_line()};
  Source* first = tensors.front();
  fact.group = std::make_shared<const std::vector<Source*>>(std::move(tensors));
  in.torch.added_size_guards = guards;
  fact.shapes = std::move(guards);
  in.guards.sources().add_fact(first, std::move(fact));
}

void renew_size_guards(Interpreter& in) {
  if (!in.torch.added_size_guards) return;
  find_size_guards(in);
  *in.torch.added_size_guards = *in.torch.size_guards;
  refer_to_sources(in, *in.torch.added_size_guards);
}

}  // namespace stator::capture
