// The part of TorchTracer for symbolic sizes of inputs.
#include <ATen/core/dispatch/Dispatcher.h>
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

/// Marks a location whose tag is the number of a question. Ranges of sizes have other locations.
constexpr const char* kQuestion = "question";

/// The symbols of an expression.
std::unordered_set<shapes::Ex> symbols_of(shapes::Ex expr) {
  std::unordered_set<shapes::Ex> seen, symbols;
  shapes::post_order(
      expr, [&](shapes::Ex part) { return seen.contains(part); },
      [&](shapes::Ex part) {
        seen.insert(part);
        if (part->op == shapes::Op::Symbol) symbols.insert(part);
      });
  return symbols;
}

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

bool is_number(tracer::SizeTag tag) { return tag.dim == tracer::kNumberTag; }
bool is_stride(tracer::SizeTag tag) { return !is_number(tag) && tag.dim >= tracer::kStrideTag; }
/// -1 for a number.
int32_t dim_of(tracer::SizeTag tag) {
  if (is_number(tag)) return -1;
  return static_cast<int32_t>(tag.dim) - (is_stride(tag) ? static_cast<int32_t>(tracer::kStrideTag) : 0);
}

/// The source of the tensor whose size or stride the input is.
std::string tensor_of(const shapes::InputInfo& input) {
  const bool has_stride = is_stride(tracer::size_of_tag(input.tag));
  return input.source.substr(0, input.source.rfind(has_stride ? ".stride(" : ".size("));
}

void add_to(Varying& into, const shapes::InputInfo& input) {
  const tracer::SizeTag size = tracer::size_of_tag(input.tag);
  if (is_number(size))
    into.ints.insert(input.source);
  else
    (is_stride(size) ? into.strides : into.sizes).add(tensor_of(input), uint64_t{1} << dim_of(size));
}

}  // namespace

void TorchTracer::set_locator(std::function<Question(const Mentions&)> locator) {
  const auto mentions = [this](PyObject* number) {
    const shapes::Expr expr = shapes::expression_of(node_of(number).get());
    if (!expr) return false;
    const auto asked = symbols_of(impl_->tracer.symbols().asked()), given = symbols_of(expr);
    return std::any_of(given.begin(), given.end(), [&](shapes::Ex symbol) { return asked.contains(symbol); });
  };
  impl_->tracer.symbols().set_locator([this, mentions, locator = std::move(locator)] {
    const py::gil_scoped_acquire locked;  // torch's bindings call operators without the GIL
    // The environment keeps a number; the question is kept here.
    impl_->questions.push_back(locator(mentions));
    return shapes::Location{impl_->questions.size() - 1, kQuestion};
  });
}

std::string TorchTracer::running_operator() const { return impl_->tracer.running_operator(); }

std::string TorchTracer::parameter(const std::string& function, size_t place) {
  const auto op = c10::Dispatcher::singleton().findOp({"aten::" + function, ""});
  const bool is_known = op && op->hasSchema() && place < op->schema().arguments().size();
  return is_known ? op->schema().arguments()[place].name() : "number " + std::to_string(place + 1);
}

std::vector<Specialised> TorchTracer::specialised() {
  shapes::ShapeEnv& env = impl_->tracer.symbols();
  std::vector<Specialised> found;
  for (const shapes::InputInfo& input : env.inputs()) {
    const auto value = env.simplify(input.symbol)->int_constant();
    if (!value) continue;
    const tracer::SizeTag size = tracer::size_of_tag(input.tag);
    Specialised made;
    made.value = *value;
    made.is_needed = false;
    made.dim = dim_of(size);
    made.is_stride = is_stride(size);
    made.tensor = made.dim < 0 ? input.source : tensor_of(input);
    // The last question about it left one value, unless an earlier one needed the value.
    for (const shapes::Guard& guard : env.guards()) {
      if (made.is_needed || guard.where.text != kQuestion || !symbols_of(guard.truth).contains(input.symbol)) continue;
      const Question& question = impl_->questions[guard.where.tag];
      made.is_needed = guard.is_value;
      made.asked = question.asked;
      made.line = line_text(question.line);
    }
    found.push_back(std::move(made));
  }
  return found;
}

bool TorchTracer::takes_symbols() const { return impl_->tracer.takes_symbols(); }

bool TorchTracer::states_offsets() const {
  const auto& nodes = impl_->tracer.graph().nodes;
  return std::any_of(nodes.begin(), nodes.end(), [](const graph::Node& node) {
    const auto place = node.op.schema().argumentIndexWithName("storage_offset");
    return place && !(node.args[*place].kind == graph::Argument::Kind::Constant && node.args[*place].constant.isNone());
  });
}

std::string TorchTracer::sizes_in(const std::vector<PyObject*>& numbers) const {
  const shapes::ShapeEnv& env = impl_->tracer.symbols();
  std::string text;
  std::unordered_set<shapes::Ex> symbols;
  for (PyObject* number : numbers) {
    const shapes::Expr expr = shapes::expression_of(node_of(number).get());
    if (!expr || expr->has_unbacked) return "";
    symbols.merge(symbols_of(expr));
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

std::optional<int64_t> TorchTracer::value_of(PyObject* number) {
  const shapes::Expr expr = shapes::expression_of(node_of(number).get());
  if (!expr || expr->type != shapes::Type::Int || expr->has_unbacked) return {};
  shapes::ShapeEnv& env = impl_->tracer.symbols();
  shapes::Ex simple = env.simplify(expr);
  if (const auto constant = simple->int_constant()) return constant;
  const bool is_one_symbol = simple->op == shapes::Op::Symbol ||
                             ((simple->op == shapes::Op::Add || simple->op == shapes::Op::Mul) && simple->count == 1);
  return is_one_symbol ? std::nullopt : env.specialize(simple).int64();
}

void TorchTracer::learn(PyObject* number, bool truth) {
  const shapes::Expr expr = shapes::expression_of(node_of(number).get());
  shapes::ShapeEnv& env = impl_->tracer.symbols();
  if (expr && expr->type == shapes::Type::Bool) env.learn(truth ? expr.get() : env.apply(shapes::Op::Not, expr));
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

Varying TorchTracer::numbers_named(const std::vector<std::string>& symbols) const {
  Varying named;
  for (const shapes::InputInfo& input : impl_->tracer.symbols().inputs())
    if (std::find(symbols.begin(), symbols.end(), input.symbol->symbol->name) != symbols.end()) add_to(named, input);
  return named;
}

Varying TorchTracer::constant_numbers() {
  shapes::ShapeEnv& env = impl_->tracer.symbols();
  Varying constants;
  for (const shapes::InputInfo& input : env.inputs())
    if (env.simplify(input.symbol)->is_constant()) add_to(constants, input);
  return constants;
}

std::shared_ptr<ShapeGuards> TorchTracer::shape_guards() {
  shapes::ShapeEnv& env = impl_->tracer.symbols();
  if (env.inputs().empty()) return nullptr;
  auto made = std::make_shared<ShapeGuards>();
  for (const shapes::InputInfo& input : env.inputs()) {
    const tracer::SizeTag size = tracer::size_of_tag(input.tag);
    made->inputs.push_back({size.input, dim_of(size), is_stride(size)});
    made->symbols.push_back(shapes::to_python(input.symbol) + " = " + input.source);
  }
  const std::vector<shapes::Guard> guards = env.final_guards();
  made->program = shapes::GuardProgram::compile(env, guards);
  for (const shapes::Guard& guard : guards) {
    const bool is_asked = guard.where.text == kQuestion;
    made->texts.push_back(
        {shapes::to_python(guard.truth), is_asked ? impl_->questions[guard.where.tag].line : UserLine()});
  }
  return made;
}

}  // namespace stator::capture
