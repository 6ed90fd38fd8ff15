#pragma once

#include "core/fake/rule.h"

/// Questions about layouts, for plain and for symbolic sizes. Symbolic sizes and strides are compared as expressions
/// first: an answer that holds for all values of the symbols needs no guard. Otherwise the question is asked, as the
/// real kernel asks it.
namespace stator::fake {

/// Whether the numbers are equal for all values of the symbols. Never guards.
bool always_equal(const c10::SymInt& a, const c10::SymInt& b);
/// `a < b`.
bool is_less(const c10::SymInt& a, const c10::SymInt& b);

/// As `Tensor::suggest_memory_format`.
at::MemoryFormat suggested_format(const at::Tensor& tensor);
/// As `Tensor::is_contiguous(format)`.
bool is_laid_out(const at::Tensor& tensor, at::MemoryFormat format);
/// Whether the strides of a symbolic tensor are, for all values of the symbols, those of a dense tensor in some order
/// of its dimensions.
bool is_always_dense(const at::Tensor& tensor);

}  // namespace stator::fake
