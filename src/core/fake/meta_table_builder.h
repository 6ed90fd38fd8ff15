#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/KernelFunction.h>

#include <string>
#include <unordered_map>

namespace stator::fake {

/// Collects torch's C++ shape functions by operator name, boxed. The boxing code is compiled once per signature.
class MetaTableBuilder {
 public:
  using Table = std::unordered_map<std::string, c10::KernelFunction>;

  template <class Function>
  void add(const char* name, const char* overload, Function* function) {
    std::string key(name);
    key.append(".").append(overload);
    table_.emplace(std::move(key), c10::KernelFunction::makeFromUnboxedRuntimeFunction(function));
  }

  Table take() { return std::move(table_); }

 private:
  Table table_;
};

/// Written by tools/gen_meta_table.py.
void fill_meta_table_0(MetaTableBuilder& table);
void fill_meta_table_1(MetaTableBuilder& table);
void fill_meta_table_2(MetaTableBuilder& table);
void fill_meta_table_3(MetaTableBuilder& table);

}  // namespace stator::fake
