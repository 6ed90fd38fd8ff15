#include "core/passes/functionalization/functionalizer.h"

#include <algorithm>

#include "core/graph/uses.h"
#include "core/passes/functionalization/twins.h"

namespace stator::passes {

using graph::Argument;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;

std::vector<Written> Functionalizer::written_operands(const Node& node) {
  std::vector<Written> found;
  for (size_t i = 0; i < node.args.size(); ++i) {
    if (!graph::writes_argument(node, i)) continue;
    const bool is_list = node.args[i].kind == Argument::Kind::List;
    size_t item = 0;
    graph::for_each_value(node.args[i], [&](ValueId id) {
      TORCH_CHECK(views_[id] != nullptr, name_of(node.op), " writes to a number");
      found.push_back({i, item++, is_list, views_[id]});
    });
  }
  return found;
}

bool Functionalizer::has_unique_regions(const std::vector<Written>& written) const {
  std::unordered_set<const Region*> seen;
  return std::all_of(written.begin(), written.end(),
                     [&](const Written& at) { return seen.insert(at.view->region).second; });
}

at::Tensor Functionalizer::get_item(const c10::IValue& value, const Written& at) {
  return at.is_list ? value.toListRef()[at.item].toTensor() : value.toTensor();
}

void Functionalizer::set_item(torch::jit::Stack& stack, const Written& at, const at::Tensor& tensor) {
  if (!at.is_list) {
    stack[at.argument] = tensor;
    return;
  }
  auto tensors = stack[at.argument].toTensorVector();
  tensors[at.item] = tensor;
  stack[at.argument] = tensors;
}

void Functionalizer::write(const Node& node) {
  const auto written = written_operands(node);
  if (!has_unique_regions(written)) return write_on_copied_region(node, written);
  if (!write_by_twin(node, written)) write_on_copies(node, written);
}

static bool is_operand_memory(const torch::jit::Stack& operands, const at::Tensor& made) {
  const void* memory = graph::memory_of(made);
  return memory != nullptr && std::any_of(operands.begin(), operands.end(), [&](const c10::IValue& value) {
           if (value.isTensor()) return graph::memory_of(value.toTensor()) == memory;
           if (!value.isTensorList()) return false;
           const auto tensors = value.toTensorVector();
           return std::any_of(tensors.begin(), tensors.end(),
                              [&](const at::Tensor& tensor) { return graph::memory_of(tensor) == memory; });
         });
}

bool Functionalizer::write_by_twin(const Node& node, const std::vector<Written>& written) {
  const Twin* twin = find_twin(node.op);
  if (twin == nullptr) return false;
  // Random numbers may be drawn in the order of the memory, and the twin may give its result another order.
  if (graph::draws_random(node) && !std::all_of(written.begin(), written.end(), [&](const Written& at) {
        return regions_.read(at.view).is_contiguous();
      }))
    return false;
  const torch::jit::Stack given = operands(node);
  torch::jit::Stack stack;
  for (size_t i : twin->arguments) stack.push_back(given[i]);
  const size_t mark = builder_.mark();
  builder_.run(twin->op, stack);
  std::unordered_map<size_t, size_t> returned;  // argument: return of the twin
  std::vector<size_t> declared;
  for (size_t i = 0; i < node.args.size(); ++i)
    if (graph::writes_argument(node, i)) declared.push_back(i);
  for (size_t i = 0; i < declared.size(); ++i) returned.emplace(declared[i], twin->written.at(i));
  for (const Written& at : written) {
    const at::Tensor made = get_item(stack[returned.at(at.argument)], at);
    const bool fits = made.defined() && made.scalar_type() == at.view->geometry.dtype &&
                      made.dim() == static_cast<int64_t>(at.view->geometry.sizes.size()) &&
                      graph::memory_of(made) != graph::memory_of(at.view->current);
    bool same_sizes = fits;
    for (int64_t d = 0; same_sizes && d < made.dim(); ++d)
      same_sizes =
          at.view->geometry.sizes[static_cast<size_t>(d)].sym_eq(made.sym_size(d)).guard_bool(__FILE__, __LINE__);
    if (same_sizes) continue;
    builder_.rollback(mark);
    return false;
  }
  for (const Written& at : written) {
    at::Tensor made = get_item(stack[returned.at(at.argument)], at);
    // The twin may return an operand, or a view of one.
    if (is_operand_memory(given, made)) made = builder_.call(operator_named("aten::clone"), {made, c10::IValue()});
    regions_.write(at.view, std::move(made), node);
  }
  size_t next = 0;
  for (size_t r = 0; r < node.results.size(); ++r) {
    if (node.op.schema().returns()[r].alias_info() != nullptr) continue;
    const ValueId id = node.results[r].values[0];
    const c10::IValue& made = stack[twin->fresh.at(next++)];
    if (id != kNoValue) bind(id, made.toTensor());
  }
  return true;
}

void Functionalizer::write_on_copies(const Node& node, const std::vector<Written>& written) {
  result_.on_copies.push_back(name_of(node.op));
  const auto clone = operator_named("aten::clone");
  const auto copy_values = operator_named("aten::copy");
  torch::jit::Stack stack = operands(node);
  std::vector<at::Tensor> copies;
  for (const Written& at : written) {
    const at::Tensor now = regions_.read(at.view);
    const size_t mark = builder_.mark();
    at::Tensor made = builder_.call(clone, {now, c10::IValue()});
    if (!Geometry::of(made).same_layout(at.view->geometry) && !at.view->geometry.overlaps()) {
      builder_.rollback(mark);
      made = builder_.call(copy_values, {now, now});
    }
    set_item(stack, at, made);
    copies.push_back(made);
  }
  args_ = stack;
  builder_.run(node.op, stack);
  for (size_t i = 0; i < written.size(); ++i) {
    View* view = written[i].view;
    if (Geometry::of(copies[i]).sizes.size() == view->geometry.sizes.size() &&
        copies[i].sym_sizes() == c10::SymIntArrayRef(view->geometry.sizes.data(), view->geometry.sizes.size())) {
      regions_.write(view, copies[i], node);
      continue;
    }
    // An `out` argument that got another size: its contents are new.
    const ValueId id = written[i].is_list ? node.args[written[i].argument].items[written[i].item].value
                                          : node.args[written[i].argument].value;
    replace_tensor(id, regions_.add_root(copies[i]));
  }
  bind_results(node, stack);
}

/// Two operands lie in one memory: the operator runs on views of a copy of all of it.
void Functionalizer::write_on_copied_region(const Node& node, const std::vector<Written>& written) {
  result_.on_copies.push_back(name_of(node.op));
  const auto copy_values = operator_named("aten::copy");
  std::unordered_map<Region*, at::Tensor> copies;
  for (const Written& at : written) {
    at::Tensor& root = copies[at.view->region];
    const at::Tensor now = at.view->region->root->current;
    if (!root.defined()) root = builder_.call(copy_values, {now, now});
  }
  torch::jit::Stack stack = operands(node);
  for (const Written& at : written) set_item(stack, at, regions_.read_from(at.view, copies.at(at.view->region)));
  args_ = stack;
  builder_.run(node.op, stack);
  for (auto& [region, root] : copies) regions_.write(region->root, root, node);
  bind_results(node, stack);
}

}  // namespace stator::passes
