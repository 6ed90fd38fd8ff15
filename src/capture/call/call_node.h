#pragma once

namespace stator::capture {

/// What the Python object that a `stator::call` node calls may do. Each row may also do what the rows above it do.
enum class CallNode {
  Pure,
  Random,   // draws random numbers
  Writing,  // writes to its tensor arguments
  Lasting,  // has effects that the undo log cannot undo
};

}  // namespace stator::capture
