#pragma once

#include "capture/guards/check.h"

/// Lookups in the tables that are generated from guard_kinds.def and source_kinds.def.
namespace stator::capture {

/// When the check of a guard runs among the checks of its source. Ordered by cost, and so that a check may rely on what
/// earlier stages established: from `Layout` on the class of the object is known to be the expected one.
enum class FactStage : uint8_t {
  Object,    // compares the pointer, or an immutable value
  Class,     // compares the class, or its version
  Layout,    // reads fields of the object
  Contents,  // looks up keys, elements, attributes, or data of a tensor
  Call,      // calls a C function
  Relation,  // compares the objects of several sources, after all of them are loaded
};

/// Properties of a guard kind. guard_kinds.def says what they mean.
enum FactTraits : uint8_t { kNone = 0, kInvariant = 1, kDictContents = 2, kElementTuple = 4 };

struct FactRow {
  FactStage stage;
  uint8_t traits;
};
inline constexpr FactRow kFactRows[] = {
#define STATOR_GUARD(name, stage, traits, unwanted, check, words, describe, saw) {FactStage::stage, traits},
#include "capture/values/guard_kinds.def"
#undef STATOR_GUARD
};

constexpr FactStage stage_of(FactKind kind) { return kFactRows[static_cast<size_t>(kind)].stage; }
constexpr bool has_trait(FactKind kind, FactTraits trait) {
  return (kFactRows[static_cast<size_t>(kind)].traits & trait) != 0;
}

/// The function that checks a guard of this kind.
CheckFn check_of(FactKind kind);
/// The function that finds the object of a source of this kind.
CheckFn load_of(SourceKind kind);

}  // namespace stator::capture
