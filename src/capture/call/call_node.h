#pragma once

namespace stator::capture {

/// What is known of the Python object that a node calls.
enum class CallNode {
  Pure,
  Random,   // it may use random numbers
  Writing,  // and also write to its arguments
  Lasting,  // and also do what cannot be taken back
};

}  // namespace stator::capture
