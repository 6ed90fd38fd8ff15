#pragma once

#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/graph/aliasing.h"
#include "core/passes/functionalization/regions.h"
#include "core/passes/functionalize.h"
#include "core/passes/replay.h"

namespace stator::passes {

/// An operand that a node writes to: the index of its argument, and its index in the argument if that is a list.
struct Written {
  size_t argument, item;
  bool is_list;
  View* view;
};

/// The pass behind `functionalize`. Each tensor of the original graph is a view of a region. The member functions are
/// in several files, by what they handle: nodes, results, writes, metadata, outputs.
class Functionalizer final : public Replay {
 public:
  Functionalizer(const graph::Graph& from, WriteBack write_back);

  Functionalized take(std::shared_ptr<graph::Graph> made) {
    result_.graph = std::move(made);
    return std::move(result_);
  }

 private:
  void visit_input(uint32_t position) override;
  void visit(const graph::Node& node) override;
  at::Tensor tensor(graph::ValueId id) override { return regions_.read(views_.at(id)); }
  void bind(graph::ValueId id, const at::Tensor& made) override;
  std::vector<graph::ValueId> outputs() override;

  void keep_distinct(const graph::Node& node);
  void read_only(const graph::Node& node);
  void control(const graph::Node& node);
  void write(const graph::Node& node);
  std::vector<Written> written_operands(const graph::Node& node);
  bool write_by_twin(const graph::Node& node, const std::vector<Written>& written);
  void write_on_copies(const graph::Node& node, const std::vector<Written>& written);
  void write_on_copied_region(const graph::Node& node, const std::vector<Written>& written);
  static bool is_metadata_change(const graph::Node& node);
  void change_metadata(const graph::Node& node);
  void change_size(const graph::Node& node);
  void change_view(const graph::Node& node);
  void replace_tensor(graph::ValueId id, View* view);
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
  std::vector<View*> views_;  // by value of the original graph
  const WriteBack write_back_;
  const graph::MemoryGroups groups_;
  std::unordered_set<uint32_t> written_groups_;
  std::unordered_map<uint32_t, View*> flat_;  // by memory group of inputs
  std::unordered_map<graph::ValueId, at::Tensor> input_fakes_;
  std::vector<std::pair<const graph::Node*, graph::ValueId>> metadata_changes_;  // of inputs, in order
  Functionalized result_;

  // The call whose results are bound.
  const graph::Node* node_ = nullptr;
  const c10::OperatorHandle* called_ = nullptr;  // the node's, or its form that writes nothing
  torch::jit::Stack args_;
  struct Operand {
    View* view;
    size_t argument;
    bool is_list;
  };
  std::unordered_map<const void*, Operand> operands_;  // by storage
  size_t num_tensors_ = 0;
};

std::string name_of(const c10::OperatorHandle& op);

}  // namespace stator::passes
