#pragma once

#include "capture/interpreter/protocol/interpreter.h"

namespace stator::capture {

/// Executes an instruction; the frame's pc is that of the next one.
using HandlerFunction = void(Interpreter& in, Frame& f, const pycompat::Instr& i);
using Handler = HandlerFunction*;
/// The handler of an opcode; every opcode has a row.
Handler handler_of(pycompat::Op op);

}  // namespace stator::capture
