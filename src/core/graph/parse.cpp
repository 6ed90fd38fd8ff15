#include <algorithm>
#include <cctype>
#include <optional>
#include <unordered_map>

#include "core/base/text.h"
#include "core/graph/control_ops.h"
#include "core/graph/literal_parser.h"
#include "core/graph/text.h"
#include "core/graph/verify.h"
#include "core/shapes/number_ops.h"

namespace stator::graph {
namespace {

class Parser : LiteralParser {
 public:
  using LiteralParser::LiteralParser;

  std::shared_ptr<Graph> run() {
    in_.expect("graph");
    graph();
    if (!in_.at_end()) in_.fail("something after the graph");
    if (auto problem = find_problem(*graph_); !problem.empty()) throw TextError(problem);
    return graph_;
  }

 private:
  /// Parses the text after the word `graph`.
  void graph() {
    graph_->name = in_.string();
    in_.expect("(");
    while (!in_.accept(")")) {
      if (!graph_->inputs.empty()) in_.expect(",");
      define(UINT32_MAX);
    }
    in_.expect("{");
    while (in_.accept_word("state")) state();
    if (in_.accept_word("region_at_end")) graph_->autocast_region_at_end = in_.index();
    while (in_.accept_word("location")) location();
    while (!in_.accept_word("return")) node();
    in_.expect("(");
    while (!in_.accept(")")) {
      if (!graph_->outputs.empty()) in_.expect(",");
      graph_->outputs.push_back(use());
    }
    in_.expect("}");
  }

  /// Parses a sub-graph, which has its own values.
  Argument sub_graph() {
    Parser inner(*this, std::make_shared<Graph>());
    inner.graph();
    in_ = inner.in_;
    return Argument::of_graph(inner.graph_);
  }
  Parser(const Parser& outer, std::shared_ptr<Graph> graph) : LiteralParser(outer), graph_(std::move(graph)) {}

  void state() {
    if (in_.index() != graph_->states.size()) in_.fail("states out of order");
    auto& state = graph_->states.emplace_back();
    state.grad_mode = !in_.accept_word("no_grad");
    if (state.grad_mode) in_.expect("grad");
    state.inference_mode = in_.accept_word("inference");
    if (in_.accept_word("autocast")) {
      in_.expect("(");
      while (!in_.accept(")")) {
        if (!state.autocast.empty()) in_.expect(",");
        auto type = device(in_.identifier()).type();
        in_.expect("=");
        state.autocast.emplace_back(type, dtype());
      }
    }
    state.autocast_cache = !in_.accept_word("no_cache");
    if (in_.accept_word("region")) state.autocast_region = in_.index();
  }

  void location() {
    if (in_.index() != graph_->locations.size()) in_.fail("locations out of order");
    Location location;
    location.file = in_.string();
    in_.expect(":");
    location.line = static_cast<int>(in_.integer());
    in_.expect("in");
    location.function = in_.string();
    if (in_.accept_word("from")) location.caller = in_.index();
    if (in_.accept_word("module")) {
      location.module_path = in_.string();
      in_.expect("of");
      location.module_class = in_.string();
    }
    graph_->locations.push_back(std::move(location));
  }

  std::string value_name() {
    in_.expect("%");
    return in_.peek() == '"' ? in_.string() : in_.identifier();
  }

  ValueId use() {
    auto name = value_name();
    auto found = ids_.find(name);
    if (found == ids_.end()) in_.fail(concat({"%", name, " is not defined here"}));
    return found->second;
  }

  /// A value on the left of `=` (or an input, without producer): a new or an existing one.
  ValueId define(uint32_t producer) {
    auto name = value_name();
    auto [place, fresh] = ids_.emplace(name, static_cast<ValueId>(graph_->values.size()));
    bool is_input = producer == UINT32_MAX;
    if (!fresh && is_input) in_.fail(concat({"%", name, " is an input twice"}));
    if (fresh && is_input) graph_->add_input(name, {});
    if (fresh && !is_input) {
      graph_->add_result_value(producer, {});
      graph_->values.back().name = name;
    }
    if (in_.accept(":")) describe(place->second, producer, fresh);
    return place->second;
  }

  /// The type of a value, or the metadata of a definition.
  void describe(ValueId id, uint32_t producer, bool fresh) {
    ValueInfo& value = graph_->values[id];
    const std::string word = in_.identifier();
    if (in_.peek() == '[') {
      if (value.type != ValueType::Tensor) in_.fail("metadata of a value that is not a tensor");
      const TensorMeta meta = this->meta(dtype_named(word), nullptr);
      if (producer == UINT32_MAX)
        value.definition = graph_->definitions.add(id, meta);
      else
        graph_->define(producer, id, meta);
      return;
    }
    auto type = find_type(word);
    if (!type) in_.fail(concat({"no type: ", word}));
    if (!fresh && *type != value.type) in_.fail("a value of two types");
    value.type = *type;
  }

  c10::SmallVector<Result, 1> results(uint32_t index) {
    c10::SmallVector<Result, 1> results;
    auto one = [&] {
      if (in_.accept_word("_")) return kNoValue;
      return define(index);
    };
    do {
      auto& result = results.emplace_back();
      if (in_.accept("[")) {
        result.is_list = true;
        while (!in_.accept("]")) {
          if (!result.values.empty()) in_.expect(",");
          result.values.push_back(one());
        }
      } else {
        result.values.push_back(one());
      }
    } while (in_.accept(","));
    in_.expect("=");
    return results;
  }

  bool results_follow() {
    if (in_.peek() == '%' || in_.peek() == '[') return true;
    auto saved = in_;
    bool hole = in_.accept_word("_");
    in_ = saved;
    return hole;
  }

  void node() {
    auto index = static_cast<uint32_t>(graph_->nodes.size());
    bool with_results = results_follow();
    // Results come first in the text, but are defined only after the arguments are parsed.
    auto before = in_;
    if (with_results) skip_results();
    auto name = in_.operator_name();
    auto scope = name.find("::");
    auto dot = name.find('.', scope == std::string::npos ? 0 : scope);
    auto op = c10::Dispatcher::singleton().findSchema(
        {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
    if (!op) in_.fail(concat({"no operator ", name}));
    auto& node = graph_->add_node(*op);
    node.args = arguments(op->schema());
    if (in_.accept_word("state")) node.state = in_.index();
    if (in_.accept_word("at")) node.location = in_.index();
    auto after = in_;
    if (with_results) {
      in_ = before;
      auto made = results(index);
      graph_->nodes[index].results = std::move(made);
      in_ = after;
    }
    if (!in_.accept_word("then")) return;
    in_.expect("(");
    do {
      const ValueId id = use();
      in_.expect(":");
      describe(id, index, false);
    } while (in_.accept(","));
    in_.expect(")");
  }

  /// Sizes and strides may have comparisons in them. A bracket may also open a list of results.
  void skip_dims() {
    const char* close = in_.accept("[") ? "]" : "}";
    if (*close == '}') in_.expect("{");
    if (in_.peek() == '%') return;
    while (!in_.accept(close)) {
      if (in_.expression().empty()) in_.fail("expected a size");
      in_.accept(",");
    }
  }

  void skip_results() {
    // Quoted names may hold any character, so they are skipped as strings.
    while (in_.peek() != '=') {
      if (in_.at_end()) in_.fail("expected '='");
      if (in_.peek() == '"') {
        in_.string();
      } else if (in_.peek() == '[' || in_.peek() == '{') {
        skip_dims();
      } else {
        in_.accept(std::string(1, in_.peek()));
      }
    }
    in_.expect("=");
  }

  std::vector<Argument> arguments(const c10::FunctionSchema& schema) {
    const auto& declared = schema.arguments();
    std::vector<std::optional<Argument>> given(declared.size());
    size_t position = 0;
    bool first = true;
    in_.expect("(");
    while (!in_.accept(")")) {
      if (!first) in_.expect(",");
      first = false;
      size_t i = position;
      if (auto keyword = keyword_of(schema)) {
        i = *keyword;
      } else if (position >= declared.size() || declared[position].kwarg_only()) {
        in_.fail(concat({"too many arguments for ", schema.name()}));
      } else {
        ++position;
      }
      if (given[i]) in_.fail(concat({"argument ", declared[i].name(), " twice"}));
      given[i] = argument(declared[i]);
    }
    std::vector<Argument> args;
    for (size_t i = 0; i < declared.size(); ++i) {
      if (!given[i] && !declared[i].default_value()) in_.fail(concat({"argument ", declared[i].name(), " is missing"}));
      args.push_back(given[i] ? std::move(*given[i]) : Argument::of_constant(*declared[i].default_value()));
    }
    return args;
  }

  /// The index of the argument named by `name=`, if that is next.
  std::optional<size_t> keyword_of(const c10::FunctionSchema& schema) {
    auto saved = in_;
    if (std::isalpha(static_cast<unsigned char>(in_.peek())) != 0 || in_.peek() == '_') {
      auto name = in_.identifier();
      if (in_.accept("=")) {
        auto index = schema.argumentIndexWithName(name);
        if (!index) in_.fail(schema.name() + " has no argument " + name);
        return static_cast<size_t>(*index);
      }
    }
    in_ = saved;
    return std::nullopt;
  }

  Argument argument(const c10::Argument& declared) {
    if (in_.peek() == '%') return Argument::of_value(use());
    if (in_.accept_word("graph")) return sub_graph();
    auto element = list_element(*declared.type());
    bool tensors = element != nullptr && without_optional(*element).kind() == c10::TypeKind::TensorType;
    bool numbers = element != nullptr && is_number_type(*element);
    auto before = in_;
    if (numbers && in_.peek() == '[') {
      if (auto list = this->list(*element); has_values(list)) return list;
      in_ = before;
    }
    if (!tensors || in_.peek() != '[') return Argument::of_constant(constant(*declared.type(), *declared.real_type()));
    return list(*element);
  }

  static bool has_values(const Argument& list) {
    return std::any_of(list.items.begin(), list.items.end(),
                       [](const Argument& item) { return item.kind == Argument::Kind::Value; });
  }

  Argument list(const c10::Type& element) {
    std::vector<Argument> items;
    in_.expect("[");
    while (!in_.accept("]")) {
      if (!items.empty()) in_.expect(",");
      items.push_back(in_.peek() == '%' ? Argument::of_value(use())
                                        : Argument::of_constant(constant(element, element)));
    }
    return Argument::of_list(std::move(items));
  }

  std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  std::unordered_map<std::string, ValueId> ids_;
};

}  // namespace

std::shared_ptr<Graph> from_text(std::string_view text, const std::vector<at::Tensor>& tensors) {
  shapes::install_number_ops();
  install_control_ops();
  return Parser(text, tensors).run();
}

}  // namespace stator::graph
