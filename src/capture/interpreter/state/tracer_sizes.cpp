// The part of TorchTracer for symbolic sizes of inputs.
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <algorithm>
#include <unordered_set>

#include "capture/interpreter/state/tracer.h"
#include "capture/interpreter/state/tracer_impl.h"
#include "capture/values/varying.h"
#include "core/shapes/sym_node.h"
#include "core/shapes/traversal.h"

namespace stator::capture {
namespace {

/// Marks a location whose tag is the number of a line. Ranges of sizes have other locations.
constexpr const char* kLine = "line";

/// The node of torch's object for a symbolic number; null for other objects.
c10::SymNode node_of(PyObject* object) {
  const py::handle handle(object);
  if (torch::is_symint(handle)) {
    const auto number = handle.cast<c10::SymInt>();
    return number.is_heap_allocated() ? number.toSymNode() : c10::SymNode();
  }
  if (torch::is_symfloat(handle)) return handle.cast<c10::SymFloat>().toSymNodeImpl();
  if (torch::is_symbool(handle)) return handle.cast<c10::SymBool>().toSymNodeImpl();
  return {};
}

}  // namespace

void TorchTracer::set_locator(std::function<UserLine()> locator) {
  impl_->tracer.symbols().set_locator([this, locator = std::move(locator)] {
    // The environment keeps a number; the line is kept here.
    impl_->lines.push_back(locator());
    return shapes::Location{impl_->lines.size() - 1, kLine};
  });
}

bool TorchTracer::takes_symbols() const { return impl_->tracer.takes_symbols(); }

std::string TorchTracer::sizes_in(const std::vector<PyObject*>& numbers) const {
  const shapes::ShapeEnv& env = impl_->tracer.symbols();
  std::string text;
  std::unordered_set<shapes::Ex> symbols;
  for (PyObject* number : numbers) {
    const shapes::Expr expr = shapes::expression_of(node_of(number).get());
    if (!expr || expr->has_unbacked) return "";
    std::unordered_set<shapes::Ex> seen;
    shapes::post_order(
        expr, [&](shapes::Ex part) { return seen.contains(part); },
        [&](shapes::Ex part) {
          seen.insert(part);
          if (part->op == shapes::Op::Symbol) symbols.insert(part);
        });
  }
  for (const shapes::InputInfo& input : env.inputs())
    if (symbols.contains(input.symbol)) text += (text.empty() ? "" : ", ") + input.source;
  return text;
}

std::optional<bool> TorchTracer::truth_of(PyObject* number) {
  const shapes::Expr expr = shapes::expression_of(node_of(number).get());
  shapes::ShapeEnv& env = impl_->tracer.symbols();
  const shapes::Ex truth = !expr || expr->type == shapes::Type::Bool ? expr.get() : env.apply(shapes::Op::ToBool, expr);
  return truth ? env.decide(truth) : std::nullopt;
}

bool TorchTracer::guard_number(PyObject* number) {
  using shapes::Op;
  const shapes::Expr expr = shapes::expression_of(node_of(number).get());
  if (!expr || expr->has_unbacked) return false;
  shapes::ShapeEnv& env = impl_->tracer.symbols();
  bool holds = true;
  auto require = [&](Op op, shapes::Ex a, shapes::Ex b) {
    shapes::Ex truth = env.apply(op, a, b);
    holds = holds && truth != nullptr && env.decide(truth).value_or(false);
  };
  std::unordered_set<shapes::Ex> seen;
  shapes::post_order(
      expr, [&](shapes::Ex part) { return seen.contains(part); },
      [&](shapes::Ex part) {
        seen.insert(part);
        if (part->op == Op::FloorDiv || part->op == Op::Mod || part->op == Op::TrueDiv)
          require(Op::Ne, part->operands[1], env.constant(int64_t{0}));
        const shapes::Range range = env.derived(part).range;
        if (part->type != shapes::Type::Int || range.fits_int64()) return;
        require(Op::Le, part, env.constant(INT64_MAX));
        if (range.low < INT64_MIN) require(Op::Ge, part, env.constant(INT64_MIN));
      });
  return holds && !env.derived(expr).may_fail;
}

bool TorchTracer::add_guard(const std::string& truth) {
  shapes::ShapeEnv& env = impl_->tracer.symbols();
  const size_t symbols = env.symbols().size();
  shapes::Ex expr = env.parse(truth);
  // A name that the capture does not have became a symbol.
  if (expr == nullptr || expr->type != shapes::Type::Bool || env.symbols().size() != symbols) return false;
  return env.decide(expr).value_or(false);
}

std::string TorchTracer::sizes_named(const std::vector<std::string>& symbols) const {
  std::string text;
  for (const shapes::InputInfo& input : impl_->tracer.symbols().inputs())
    if (std::find(symbols.begin(), symbols.end(), input.symbol->symbol->name) != symbols.end())
      text += (text.empty() ? "" : ", ") + input.source;
  return text;
}

std::string TorchTracer::constant_sizes() {
  shapes::ShapeEnv& env = impl_->tracer.symbols();
  std::string text;
  for (const shapes::InputInfo& input : env.inputs())
    if (env.simplify(input.symbol)->is_constant()) text += (text.empty() ? "" : ", ") + input.source;
  return text;
}

std::shared_ptr<ShapeGuards> TorchTracer::shape_guards() {
  shapes::ShapeEnv& env = impl_->tracer.symbols();
  if (env.inputs().empty()) return nullptr;
  auto made = std::make_shared<ShapeGuards>();
  for (const shapes::InputInfo& input : env.inputs()) {
    const tracer::SizeTag size = tracer::size_of_tag(input.tag);
    made->inputs.push_back({size.input, static_cast<int32_t>(size.dim)});
    made->symbols.push_back(shapes::to_python(input.symbol) + " = " + input.source);
  }
  const std::vector<shapes::Guard> guards = env.final_guards();
  made->program = shapes::GuardProgram::compile(env, guards);
  for (const shapes::Guard& guard : guards) {
    const bool has_line = guard.where.text == kLine;
    made->texts.push_back({shapes::to_python(guard.truth), has_line ? impl_->lines[guard.where.tag] : UserLine()});
  }
  return made;
}

}  // namespace stator::capture
