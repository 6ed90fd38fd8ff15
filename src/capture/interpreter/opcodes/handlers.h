#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// What an instruction does; the frame's pc stands behind it.
using HandlerFunction = void(Interpreter& in, Frame& f, const pycompat::Instr& i);
using Handler = HandlerFunction*;
/// The handler of an opcode; every opcode has a row.
Handler handler_of(pycompat::Op op);

}  // namespace stator::capture
