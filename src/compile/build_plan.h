#pragma once

#include "compile/explore.h"

namespace stator {

/// The plan of an exploration that has one, but for its graph. The entry's guards must have been built: they number the
/// slots that the plan reads.
std::unique_ptr<capture::Plan> build_plan(const CaptureContext& context, Exploration& explored,
                                          const capture::Entry& entry);

}  // namespace stator
