#pragma once

/// Marks that torch's functions set (`torch.compiler.allow_in_graph`, `torch._dynamo.disallow_in_graph`) after a
/// function was captured. Torch keeps them in tables of a module, which is not imported for this. GIL held throughout.
namespace stator {

/// Whether one of the tables may have changed since `note_new_marks`. A few loads.
bool may_have_new_marks();
/// Drops the entries that newly marked callables concern.
void note_new_marks();

}  // namespace stator
