#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// A generator made in the program: its frame runs inside the capture, from one `yield` to the next.
struct GeneratorValue final : IteratorValue {
  std::unique_ptr<Frame> frame;
  bool started = false, finished = false, running = false;
  bool temporary = false;   // only the loop that iterates it has it
  Value* result = nullptr;  // of the return statement

  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return &PyGen_Type; }

  /// Null at the end, as `next`.
  Value* send(Interpreter& in, Value* value);
  Value* raise_inside(Interpreter& in, Value* exception);
  void close(Interpreter& in);
  bool fresh() const { return !started; }
  /// Whether it is suspended where leaving it would run code of the program.
  bool has_cleanup() const;

 private:
  Value* resume(Interpreter& in);
  /// The iterator that a `yield from` is waiting for, or null.
  Value* delegate() const;
  /// Closes that one; gives what it raised, or null.
  Value* close_inner(Interpreter& in);
};

Value* make_generator(Interpreter& in, std::unique_ptr<Frame> frame);
/// `yield from`: hands `sent` on to the iterator below it; null at its end.
Value* send_to(Interpreter& in, Value* iterator, Value* sent);
/// The value that an ended iterator left for `yield from`.
Value* result_of(Interpreter& in, Value* iterator);
/// A program that drops a half-run generator runs its cleanup then; nobody tells when that is.
void check_unfinished(Interpreter& in);
/// A StopIteration that left a generator's body becomes the RuntimeError that the program sees.
[[noreturn]] void raise_from_stop(Interpreter& in, Value* stop);
/// `yield from` reached the end of the inner generator: its return value takes the iterator's place.
void finish_send(Interpreter& in, Frame& frame, int target);

}  // namespace stator::capture
