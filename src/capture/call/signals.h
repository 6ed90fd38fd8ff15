#pragma once

namespace stator::capture {

/// Whether the Python error that is set was raised by a signal handler, and not by the code that was interrupted. GIL
/// held; the error stays set. Runs no code of the program.
bool is_raised_by_signal();

}  // namespace stator::capture
