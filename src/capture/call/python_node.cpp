#include "capture/call/python_node.h"

#include <ATen/core/List.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/library.h>

#include <optional>
#include <vector>

namespace stator::capture {
namespace {

class WithGil {
 public:
  WithGil() : state_(PyGILState_Ensure()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

class HeldObject final : public c10::ivalue::PyObjectHolder {
 public:
  explicit HeldObject(Ref object) : object_(std::move(object)) {}
  ~HeldObject() override {
    // A graph that outlives the interpreter leaves its objects to the end of the process.
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
    TORCH_CHECK(false, "a Python object of a graph has no other form");
  }
  std::string toStr() override {
    WithGil gil;
    Ref text = Ref::steal(PyObject_Str(object_.get()));
    const char* chars = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    std::string copy = chars ? chars : "?";
    PyErr_Clear();
    return copy;
  }
  std::vector<at::Tensor> extractTensors() override { return {}; }

 private:
  Ref object_;
};

[[noreturn]] void throw_python_error() {
  python_error error;
  error.persist();
  throw std::move(error);
}

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
    TORCH_CHECK_TYPE(PyTuple_Check(made.get()), "a Python node of a graph must give a tuple");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(made.get()); ++i) {
      PyObject* item = PyTuple_GET_ITEM(made.get(), i);
      TORCH_CHECK_TYPE(THPVariable_Check(item), "a Python node of a graph must give tensors");
      results.push_back(THPVariable_Unpack(item));
    }
  }
  stack->emplace_back(std::move(results));
}

/// By CallNode.
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

void install_python_node() {
  // Lives as long as the process: graphs hold the operator.
  static auto* library = new torch::Library(torch::Library::FRAGMENT, "stator", std::nullopt, __FILE__, __LINE__);
  for (const NodeRow& row : kNodes) {
    library->def(row.schema, row.tags);
    const std::string_view schema = row.schema;
    library->impl(std::string(schema.substr(0, schema.find('('))).c_str(),
                  torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd,
                                  torch::CppFunction::makeFromBoxedFunction<&call_python>()));
  }
}

static GraphObject make_graph_object = nullptr;
void set_graph_object(GraphObject maker) { make_graph_object = maker; }
Ref graph_object(std::shared_ptr<graph::Graph> graph) { return make_graph_object(std::move(graph)); }

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
