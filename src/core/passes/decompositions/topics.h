#pragma once

#include <c10/util/ArrayRef.h>

#include "core/passes/decompositions/table.h"

namespace stator::passes {

// The rows of each topic; a file each.
c10::ArrayRef<DecompositionRow> activation_rows();
c10::ArrayRef<DecompositionRow> arithmetic_rows();
c10::ArrayRef<DecompositionRow> loss_rows();
c10::ArrayRef<DecompositionRow> shapes_rows();

inline constexpr c10::ArrayRef<DecompositionRow> (*kTopics[])() = {activation_rows, arithmetic_rows, loss_rows,
                                                                   shapes_rows};

}  // namespace stator::passes
