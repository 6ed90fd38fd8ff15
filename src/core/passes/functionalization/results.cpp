#include "core/passes/functionalization/functionalizer.h"

namespace stator::passes {

using graph::ValueId;

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
                     node_->results.size() == 1 && called_->operator_name().name != "aten::as_strided";
  if (!by_op) return by_geometry(Geometry::of(of), Geometry::of(made));
  recipe.op = *called_;
  recipe.args.assign(args_.begin(), args_.end());
  recipe.self = operand.argument;
  recipe.args[recipe.self] = c10::IValue();
  return recipe;
}

/// A result of an operator that returns several views (`unbind`, `split`, ...), made by a `select` or `slice` instead.
bool Functionalizer::split_recipe(View* parent, const at::Tensor& made, ViewRecipe& recipe) {
  const auto& schema = called_->schema();
  const auto place = schema.argumentIndexWithName("dim");
  if (!place || num_tensors_ != 1 || !node_->results[0].is_list || !args_[*place].isInt()) return false;
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

}  // namespace stator::passes
