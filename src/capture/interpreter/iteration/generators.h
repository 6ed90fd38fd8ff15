#pragma once

#include "capture/interpreter/protocol/interpreter.h"
#include "capture/interpreter/state/generator.h"

namespace stator::capture {

Value* make_generator(Interpreter& in, std::unique_ptr<Frame> frame);
/// `yield from`: sends a value to the inner iterator; null at its end.
Value* send_to(Interpreter& in, Value* iterator, Value* sent);
/// The return value of an iterator that has ended, for `yield from`.
Value* result_of(Interpreter& in, Value* iterator);
/// Breaks if a suspended generator has cleanup code: it would run where the program drops the generator, which is not
/// known.
void check_unfinished(Interpreter& in);
/// Raises the RuntimeError that replaces a StopIteration which leaves a generator's body.
[[noreturn]] void raise_from_stop(Interpreter& in, Value* stop);
/// `yield from` reached the end of the inner generator: its return value takes the iterator's place.
void finish_send(Interpreter& in, Frame& frame, int target);

}  // namespace stator::capture
