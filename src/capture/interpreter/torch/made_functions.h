#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// A class with the backward of an autograd function that the program makes: the graph keeps it. Its forward is left
/// out. Breaks unless the functions in it are the same in every run: without closures and defaults.
Ref lasting_function(Interpreter& in, const Prototype& made);

}  // namespace stator::capture
