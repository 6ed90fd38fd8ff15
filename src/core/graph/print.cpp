#include <algorithm>
#include <sstream>
#include <utility>

#include "core/base/check.h"
#include "core/base/text.h"
#include "core/graph/defaults.h"
#include "core/graph/literals.h"
#include "core/graph/names.h"
#include "core/graph/symbol_names.h"
#include "core/graph/text.h"

namespace stator::graph {
namespace {

constexpr int64_t kMaxInline = 16;

template <class Items, class Each>
std::string joined(const Items& items, const Each& each) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += each(item);
  }
  return text;
}

std::string complex_text(c10::complex<double> value) {
  return concat({"complex(", float_text(value.real()), ", ", float_text(value.imag()), ")"});
}

// Lossless: every dtype is exact in the widest dtype of its kind.
std::string elements_text(const at::Tensor& tensor) {
  auto elements = [&](auto zero, at::ScalarType wide, const auto& spell) {
    auto plain = tensor.detach().resolve_conj().resolve_neg().to(at::kCPU, wide).contiguous();
    const auto* data = plain.template const_data_ptr<decltype(zero)>();
    return joined(std::vector<decltype(zero)>(data, data + plain.numel()), spell);
  };
  if (tensor.is_complex()) return elements(c10::complex<double>(), at::kComplexDouble, complex_text);
  if (tensor.is_floating_point()) return elements(0.0, at::kDouble, float_text);
  if (tensor.scalar_type() == at::kBool) {
    return elements(int64_t(0), at::kLong, [](int64_t v) { return std::string(v != 0 ? "True" : "False"); });
  }
  return elements(int64_t(0), at::kLong, [](int64_t v) { return std::to_string(v); });
}

std::string meta_text(const TensorMeta& meta, SymbolNames& symbols) {
  auto text_of = [&](const Dim& dim) { return dim.symbol ? symbols.renamed(dim.text()) : dim.text(); };
  auto text = concat({dtype_name(meta.dtype), "[", joined(meta.sizes, text_of), "]"});
  const bool is_plain = !meta.has_symbols() && meta.strides == row_major(meta.sizes);
  if (!is_plain) text += concat({"{", joined(meta.strides, text_of), "}"});
  if (meta.device != c10::Device(c10::kCPU)) text += concat({" ", meta.device.str()});
  if (meta.requires_grad) text += " grad";
  return text;
}

class Printer {
 public:
  /// `indent` starts each line but the first: a sub-graph is printed inside its node.
  Printer(const Graph& graph, std::vector<at::Tensor>* tensors, SymbolNames& symbols, std::string indent)
      : graph_(graph),
        names_(value_names(graph)),
        tensors_(tensors),
        symbols_(symbols),
        indent_(std::move(indent)),
        shown_(graph.values.size()),
        latest_(graph.values.size(), kNoDefinition) {}

  /// Without a line break at the end.
  std::string run() {
    out_ << "graph " << quote_text(graph_.name) << " (";
    out_ << joined(graph_.inputs, [&](ValueId id) { return described(id, graph_.values[id].definition); }) << ") {\n";
    for (size_t i = 0; i < graph_.states.size(); ++i)
      begin_line() << "state " << i << state_text(graph_.states[i]) << "\n";
    if (graph_.autocast_region_at_end != 0) begin_line() << "region_at_end " << graph_.autocast_region_at_end << "\n";
    for (size_t i = 1; i < graph_.locations.size(); ++i) print_location(i);
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) print_node(n);
    begin_line() << "return (" << joined(graph_.outputs, [&](ValueId id) { return name(id); }) << ")\n";
    out_ << indent_ << "}";
    return out_.str();
  }

 private:
  std::ostream& begin_line() { return out_ << indent_ << "  "; }

  static std::string state_text(const ExecState& state) {
    std::string text = state.grad_mode ? " grad" : " no_grad";
    if (state.inference_mode) text += " inference";
    if (!state.autocast.empty()) {
      auto devices = joined(state.autocast, [](const auto& entry) {
        return concat({c10::DeviceTypeName(entry.first, true), "=", dtype_name(entry.second)});
      });
      text += concat({" autocast(", devices, ")"});
    }
    if (!state.autocast_cache) text += " no_cache";
    if (state.autocast_region != 0) text += concat({" region ", std::to_string(state.autocast_region)});
    return text;
  }

  void print_location(size_t i) {
    const auto& location = graph_.locations[i];
    begin_line() << "location " << i << " " << quote_text(location.file) << ":" << location.line << " in "
                 << quote_text(location.function);
    if (location.caller != 0) out_ << " from " << location.caller;
    if (!location.module_class.empty())
      out_ << " module " << quote_text(location.module_path) << " of " << quote_text(location.module_class);
    out_ << "\n";
  }

  std::string name(ValueId id) const {
    const auto& name = names_.at(id);
    return concat({"%", is_identifier(name) ? name : quote_text(name)});
  }

  /// The value, with its type and metadata where the text before does not tell them.
  std::string described(ValueId id, DefinitionId definition) {
    if (id == kNoValue) return "_";
    const ValueType type = graph_.values[id].type;
    const bool is_first = !shown_.at(id);
    shown_[id] = true;
    if (type != ValueType::Tensor) return is_first ? concat({name(id), ": ", type_name(type)}) : name(id);
    if (definition == kNoDefinition) return name(id);
    const DefinitionId before = std::exchange(latest_[id], definition);
    if (before != kNoDefinition && graph_.definitions.same(before, definition)) return name(id);
    return concat({name(id), ": ", meta_text(graph_.definitions.meta(definition), symbols_)});
  }

  void print_node(uint32_t index) {
    const Node& node = graph_.nodes[index];
    begin_line() << joined(node.results, [&](const Result& result) {
      auto values = joined(result.values, [&](ValueId id) {
        return described(id, id == kNoValue ? kNoDefinition : graph_.definition_of(index, id));
      });
      return result.is_list ? concat({"[", values, "]"}) : values;
    });
    if (!node.results.empty()) out_ << " = ";
    out_ << node.op.operator_name() << "(" << arguments(node) << ")";
    if (node.state != 0) out_ << " state " << node.state;
    if (node.location != 0) out_ << " at " << node.location;
    print_changes(index);
    out_ << "\n";
  }

  /// What the node changed of values that it does not return.
  void print_changes(uint32_t index) {
    const Node& node = graph_.nodes[index];
    std::vector<std::string> changed;
    for (uint32_t i = 0; i < node.num_definitions; ++i) {
      const DefinitionId definition = node.first_definition + i;
      const ValueId id = graph_.definitions.value_of(definition);
      const DefinitionId before = latest_[id];
      if (before == definition || (before != kNoDefinition && graph_.definitions.same(before, definition))) continue;
      changed.push_back(described(id, definition));
    }
    if (!changed.empty()) out_ << " then (" << joined(changed, [](const std::string& text) { return text; }) << ")";
  }

  std::string arguments(const Node& node) {
    const auto& declared = node.op.schema().arguments();
    auto needed = needed_arguments(node);
    auto text = [&](size_t i) { return argument(node.args[i], *declared[i].real_type()); };
    std::vector<std::string> written;
    for (size_t i = 0; i < needed.positional; ++i) written.push_back(text(i));
    for (size_t i : needed.keywords) written.push_back(concat({declared[i].name(), "=", text(i)}));
    return joined(written, [](const std::string& text) { return text; });
  }

  std::string argument(const Argument& argument, const c10::Type& type) {
    if (argument.kind == Argument::Kind::Value) return name(argument.value);
    if (argument.kind == Argument::Kind::Constant) return constant(argument.constant, type);
    if (argument.kind == Argument::Kind::Graph)
      return Printer(*argument.graph(), tensors_, symbols_, indent_ + "  ").run();
    auto items = joined(argument.items, [&](const Argument& item) { return this->argument(item, type); });
    return concat({"[", items, "]"});
  }

  std::string constant(const c10::IValue& value, const c10::Type& type) {
    if (type.kind() == c10::TypeKind::OptionalType && !value.isNone()) {
      return constant(value, *type.expectRef<c10::OptionalType>().getElementType());
    }
    if (value.isNone()) return "None";
    if (value.isBool()) return value.toBool() ? "True" : "False";
    if (value.isInt()) {
      auto name = enum_name(type.str(), value.toInt());
      return name ? *name : std::to_string(value.toInt());
    }
    if (value.isDouble()) return float_text(value.toDouble());
    if (value.isComplexDouble()) return complex_text(value.toComplexDouble());
    if (value.isString()) return quote_text(value.toStringRef());
    if (value.isDevice()) return concat({"device(", quote_text(value.toDevice().str()), ")"});
    if (value.isTensor()) return tensor(value.toTensor());
    // For the reader only: an object cannot be parsed from text.
    if (value.isPyObject()) return concat({"python(", quote_text(value.toPyObjectHolder()->toStr()), ")"});
    STATOR_CHECK(value.isList(), "no text for a constant of kind ", value.tagKind());
    auto items = joined(value.toListRef(), [&](const c10::IValue& item) { return constant(item, type); });
    return concat({"[", items, "]"});
  }

  std::string tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return "undefined";
    if (tensors_ != nullptr && tensor.numel() > kMaxInline) {
      tensors_->push_back(tensor);
      return concat({"tensor(@", std::to_string(tensors_->size() - 1), ")"});
    }
    bool number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
    if (number && tensor.dim() == 0 && tensor.scalar_type() == widest(tensor)) {
      return concat({"number(", elements_text(tensor), ")"});
    }
    TensorMeta meta = TensorMeta::of(tensor);
    meta.requires_grad = false;
    return concat({"tensor(", meta_text(meta, symbols_), number ? " number" : "", ", [", elements_text(tensor), "])"});
  }

  // The dtype a Python number has as a tensor.
  static at::ScalarType widest(const at::Tensor& tensor) {
    if (tensor.is_complex()) return at::kComplexDouble;
    if (tensor.is_floating_point()) return at::kDouble;
    return tensor.scalar_type() == at::kBool ? at::kBool : at::kLong;
  }

  const Graph& graph_;
  std::vector<std::string> names_;
  std::vector<at::Tensor>* tensors_;
  SymbolNames& symbols_;
  std::string indent_;
  std::vector<bool> shown_;           // values whose metadata is already printed
  std::vector<DefinitionId> latest_;  // by value: the definition that was printed last
  std::ostringstream out_;
};

}  // namespace

std::string to_text(const Graph& graph, std::vector<at::Tensor>* tensors) {
  SymbolNames symbols;
  return Printer(graph, tensors, symbols, "").run() + "\n";
}

}  // namespace stator::graph
