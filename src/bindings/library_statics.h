#pragma once

namespace stator::bindings {

/// Initialises the function-local statics of torch's and pybind11's headers that code may reach without the GIL. The
/// extension has a copy of them that no guard protects (see core/base/fork_safe.h). Called once, when the module is
/// imported, before there can be such code. GIL held.
void make_library_statics();

}  // namespace stator::bindings
