#pragma once

namespace stator::capture {

/// Gives executors what they need of Python (core/backend/host.h): hooks of saved tensors for checkpointed parts, and
/// the handling of signals between the turns of a loop. Once, at load.
void install_host_hooks();

}  // namespace stator::capture
