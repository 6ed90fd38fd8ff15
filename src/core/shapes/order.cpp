#include <algorithm>
#include <cctype>

#include "core/shapes/env.h"

namespace stator::shapes {
namespace {

/// By letters, then by the number at the end: s9 before s10.
int compare_names(const std::string& a, const std::string& b) {
  auto split = [](const std::string& name) {
    size_t digits = name.size();
    while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0) --digits;
    return digits;
  };
  const size_t x = split(a), y = split(b);
  if (const int order = a.compare(0, x, b, 0, y); order != 0) return order;
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

int compare_numbers(WideInt a, WideInt b) { return a < b ? -1 : a > b ? 1 : 0; }

int compare_constants(const Value& a, const Value& b) {
  if (const int order = compare_numbers(a.integer(), b.integer()); order != 0) return order;
  return compare_numbers(std::bit_cast<int64_t>(a.real()), std::bit_cast<int64_t>(b.real()));
}

}  // namespace

int compare_structure(Ex a, Ex b) {
  while (a != b) {
    if (a->op == Op::Symbol && b->op == Op::Symbol) {
      return compare_names(a->symbol->name, b->symbol->name);
    }
    if (const int order = compare_numbers(a->depth, b->depth); order != 0) return order;
    if (const int order = compare_numbers(a->tree_size, b->tree_size); order != 0) return order;
    if (a->op != b->op) return a->op < b->op ? -1 : 1;
    if (a->type != b->type) return a->type < b->type ? -1 : 1;
    if (a->is_constant()) return compare_constants(a->constant, b->constant);
    if (const int order = compare_numbers(a->count, b->count); order != 0) return order;
    if (const int order = compare_numbers(a->addend, b->addend); order != 0) return order;
    if (a->numbers != nullptr) {
      for (uint32_t i = 0; i < a->count; ++i)
        if (const int order = compare_numbers(a->numbers[i], b->numbers[i]); order != 0) return order;
    }
    uint32_t i = 0;
    // The last operand is compared by the loop, so that chains need no recursion.
    for (; i + 1 < a->count; ++i)
      if (const int order = compare_structure(a->operands[i], b->operands[i]); order != 0) return order;
    Ex x = a->operands[i], y = b->operands[i];
    a = x;
    b = y;
  }
  return 0;
}

}  // namespace stator::shapes
