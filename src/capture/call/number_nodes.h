#pragma once

namespace stator::capture {

/// Lets core see the nodes of symbolic floats and truths, which torch's bindings wrap in nodes of their own. May be
/// called many times.
void install_number_nodes();

}  // namespace stator::capture
