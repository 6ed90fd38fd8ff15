#include "capture/call/python_node.h"

#include <ATen/core/List.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <optional>
#include <vector>

#include "capture/call/gil.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

class HeldObject final : public c10::ivalue::PyObjectHolder {
 public:
  explicit HeldObject(Ref object) : object_(std::move(object)) {}
  ~HeldObject() override {
    // After the interpreter was finalized, objects cannot be freed any more.
    if (!Py_IsInitialized()) {
      object_.release();
    } else {
      WithGil gil;
      object_ = Ref();
    }
  }

  PyObject* getPyObject() override { return object_.get(); }
  c10::InferredType tryToInferType() override { return c10::InferredType("a Python object"); }
  c10::IValue toIValue(const c10::TypePtr&, std::optional<int32_t>) override {
    TORCH_CHECK(false, "a Python object in a graph cannot be converted to another type");
  }
  std::string toStr() override {
    WithGil gil;
    Ref text = Ref::steal(PyObject_Str(object_.get()));
    PyErr_Clear();
    return text_of(text.get());
  }
  std::vector<at::Tensor> extractTensors() override { return {}; }

 private:
  Ref object_;
};

void call_python(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  c10::List<at::Tensor> results;
  {
    WithGil gil;
    Ref callable = Ref::borrow(stack->back().toPyObjectHolder()->getPyObject());
    std::vector<Ref> tensors;
    std::vector<PyObject*> row;
    for (const at::Tensor& tensor : (*stack)[stack->size() - 2].toTensorVector()) {
      tensors.push_back(Ref::steal(THPVariable_Wrap(tensor)));
      row.push_back(tensors.back().get());
    }
    torch::jit::drop(*stack, 2);
    Ref made = Ref::steal(PyObject_Vectorcall(callable.get(), row.data(), row.size(), nullptr));
    if (!made) throw_python_error();
    TORCH_CHECK_TYPE(PyTuple_Check(made.get()), "the callable of a stator::call node must return a tuple");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(made.get(), i);
      TORCH_CHECK_TYPE(THPVariable_Check(item), "the callable of a stator::call node must return tensors");
      results.push_back(THPVariable_Unpack(item));
    }
  }
  stack->emplace_back(std::move(results));
}

/// Overloads of the operator, by CallNode.
struct NodeRow {
  const char *overload, *schema;
  std::vector<at::Tag> tags;
};
const NodeRow kNodes[] = {
    {"", "call(Tensor[] tensors, Any callable) -> Tensor[]", {}},
    {"random", "call.random(Tensor[] tensors, Any callable) -> Tensor[]", {at::Tag::nondeterministic_seeded}},
    {"writing", "call.writing(Tensor(a!)[] tensors, Any callable) -> Tensor[]", {at::Tag::nondeterministic_seeded}},
    {"lasting", "call.lasting(Tensor[] tensors, Any callable) -> Tensor[]", {at::Tag::nondeterministic_seeded}},
};

}  // namespace

void throw_python_error() {
  python_error error;
  error.persist();
  throw std::move(error);
}

void install_python_node() {
  // Never destroyed: graphs refer to the operator until the process ends.
  static auto* library = new torch::Library(torch::Library::FRAGMENT, "stator", std::nullopt, __FILE__, __LINE__);
  for (const NodeRow& row : kNodes) {
    library->def(row.schema, row.tags);
    const std::string_view schema = row.schema;
    library->impl(std::string(schema.substr(0, schema.find('('))).c_str(),
                  torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                                  torch::CppFunction::makeFromBoxedFunction<&call_python>()));
  }
}

const c10::OperatorHandle& python_node(CallNode kind) {
  static const auto ops = [] {
    std::vector<c10::OperatorHandle> found;
    for (const NodeRow& row : kNodes)
      found.push_back(c10::Dispatcher::singleton().findSchemaOrThrow("stator::call", row.overload));
    return found;
  }();
  return ops[static_cast<size_t>(kind)];
}

c10::IValue held_object(PyObject* object) {
  return c10::IValue(
      c10::intrusive_ptr<c10::ivalue::PyObjectHolder>(c10::make_intrusive<HeldObject>(Ref::borrow(object))));
}

}  // namespace stator::capture
