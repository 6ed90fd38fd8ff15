#include "core/tracer/tracer.h"

#include <ATen/core/List.h>
#include <torch/library.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/pointer_map.h"
#include "core/graph/exec_state.h"
#include "core/tracer/numbers.h"

namespace stator::tracer {

using graph::Argument;
using graph::kNoValue;
using graph::ValueId;

namespace {

constexpr auto kModeKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
thread_local Tracer* current = nullptr;

[[noreturn]] void refuse(const c10::OperatorHandle& op, const std::string& why) {
  auto reason = c10::toString(op.operator_name()) + ": " + why;
  fake::poison(reason);
  throw fake::Unsupported(reason);
}

bool is_plain_constant(const c10::IValue& v) {
  return v.isInt() || v.isNone() || v.isBool() || v.isDouble() || v.isIntList() || v.isString() || v.isDevice() ||
         v.isComplexDouble() || v.isDoubleList() || v.isBoolList() || v.isComplexDoubleList();
}

const char* why_unknown(const at::Tensor& tensor) {
  auto keys = tensor.key_set();
  if (keys.has(c10::DispatchKey::FuncTorchBatched) || keys.has(c10::DispatchKey::FuncTorchGradWrapper) ||
      keys.has(c10::DispatchKey::Functionalize)) {
    return "a functorch or functionalization wrapper as argument";
  }
  if (fake::is_fake(tensor)) return "a fake tensor that no recorded op made";
  return "a tensor that is not an input of the graph";
}

}  // namespace

struct Tracer::Impl {
  std::shared_ptr<graph::Graph> graph = std::make_shared<graph::Graph>();
  fake::FakeMode fakes;
  PointerMap<ValueId> ids;       // by TensorImpl
  std::vector<at::Tensor> kept;  // tensors whose address is or was in `ids` and that are no value of the graph
  Numbers numbers;
  uint32_t location = 0;
  uint32_t state = 0;
  uint32_t region = 0;

  uint32_t current_state() {
    if (!is_current(graph->states[state])) state = graph->intern_state(graph::current_state(region));
    return state;
  }

  void know(const at::Tensor& fake, ValueId id) { ids.set(fake.unsafeGetTensorImpl(), id); }

  ValueId find(const at::Tensor& tensor) const {
    const ValueId* found = ids.find(tensor.unsafeGetTensorImpl());
    return found ? *found : kNoValue;
  }

  Argument argument(const c10::OperatorHandle& op, const c10::IValue& value);
  Argument tensor_argument(const c10::OperatorHandle& op, const at::Tensor& tensor);
  ValueId result_value(const c10::OperatorHandle& op, uint32_t node, const at::Tensor& tensor);
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void record(const c10::OperatorHandle& op, std::vector<Argument> args, const torch::jit::Stack& stack);
  void record_results(const c10::OperatorHandle& op, uint32_t index, at::ArrayRef<c10::IValue> returns);
  void rollback(size_t mark);
};

Argument Tracer::Impl::tensor_argument(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  if (!tensor.defined()) return Argument::of_constant(tensor);
  if (auto id = find(tensor); id != kNoValue) return Argument::of_value(id);
  // A Python number in a tensor's place is passed as a fresh tensor that type promotion treats as a number.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !fake::is_fake(tensor)) {
    return Argument::of_constant(numbers.shared(tensor));
  }
  refuse(op, why_unknown(tensor));
}

Argument Tracer::Impl::argument(const c10::OperatorHandle& op, const c10::IValue& value) {
  if (value.isTensor()) return tensor_argument(op, value.toTensor());
  if (is_plain_constant(value)) return Argument::of_constant(value);
  if (value.isTensorList()) {
    std::vector<Argument> items;
    auto list = value.toTensorList();
    items.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) items.push_back(tensor_argument(op, list.get(i)));
    return Argument::of_list(std::move(items));
  }
  if (value.isOptionalTensorList()) {
    std::vector<Argument> items;
    for (const c10::IValue& item : value.toListRef()) {
      items.push_back(item.isNone() ? Argument::of_constant(item) : tensor_argument(op, item.toTensor()));
    }
    return Argument::of_list(std::move(items));
  }
  if (value.isList()) {
    auto items = value.toListRef();
    if (std::all_of(items.begin(), items.end(), is_plain_constant)) return Argument::of_constant(value);
  }
  refuse(op, "an argument of kind " + value.tagKind());
}

ValueId Tracer::Impl::result_value(const c10::OperatorHandle& op, uint32_t node, const at::Tensor& tensor) {
  if (!tensor.defined()) return kNoValue;
  if (auto id = find(tensor); id != kNoValue) return id;
  if (!fake::is_fake(tensor)) refuse(op, "a result that is not a fake tensor");
  auto id = graph->add_result_value(node, tensor);
  know(tensor, id);
  return id;
}

void Tracer::Impl::record(const c10::OperatorHandle& op, std::vector<Argument> args, const torch::jit::Stack& stack) {
  const auto& schema = op.schema();
  auto returns = torch::jit::last(stack, schema.returns().size());
  auto is_tensors = [](const c10::IValue& v) { return v.isTensor() || v.isTensorList(); };
  // A question about metadata: the answer is a constant of the trace.
  if (!returns.empty() && std::none_of(returns.begin(), returns.end(), is_tensors) && !schema.is_mutable()) return;

  auto index = static_cast<uint32_t>(graph->nodes.size());
  auto& node = graph->add_node(op);
  node.args = std::move(args);
  node.state = current_state();
  node.location = location;
  try {
    record_results(op, index, returns);
  } catch (...) {
    rollback(index);
    throw;
  }
}

void Tracer::Impl::record_results(const c10::OperatorHandle& op, uint32_t index, at::ArrayRef<c10::IValue> returns) {
  auto& results = graph->nodes[index].results;
  results.reserve(returns.size());
  for (const auto& value : returns) {
    auto& result = results.emplace_back();
    if (value.isTensor()) {
      result.values.push_back(result_value(op, index, value.toTensor()));
    } else if (value.isTensorList()) {
      result.is_list = true;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        result.values.push_back(result_value(op, index, tensor));
      }
    } else {
      result.values.push_back(kNoValue);
    }
  }
}

void Tracer::Impl::call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (op.operator_name().name.starts_with("profiler::")) return op.redispatchBoxed(keys, stack);
  if (c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) {
    refuse(op, "called under a functorch transform");
  }
  std::vector<Argument> args;
  auto given = torch::jit::last(*stack, op.schema().arguments().size());
  args.reserve(given.size());
  for (const auto& value : given) args.push_back(argument(op, value));
  op.redispatchBoxed(keys, stack);
  record(op, std::move(args), *stack);
}

void Tracer::Impl::rollback(size_t mark) {
  auto& nodes = graph->nodes;
  auto& values = graph->values;
  STATOR_CHECK(mark <= nodes.size(), "cannot roll back to node ", mark);
  for (size_t n = mark; n < nodes.size(); ++n) {
    for (const auto& result : nodes[n].results) {
      for (ValueId id : result.values) {
        // An in-place result names an older value, which stays.
        if (id == kNoValue || values[id].producer != n) continue;
        ids.erase(values[id].fake.unsafeGetTensorImpl());
        kept.push_back(std::move(values[id].fake));
        // Inputs added later keep their ids, so this one stays as a hole.
        values[id] = {};
      }
    }
  }
  nodes.erase(nodes.begin() + static_cast<ptrdiff_t>(mark), nodes.end());
  auto is_hole = [&] {
    auto last = static_cast<ValueId>(values.size() - 1);
    return values[last].producer == UINT32_MAX && (graph->inputs.empty() || graph->inputs.back() != last);
  };
  while (!values.empty() && is_hole()) values.pop_back();
}

/// What the dispatcher calls for every op while the mode key is in TLS.
struct Hook {
  static void run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    c10::impl::ExcludeDispatchKeyGuard inside(kModeKey);
    auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kModeKey);
    // Threads that inherit TLS (autograd's) have no tracer; what they make is unknown to it and so refused later.
    if (current == nullptr) return op.redispatchBoxed(below, stack);
    current->impl_->call(op, below, stack);
  }
};

std::string install() {
  static const std::string problem = []() -> std::string {
    try {
      // Lives as long as the process: unregistering during exit races with other libraries' destructors.
      auto* library = new torch::Library(torch::Library::IMPL, "_", kModeKey, __FILE__, __LINE__);
      library->fallback(torch::CppFunction::makeFromBoxedFunction<&Hook::run>());
      return {};
    } catch (const std::exception& error) {
      return std::string("the tracer's dispatch key is taken: ") + error.what();
    }
  }();
  return problem;
}

Tracer::Tracer(std::string graph_name) : impl_(std::make_unique<Impl>()) {
  impl_->graph->name = std::move(graph_name);
  impl_->state = impl_->graph->intern_state(graph::current_state(impl_->region));
}

Tracer::~Tracer() = default;

at::Tensor Tracer::add_input(const at::Tensor& real, std::string name) {
  auto fake = impl_->fakes.from_real(real);
  impl_->know(fake, impl_->graph->add_input(std::move(name), fake));
  return fake;
}

at::Tensor Tracer::add_constant(const at::Tensor& data) {
  STATOR_CHECK(!fake::is_fake(data) && !data.requires_grad() && data.is_non_overlapping_and_dense() &&
                   !data.is_conj() && !data.is_neg(),
               "a constant is plain, dense data");
  static const auto clone = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  auto fake = impl_->fakes.from_real(data);
  auto index = static_cast<uint32_t>(impl_->graph->nodes.size());
  auto& node = impl_->graph->add_node(clone);
  node.args = {Argument::of_constant(data), Argument::of_constant({})};
  node.state = impl_->current_state();
  node.location = impl_->location;
  auto id = impl_->graph->add_result_value(index, fake);
  node.results.push_back({false, {id}});
  impl_->know(fake, id);
  return fake;
}

ValueId Tracer::value_of(const at::Tensor& fake) const { return fake.defined() ? impl_->find(fake) : kNoValue; }

bool Tracer::adopt(const at::Tensor& fake) {
  if (impl_->graph->nodes.empty() || !fake::is_fake(fake)) return false;
  for (const auto& result : impl_->graph->nodes.back().results)
    for (ValueId id : result.values) {
      if (id == kNoValue) continue;
      const at::Tensor& made = impl_->graph->values[id].fake;
      if (made.storage().unsafeGetStorageImpl() != fake.storage().unsafeGetStorageImpl() ||
          made.sizes() != fake.sizes() || made.strides() != fake.strides() || made.dtype() != fake.dtype() ||
          made.storage_offset() != fake.storage_offset() || made.requires_grad() != fake.requires_grad())
        continue;
      impl_->kept.push_back(fake);
      impl_->know(fake, id);
      return true;
    }
  return false;
}

void Tracer::autocast_ended() {
  if (graph::in_autocast_block()) return;
  ++impl_->region;
  // The next node under autocast must not take over a state of the region before.
  impl_->state = impl_->graph->intern_state(graph::current_state(impl_->region));
}

void Tracer::set_location(uint32_t location) { impl_->location = location; }

graph::Graph& Tracer::graph() { return *impl_->graph; }

std::shared_ptr<graph::Graph> Tracer::share_graph() { return impl_->graph; }

size_t Tracer::mark() const { return impl_->graph->nodes.size(); }

void Tracer::rollback(size_t mark) { impl_->rollback(mark); }

TraceScope::TraceScope(Tracer& tracer)
    : previous_(current), was_included_(c10::impl::tls_is_dispatch_key_included(kModeKey)) {
  current = &tracer;
  c10::impl::tls_set_dispatch_key_included(kModeKey, true);
}

TraceScope::~TraceScope() {
  c10::impl::tls_set_dispatch_key_included(kModeKey, was_included_);
  current = previous_;
}

}  // namespace stator::tracer
