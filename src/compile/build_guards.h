#pragma once

#include "compile/explore.h"

namespace stator {

/// Makes the entry's check array of the facts that the exploration recorded, after the user's filter was applied. Takes
/// the sources out of the interpreter. Puts the rows that the user's export callback wants into `exported`; null if
/// there is none. False with a Python error set if a callback failed.
bool build_guards(const CaptureContext& context, Exploration& explored, capture::Entry& entry, Ref& exported);

}  // namespace stator
