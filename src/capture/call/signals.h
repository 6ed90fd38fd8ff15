#pragma once

namespace stator::capture {

/// Whether the Python error that is set was raised by the handler of a signal, and so concerns the code that ran then
/// only by chance. GIL held; the error stays set. Runs no code of the program.
bool is_raised_by_signal();

}  // namespace stator::capture
