#include "core/passes/functionalize.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/fake/rule.h"
#include "core/graph/aliasing.h"
#include "core/graph/control_ops.h"
#include "core/graph/uses.h"
#include "core/graph/verify.h"
#include "core/passes/regions.h"
#include "core/passes/replay.h"
#include "core/passes/twins.h"
#include "core/shapes/number_ops.h"

namespace stator::passes {

using graph::Argument;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;

namespace {

std::string name_of(const c10::OperatorHandle& op) { return c10::toString(op.operator_name()); }

/// An operand that a node writes to: its argument, its place if that is a list, and what it is.
struct Written {
  size_t argument, item;
  bool is_list;
  View* view;
};

class Functionalizer final : public Replay {
 public:
  Functionalizer(const graph::Graph& from, WriteBack write_back)
      : Replay(from), regions_(builder_), views_(from.values.size()), write_back_(write_back), groups_(from) {
    for (const Node& node : from.nodes)
      graph::for_each_written(node, [&](ValueId id) { written_groups_.insert(groups_.of(id)); });
  }

  Functionalized take(std::shared_ptr<graph::Graph> made) {
    result_.graph = std::move(made);
    return std::move(result_);
  }

 private:
  void visit_input(uint32_t position) override;
  void visit(const Node& node) override;
  at::Tensor tensor(ValueId id) override { return regions_.read(views_.at(id)); }
  void bind(ValueId id, const at::Tensor& made) override;
  std::vector<ValueId> outputs() override;

  void keep_distinct(const Node& node);
  void read_only(const Node& node);
  void control(const Node& node);
  void write(const Node& node);
  std::vector<Written> written_operands(const Node& node);
  bool write_by_twin(const Node& node, const std::vector<Written>& written);
  void write_on_copies(const Node& node, const std::vector<Written>& written);
  void write_on_copied_region(const Node& node, const std::vector<Written>& written);
  void change_metadata(const Node& node);
  void replace_tensor(ValueId id, View* view);
  ViewRecipe recipe_for(View* parent, const at::Tensor& made);
  bool split_recipe(View* parent, const at::Tensor& made, ViewRecipe& recipe);
  void add_flat_input(uint32_t position, const at::Tensor& fake);
  void write_back();
  void change_inputs_metadata();
  void note_outputs();
  bool has_unique_regions(const std::vector<Written>& written) const;
  void set_item(torch::jit::Stack& stack, const Written& at, const at::Tensor& tensor);
  static at::Tensor get_item(const c10::IValue& value, const Written& at);

  Regions regions_;
  std::vector<View*> views_;  // by value of the original
  const WriteBack write_back_;
  const graph::MemoryGroups groups_;
  std::unordered_set<uint32_t> written_groups_;
  std::unordered_map<uint32_t, View*> flat_;  // by memory group of inputs
  std::unordered_map<ValueId, at::Tensor> input_fakes_;
  std::vector<std::pair<const Node*, ValueId>> metadata_changes_;  // of inputs, in order
  Functionalized result_;

  // The call whose results are bound.
  const Node* node_ = nullptr;
  torch::jit::Stack args_;
  struct Operand {
    View* view;
    size_t argument;
    bool is_list;
  };
  std::unordered_map<const void*, Operand> operands_;  // by storage
  size_t num_tensors_ = 0;
};

// ---- inputs

void Functionalizer::visit_input(uint32_t position) {
  const ValueId id = from_.inputs[position];
  now_[id] = builder_.add_input(from_, position);
  if (!now_[id].isTensor()) return;
  const at::Tensor fake = now_[id].toTensor();
  input_fakes_.emplace(id, fake);
  const uint32_t group = groups_.of(id);
  const auto shares = std::count_if(from_.inputs.begin(), from_.inputs.end(),
                                    [&](ValueId other) { return groups_.of(other) == group; });
  const bool is_written = written_groups_.contains(group);
  if (is_written && (shares > 1 || Geometry::of(fake).overlaps()) && fake.has_storage()) {
    add_flat_input(position, fake);
    return;
  }
  View* root = regions_.add_root(fake);
  root->region->input = position;
  root->region->at_start = fake;
  views_[id] = root;
}

/// Inputs in one memory, or whose elements overlap, are views of a tensor that has each element of the memory once.
void Functionalizer::add_flat_input(uint32_t position, const at::Tensor& fake) {
  const ValueId id = from_.inputs[position];
  View*& flat = flat_[groups_.of(id)];
  if (flat == nullptr) {
    const auto bytes = fake.storage().sym_nbytes().maybe_as_int();
    TORCH_CHECK(bytes, "a write to inputs that share memory and have symbolic sizes");
    const auto count = static_cast<int64_t>(static_cast<size_t>(*bytes) / fake.dtype().itemsize());
    const auto as_strided = operator_named("aten::as_strided");
    flat = regions_.add_root(builder_.call(
        as_strided, {fake, std::vector<int64_t>{count}, std::vector<int64_t>{1}, c10::IValue(int64_t{0})}));
    flat->region->input = position;
    flat->region->at_start = flat->current;
  }
  views_[id] = regions_.add_view(flat, by_geometry(flat->geometry, Geometry::of(fake)), fake);
}

// ---- nodes

void Functionalizer::visit(const Node& node) {
  node_ = &node;
  operands_.clear();
  num_tensors_ = 0;
  if (graph::is_control_op(node.op)) return control(node);
  if (node.op == shapes::distinct_op()) return keep_distinct(node);
  if (shapes::is_number_op(node.op)) return copy(node);
  for (const auto& declared : node.op.schema().arguments())
    TORCH_CHECK(declared.type()->kind() != c10::TypeKind::AnyType, name_of(node.op), " calls Python code");
  for (size_t i = 0; i < node.args.size(); ++i)
    graph::for_each_value(node.args[i], [&](ValueId id) { num_tensors_ += views_[id] != nullptr; });
  if (graph::changes_metadata(node) || node.op.operator_name().name == "aten::set_data") return change_metadata(node);
  bool writes = false;
  graph::for_each_written(node, [&](ValueId) { writes = true; });
  writes ? write(node) : read_only(node);
}

/// The check is about the memory of inputs, not about their contents.
void Functionalizer::keep_distinct(const Node& node) {
  std::vector<Argument> items;
  graph::for_each_value(node.args[0], [&](ValueId id) {
    auto input = input_fakes_.find(id);
    items.push_back(builder_.operand(input != input_fakes_.end() ? input->second : tensor(id)));
  });
  builder_.record(node.op, {Argument::of_list(std::move(items))}, {});
}

void Functionalizer::read_only(const Node& node) {
  for (size_t i = 0; i < node.args.size(); ++i)
    graph::for_each_value(node.args[i], [&](ValueId id) {
      if (views_[id] == nullptr) return;
      if (const void* memory = graph::memory_of(tensor(id)))
        operands_.try_emplace(memory, Operand{views_[id], i, node.args[i].kind == Argument::Kind::List});
    });
  const bool is_data = node.op.operator_name().name == "aten::clone" && node.args[0].kind == Argument::Kind::Constant &&
                       node.args[0].constant.isTensor();
  if (is_data) return copy(node);
  args_ = operands(node);
  torch::jit::Stack stack = args_;
  builder_.run(node.op, stack);
  bind_results(node, stack);
}

void Functionalizer::control(const Node& node) {
  TORCH_CHECK(!graph::may_write(node.op), name_of(node.op), " writes to operands");
  const bool is_checkpoint = node.op == graph::control_op(graph::ControlOp::Checkpoint);
  TORCH_CHECK(!is_checkpoint || written_groups_.empty(), name_of(node.op), " in a graph that writes");
  Node copied = node;
  for (Argument& argument : copied.args) {
    if (argument.kind != Argument::Kind::Graph) continue;
    Functionalized part = functionalize(*argument.graph());
    TORCH_CHECK(part.mutations.empty(), name_of(node.op), " has a sub-graph that writes to its operands");
    result_.on_copies.insert(result_.on_copies.end(), part.on_copies.begin(), part.on_copies.end());
    argument = Argument::of_graph(std::move(part.graph));
  }
  copy(copied);
}

void Functionalizer::bind(ValueId id, const at::Tensor& made) {
  now_[id] = made;
  if (views_[id] != nullptr) return;  // an operand that the operator returns
  const void* memory = graph::memory_of(made);
  auto found = memory != nullptr ? operands_.find(memory) : operands_.end();
  if (found == operands_.end()) {
    views_[id] = regions_.add_root(made);
    if (memory != nullptr) operands_.emplace(memory, Operand{views_[id], SIZE_MAX, false});
    return;
  }
  views_[id] = regions_.add_view(found->second.view, recipe_for(found->second.view, made), made);
}

ViewRecipe Functionalizer::recipe_for(View* parent, const at::Tensor& made) {
  const Operand& operand = operands_.at(graph::memory_of(made));
  const at::Tensor of = regions_.read(parent);
  if (of.is_same(made)) return {};
  ViewRecipe recipe;
  if (split_recipe(parent, made, recipe)) return recipe;
  const bool is_list = node_->results[0].is_list;
  const bool by_op = operand.argument != SIZE_MAX && !operand.is_list && !is_list && num_tensors_ == 1 &&
                     node_->results.size() == 1 && node_->op.operator_name().name != "aten::as_strided";
  if (!by_op) return by_geometry(Geometry::of(of), Geometry::of(made));
  recipe.op = node_->op;
  recipe.args.assign(args_.begin(), args_.end());
  recipe.self = operand.argument;
  recipe.args[recipe.self] = c10::IValue();
  return recipe;
}

/// One of several views (`unbind`, `split`, ...), or `narrow`, as a `select` or `slice`.
bool Functionalizer::split_recipe(View* parent, const at::Tensor& made, ViewRecipe& recipe) {
  const auto& schema = node_->op.schema();
  const auto place = schema.argumentIndexWithName("dim");
  const bool is_narrow = node_->op.operator_name().name == "aten::narrow";
  if (!place || num_tensors_ != 1 || !(node_->results[0].is_list || is_narrow) || !args_[*place].isInt()) return false;
  const at::Tensor of = regions_.read(parent);
  int64_t dim = args_[*place].toInt();
  if (dim < 0) dim += of.dim();
  const auto step = of.sym_stride(dim).maybe_as_int();
  const auto distance = (made.sym_storage_offset() - of.sym_storage_offset()).maybe_as_int();
  if (!step || !distance || *step == 0 || *distance % *step != 0) return false;
  const int64_t start = *distance / *step;
  const bool drops_dim = made.dim() == of.dim() - 1;
  recipe.op = operator_named(drops_dim ? "aten::select.int" : "aten::slice.Tensor");
  if (drops_dim)
    recipe.args = {c10::IValue(), dim, start};
  else
    recipe.args = {c10::IValue(), dim, start, c10::IValue(made.sym_size(dim) + start), int64_t{1}};
  const size_t mark = builder_.mark();
  const at::Tensor again = apply_view(builder_, recipe, of);
  const bool same = Geometry::of(again).same_layout(Geometry::of(made)) &&
                    again.sym_storage_offset().maybe_as_int() == made.sym_storage_offset().maybe_as_int();
  builder_.rollback(mark);
  return same;
}

// ---- writes

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
  for (const Written& at : written) regions_.write(at.view, get_item(stack[returned.at(at.argument)], at), node);
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

// ---- metadata

/// From now on the value is another tensor.
void Functionalizer::replace_tensor(ValueId id, View* view) {
  views_[id] = view;
  if (input_fakes_.contains(id)) metadata_changes_.emplace_back(node_, id);
}

void Functionalizer::change_metadata(const Node& node) {
  const std::string name = node.op.operator_name().name;
  const ValueId self = node.args[0].value;
  View* view = views_.at(self);
  if (name == "aten::set_data" || (name == "aten::set_" && node.args.size() == 2)) {
    View* source = views_.at(node.args[1].value);
    return replace_tensor(self, regions_.add_view(source, {}, regions_.read(source)));
  }
  TORCH_CHECK(name != "aten::set_", name_of(node.op), " gives a tensor a storage");
  torch::jit::Stack stack = operands(node);
  const at::Tensor now = stack[0].toTensor();
  if (name == "aten::resize_" || name == "aten::resize_as_") {
    const size_t mark = builder_.mark();
    const auto clone = operator_named("aten::clone");
    const at::Tensor copy = builder_.call(clone, {now, c10::IValue()});
    stack[0] = copy;
    builder_.run(node.op, stack);
    if (Geometry::of(copy).same_layout(view->geometry)) return builder_.rollback(mark);
    TORCH_CHECK(view->parent == nullptr, name_of(node.op), " of a view");
    for (size_t id = 0; id < views_.size(); ++id)
      TORCH_CHECK(views_[id] == nullptr || views_[id] == view || views_[id]->region != view->region, name_of(node.op),
                  " of a tensor that has views");
    result_.on_copies.push_back(name_of(node.op));
    return replace_tensor(self, regions_.add_root(copy));
  }
  // `t_` is `t`, and so on; arguments are the same.
  const std::string overload = name == "aten::transpose_" ? "int" : node.op.operator_name().overload_name;
  const auto op = c10::Dispatcher::singleton().findSchema({name.substr(0, name.size() - 1), overload});
  TORCH_CHECK(op && op->schema().arguments().size() == stack.size(), name_of(node.op), " has no form as a view");
  operands_.try_emplace(graph::memory_of(now), Operand{view, 0, false});
  args_ = stack;
  builder_.run(*op, stack);
  const at::Tensor made = stack[0].toTensor();
  ViewRecipe recipe;
  if (made.is_same(now)) {
    recipe = {};
  } else if (name == "aten::as_strided_") {
    recipe = by_geometry(Geometry::of(now), Geometry::of(made));
  } else {
    recipe.op = *op;
    recipe.args.assign(args_.begin(), args_.end());
    recipe.args[0] = c10::IValue();
  }
  replace_tensor(self, regions_.add_view(view, std::move(recipe), made));
}

// ---- the end

/// Writes the new contents of inputs to the inputs; what is made of them afterwards lies in their memory again.
void Functionalizer::write_back() {
  const auto copy_in_place = operator_named("aten::copy_");
  for (Region& region : regions_.all()) {
    if (region.writer == nullptr) continue;
    if (region.input && write_back_ == WriteBack::AtEnd) {
      builder_.enter(*region.writer);
      builder_.call(copy_in_place, {region.at_start, region.root->current, false});
      regions_.replace_root(region, region.at_start);
    } else {
      regions_.replace_root(region, region.root->current);
    }
  }
}

void Functionalizer::change_inputs_metadata() {
  const auto resize = operator_named("aten::resize_");
  const auto copy_in_place = operator_named("aten::copy_");
  for (const auto& [node, self] : metadata_changes_) {
    builder_.enter(*node);
    const at::Tensor& input = input_fakes_.at(self);
    const std::string_view name = node->op.operator_name().name;
    if (!name.starts_with("aten::resize") && (graph::changes_metadata(*node) || name == "aten::set_data")) {
      torch::jit::Stack stack = operands(*node);
      stack[0] = input;
      builder_.run(node->op, stack);
      continue;
    }
    const at::Tensor now = regions_.read(views_[self]);
    builder_.call(resize, {input, c10::IValue(now.sym_sizes())});
    builder_.call(copy_in_place, {input, now, false});
  }
}

void Functionalizer::note_outputs() {
  using Kind = Functionalized::OutputFact::Kind;
  for (uint32_t i = 0; i < from_.outputs.size(); ++i) {
    const ValueId id = from_.outputs[i];
    Functionalized::OutputFact fact;
    const auto input = std::find(from_.inputs.begin(), from_.inputs.end(), id);
    if (input != from_.inputs.end()) {
      fact = {Kind::Input, static_cast<uint32_t>(input - from_.inputs.begin())};
    } else if (views_[id] != nullptr && views_[id]->region->input) {
      fact = {Kind::ViewOfInput, *views_[id]->region->input};
    } else {
      for (uint32_t k = 0; k < i && fact.kind == Kind::Own; ++k) {
        const ValueId other = from_.outputs[k];
        if (other == id)
          fact = {Kind::SameAsOutput, k};
        else if (views_[id] != nullptr && views_[other] != nullptr && views_[id]->region == views_[other]->region)
          fact = {Kind::SharesWithOutput, k};
      }
    }
    result_.outputs.push_back(fact);
  }
}

std::vector<ValueId> Functionalizer::outputs() {
  note_outputs();
  std::vector<ValueId> made;
  for (uint32_t i = 0; i < from_.inputs.size(); ++i) {
    const ValueId id = from_.inputs[i];
    if (views_[id] == nullptr) continue;
    const bool metadata = std::any_of(metadata_changes_.begin(), metadata_changes_.end(),
                                      [&](const auto& change) { return change.second == id; });
    const bool data = views_[id]->region->writer != nullptr;
    if (!data && !metadata) continue;
    const ValueId updated = builder_.operand(tensor(id)).value;
    result_.mutations.push_back({i, updated, data, metadata});
    if (write_back_ == WriteBack::AsOutputs) made.push_back(updated);
  }
  write_back();
  for (ValueId id : from_.outputs) {
    const bool is_input = input_fakes_.contains(id) && write_back_ == WriteBack::AtEnd;
    if (!now_.at(id).isTensor())
      made.push_back(builder_.number_value(now_[id]));
    else
      made.push_back(builder_.operand(is_input ? input_fakes_.at(id) : tensor(id)).value);
  }
  if (write_back_ == WriteBack::AtEnd) change_inputs_metadata();
  return made;
}

}  // namespace

Functionalized functionalize(const graph::Graph& graph, WriteBack write_back) {
  Functionalizer pass(graph, write_back);
  auto made = pass.run();
  graph::verify(*made);
  return pass.take(std::move(made));
}

}  // namespace stator::passes
