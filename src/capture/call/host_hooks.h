#pragma once

namespace stator::capture {

/// Gives executors what they need of Python (core/backend/host.h): checkpointed parts are run by
/// torch.utils.checkpoint, and signals are handled between the turns of a loop. Once, at load.
void install_host_hooks();

}  // namespace stator::capture
