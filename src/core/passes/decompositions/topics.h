#pragma once

#include <c10/util/ArrayRef.h>

#include "core/passes/decompositions/table.h"

namespace stator::passes {

// The rows of each topic; a file each.
c10::ArrayRef<DecompositionRow> activation_rows();
c10::ArrayRef<DecompositionRow> arithmetic_rows();
c10::ArrayRef<DecompositionRow> factories_rows();
c10::ArrayRef<DecompositionRow> indexing_rows();
c10::ArrayRef<DecompositionRow> loss_rows();
c10::ArrayRef<DecompositionRow> loss_backward_rows();
c10::ArrayRef<DecompositionRow> norms_rows();
c10::ArrayRef<DecompositionRow> pointwise_rows();
c10::ArrayRef<DecompositionRow> shapes_rows();
c10::ArrayRef<DecompositionRow> views_rows();

inline constexpr c10::ArrayRef<DecompositionRow> (*kTopics[])() = {
    activation_rows,    arithmetic_rows, factories_rows, indexing_rows, loss_rows,
    loss_backward_rows, norms_rows,      pointwise_rows, shapes_rows,   views_rows};

}  // namespace stator::passes
