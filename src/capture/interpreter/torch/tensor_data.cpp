#include "capture/interpreter/torch/tensor_data.h"

#include <algorithm>

#include "capture/guards/literals.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/varying_numbers.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/symbolic_numbers.h"
#include "capture/interpreter/torch/warning_filters.h"

namespace stator::capture {
namespace {

constexpr int kDeepest = 16;  // torch accepts no deeper nesting

bool holds_parts(Interpreter& in, Value* data, int level = 0) {
  if (data->kind == Kind::Tensor || is_symbolic_number(graph_number(in, data))) return true;
  auto* sequence = level < kDeepest ? as_sequence(data) : nullptr;
  for (size_t i = 0; sequence && i < sequence->items.size(); ++i)
    if (holds_parts(in, in.item(sequence, i), level + 1)) return true;
  return false;
}

class Builder {
 public:
  /// `dtype`: null for the dtype that follows from the data.
  Builder(Interpreter& in, PyObject* dtype) : in_(in), given_(dtype) {}

  Value* build(Value* data) {
    find_dtype(data);
    return made(data);
  }

 private:
  [[noreturn]] static void refuse() {
    throw Break{BreakId::unknown_call, "torch.tensor of tensors with dimensions, or of other types"};
  }

  Ref dtype_of(Value* leaf) {
    static PyObject* const name = PyUnicode_InternFromString("dtype");
    if (auto* tensor = as<TensorValue>(leaf)) {
      if (!TorchTracer::has_no_dimensions(in_.fake_of(tensor))) refuse();
      return Ref::borrow(in_.constant_of(in_.get_attr(tensor, name)));
    }
    PyTypeObject* type = in_.type_of(leaf);
    if (type == &PyBool_Type) return Ref::borrow(known_object("torch.bool"));
    if (type == &PyLong_Type) return Ref::borrow(known_object("torch.int64"));
    if (type == &PyFloat_Type) return Ref::steal(PyObject_CallNoArgs(known_object("torch.get_default_dtype")));
    refuse();
  }

  void find_dtype(Value* data) {
    if (auto* sequence = as_sequence(data)) {
      for (size_t i = 0; i < sequence->items.size(); ++i) find_dtype(in_.item(sequence, i));
      return;
    }
    Ref next = dtype_of(data);
    found_ = found_ ? Ref::steal(PyObject_CallFunctionObjArgs(known_object("torch.promote_types"), found_.get(),
                                                              next.get(), nullptr))
                    : std::move(next);
    if (!found_) throw Break{BreakId::torch_error, take_error_text()};
  }

  static bool is_floating(PyObject* dtype) {
    Ref answer = Ref::steal(PyObject_GetAttrString(dtype, "is_floating_point"));
    return answer && answer.get() == Py_True;
  }

  Value* to(Value* tensor, PyObject* dtype) {
    return in_.call_torch(known_object("torch._C.TensorBase.to"), arguments({tensor, in_.constant(dtype)}));
  }

  Value* leaf(Value* data) {
    data = graph_number(in_, data);
    PyObject* wanted = given_ ? given_ : found_.get();
    Ref own = dtype_of(data);
    // Torch converts elements through Python numbers, without loss before the final conversion.
    Ref wider =
        Ref::steal(PyObject_CallFunctionObjArgs(known_object("torch.promote_types"), own.get(), wanted, nullptr));
    if (!wider || (wider.get() != wanted && !(is_floating(own.get()) && is_floating(wanted)))) {
      PyErr_Clear();
      refuse();
    }
    if (auto* tensor = as<TensorValue>(data)) {
      Value* detached = in_.call_torch(known_object("torch._C.TensorBase.detach"), arguments({tensor}));
      if (own.get() == wanted) return detached;
      return to(is_floating(wanted) ? to(detached, known_object("torch.float64")) : detached, wanted);
    }
    if (auto* number = as<NumberValue>(data)) return to(in_.wrap_result(number_fake(in_, number)), wanted);
    CallArgs full = arguments({in_.tuple({}), data});
    full.keywords.emplace_back(Ref::steal(PyUnicode_InternFromString("dtype")), in_.constant(wanted));
    return in_.call_torch(known_object("torch.full"), full);
  }

  Value* made(Value* data) {
    auto* sequence = as_sequence(data);
    if (!sequence) return leaf(data);
    std::vector<Value*> parts;
    size_t length = 0;
    for (size_t i = 0; i < sequence->items.size(); ++i) {
      Value* item = in_.item(sequence, i);
      auto* inner = as_sequence(item);
      const size_t count = inner ? inner->items.size() + 1 : 0;
      if (i > 0 && count != length) refuse();
      length = count;
      parts.push_back(made(item));
    }
    if (parts.empty()) refuse();
    return in_.call_torch(known_object("torch.stack"), arguments({in_.list(std::move(parts))}));
  }

  Interpreter& in_;
  PyObject* given_;
  Ref found_;
};

/// Records torch's warning about copying a tensor: each run of the graph warns at the current line.
void warn_of_copy(Interpreter& in) {
  // A user's backend may drop a node without results. The plan gives the program's own warnings after the graph.
  if (!in.options.may_assume || in.options.for_python_backend || has_warned(in))
    throw Break{BreakId::unknown_call, "a warning is given"};
  Ref line = Ref::steal(PyLong_FromLong(in.frames.current()->line));
  PyObject* code = reinterpret_cast<PyObject*>(in.frames.current()->code->code);
  Ref node = Ref::steal(PyObject_CallFunctionObjArgs(known_object("stator.functions.CopyWarning"), code, line.get(),
                                                     in.frames.current()->globals, nullptr));
  Ref nothing = Ref::steal(PyTuple_New(0));
  if (!node) throw Break{BreakId::unknown_call, take_error_text()};
  in.torch.locate();
  if (!in.torch.tracer.add_call(node.get(), {}, nothing.get(), CallNode::Random))
    throw Break{BreakId::no_shape_function, in.torch.tracer.failure()};
}

}  // namespace

Value* tensor_of_parts(Interpreter& in, const CallArgs& args) {
  if (args.positional.size() != 1 || !holds_parts(in, args.positional[0])) return nullptr;
  PyObject* dtype = nullptr;
  Value* device = nullptr;
  for (auto& [name, value] : args.keywords) {
    auto is = [&name = name](const char* text) { return PyUnicode_CompareWithASCIIString(name.get(), text) == 0; };
    PyObject* constant = in.constant_of(value);
    if (!constant || constant == Py_None || constant == Py_False) {
      if (!constant) throw Break{BreakId::unknown_call, "torch.tensor with a keyword that is not a constant"};
    } else if (is("dtype")) {
      dtype = constant;
    } else if (is("device")) {
      device = value;
    } else {
      throw Break{BreakId::unknown_call, "torch.tensor of a leaf that requires grad"};
    }
  }
  auto* source = as<TensorValue>(args.positional[0]);
  Value* made = nullptr;
  if (source) {
    warn_of_copy(in);
    static PyObject* const name = PyUnicode_InternFromString("dtype");
    CallArgs copy = arguments({in.call_torch(known_object("torch._C.TensorBase.detach"), arguments({source})),
                               dtype ? in.constant(dtype) : in.get_attr(source, name)});
    copy.keywords.emplace_back(Ref::steal(PyUnicode_InternFromString("copy")), in.boolean(true));
    made = in.call_torch(known_object("torch._C.TensorBase.to"), copy);
  } else {
    made = Builder(in, dtype).build(args.positional[0]);
    // The result must have its own memory; a stack of stacks would be a view.
    auto* rows = as_sequence(args.positional[0]);
    if (!rows || as_sequence(in.item(rows, 0)))
      made = in.call_torch(known_object("torch._C.TensorBase.clone"), arguments({made}));
  }
  return device ? in.call_torch(known_object("torch._C.TensorBase.to"), arguments({made, device})) : made;
}

}  // namespace stator::capture
