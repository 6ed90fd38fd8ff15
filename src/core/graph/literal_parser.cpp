#include "core/graph/literal_parser.h"

#include <ATen/core/List.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/base/text.h"
#include "core/graph/literals.h"
#include "core/graph/verify.h"
#include "core/shapes/env.h"

namespace stator::graph {
namespace {

template <class T>
c10::IValue typed_list(const std::vector<c10::IValue>& items) {
  c10::List<T> list;
  for (const auto& item : items) list.push_back(item.to<T>());
  return list;
}

}  // namespace

const c10::Type& without_optional(const c10::Type& type) {
  if (type.kind() != c10::TypeKind::OptionalType) return type;
  return without_optional(*type.expectRef<c10::OptionalType>().getElementType());
}

c10::TypePtr list_element(const c10::Type& type) {
  const auto& plain = without_optional(type);
  return plain.kind() == c10::TypeKind::ListType ? plain.expectRef<c10::ListType>().getElementType() : nullptr;
}

c10::IValue LiteralParser::constant(const c10::Type& type, const c10::Type& real_type) {
  if (in_.accept_word("None")) return {};
  if (in_.accept_word("undefined")) return at::Tensor();
  if (in_.peek() == '"') return in_.string();
  if (in_.accept_word("device")) return device_literal();
  if (in_.accept_word("tensor")) return tensor();
  if (in_.accept_word("number")) return wrapped_number();
  if (in_.peek() == '[') return constant_list(type);
  return scalar(without_optional(real_type).str());
}

c10::IValue LiteralParser::scalar(const std::string& type_name) {
  if (in_.accept_word("True")) return true;
  if (in_.accept_word("False")) return false;
  if (in_.accept_word("complex")) {
    in_.expect("(");
    auto real = floating(in_.number());
    in_.expect(",");
    auto imaginary = floating(in_.number());
    in_.expect(")");
    return c10::complex<double>(real, imaginary);
  }
  auto text = in_.number();
  if (auto value = enum_value(type_name, text)) return *value;
  bool is_integer = text.find_first_not_of("-0123456789") == std::string::npos;
  if (!is_integer) return floating(text);
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) in_.fail(concat({"no integer: ", text}));
  return value;
}

double LiteralParser::floating(const std::string& text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) in_.fail(concat({"no constant: ", text}));
  return value;
}

c10::IValue LiteralParser::constant_list(const c10::Type& type) {
  auto element = list_element(type);
  if (element == nullptr) in_.fail(concat({"a list where ", type.str(), " is wanted"}));
  std::vector<c10::IValue> items;
  in_.expect("[");
  while (!in_.accept("]")) {
    if (!items.empty()) in_.expect(",");
    items.push_back(constant(*element, *element));
    if (!constant_fits(items.back(), *element)) in_.fail(concat({"the list's items are not of type ", element->str()}));
  }
  switch (element->kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return typed_list<int64_t>(items);
    case c10::TypeKind::FloatType:
      return typed_list<double>(items);
    case c10::TypeKind::BoolType:
      return typed_list<bool>(items);
    default:
      break;
  }
  c10::impl::GenericList list(element);
  for (auto& item : items) list.push_back(std::move(item));
  return list;
}

c10::Device LiteralParser::device(const std::string& text) {
  try {
    return c10::Device(text);
  } catch (const c10::Error&) {
    in_.fail(concat({"no device: ", text}));
  }
}

c10::IValue LiteralParser::device_literal() {
  in_.expect("(");
  auto found = device(in_.string());
  in_.expect(")");
  return found;
}

std::vector<Dim> LiteralParser::dims(const char* open, const char* close) {
  std::vector<Dim> out;
  in_.expect(open);
  while (!in_.accept(close)) {
    if (!out.empty()) in_.expect(",");
    const std::string text = in_.expression();
    int64_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) {
      out.push_back({number, nullptr});
      continue;
    }
    if (!symbols_) symbols_ = shapes::ShapeEnv::make();
    const shapes::Expr symbol = symbols_->parse(text);
    if (!symbol || symbol->type != shapes::Type::Int || symbol->is_constant()) in_.fail(concat({"no size: ", text}));
    out.push_back({0, symbol});
  }
  return out;
}

c10::ScalarType LiteralParser::dtype() { return dtype_named(in_.identifier()); }

c10::ScalarType LiteralParser::dtype_named(const std::string& name) {
  auto found = find_dtype(name);
  if (!found) in_.fail(concat({"no dtype: ", name}));
  return *found;
}

TensorMeta LiteralParser::meta(c10::ScalarType dtype, bool* number) {
  TensorMeta meta;
  meta.dtype = dtype;
  meta.sizes = dims("[", "]");
  meta.strides = in_.peek() == '{' ? dims("{", "}") : row_major(meta.sizes);
  while (std::isalpha(static_cast<unsigned char>(in_.peek())) != 0) {
    auto word = in_.identifier();
    if (word == "grad" && number == nullptr) {
      meta.requires_grad = true;
    } else if (word == "number" && number != nullptr) {
      *number = true;
    } else {
      meta.device = device(in_.accept(":") ? concat({word, ":", std::to_string(in_.index())}) : word);
    }
  }
  return meta;
}

c10::IValue LiteralParser::tensor() {
  in_.expect("(");
  if (in_.accept("@")) {
    auto index = in_.index();
    in_.expect(")");
    if (index >= tensors_.size()) in_.fail(concat({"no tensor @", std::to_string(index), " was given"}));
    return tensors_[index];
  }
  bool number = false;
  auto meta = this->meta(dtype(), &number);
  if (meta.has_symbols()) in_.fail("a constant with symbolic sizes");
  in_.expect(",");
  in_.expect("[");
  std::vector<c10::IValue> elements;
  while (!in_.accept("]")) {
    if (!elements.empty()) in_.expect(",");
    elements.push_back(scalar());
  }
  in_.expect(")");
  return make_tensor(meta, elements, number);
}

c10::IValue LiteralParser::wrapped_number() {
  in_.expect("(");
  auto value = scalar();
  in_.expect(")");
  TensorMeta meta;
  meta.dtype = value.toScalar().type();
  return make_tensor(meta, {value}, true);
}

at::Tensor LiteralParser::make_tensor(const TensorMeta& meta, const std::vector<c10::IValue>& elements, bool number) {
  auto numbers = [](const std::vector<Dim>& dims) {
    std::vector<int64_t> out;
    for (const Dim& dim : dims) out.push_back(dim.number);
    return out;
  };
  auto data = at::empty(numbers(meta.sizes), at::TensorOptions().dtype(meta.dtype));
  if (data.numel() != static_cast<int64_t>(elements.size()) || meta.sizes.size() != meta.strides.size()) {
    in_.fail("sizes, strides and data of the tensor do not agree");
  }
  auto flat = data.view(-1);
  for (size_t i = 0; i < elements.size(); ++i) flat.select(0, static_cast<int64_t>(i)).fill_(elements[i].toScalar());
  auto result = at::empty_strided(numbers(meta.sizes), numbers(meta.strides), data.options().device(meta.device));
  result.copy_(data);
  if (number) result.unsafeGetTensorImpl()->set_wrapped_number(true);
  return result;
}

}  // namespace stator::graph
