#pragma once

#include "compile/explore.h"

namespace stator {

/// The plan of an exploration that has one, but for its graph. The entry's guards must have been built: they number the
/// slots that the plan reads. `hides_modes`: torch-function modes are active, or overriding is switched off, where the
/// capture began.
std::unique_ptr<capture::Plan> build_plan(Exploration& explored, const capture::Entry& entry, bool hides_modes);

}  // namespace stator
