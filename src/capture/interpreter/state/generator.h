#pragma once

#include <memory>

#include "capture/interpreter/state/frame.h"

namespace stator::capture {

/// A generator that the program made: its frame runs inside the capture, from one `yield` to the next.
struct GeneratorValue final : IteratorValue {
  std::unique_ptr<Frame> frame;
  bool started = false, finished = false, running = false;
  bool temporary = false;   // only the loop that iterates it holds it
  Value* result = nullptr;  // of the return statement

  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return &PyGen_Type; }

  /// Null at the end, like `next`.
  Value* send(Interpreter& in, Value* value);
  Value* raise_inside(Interpreter& in, Value* exception);
  void close(Interpreter& in);
  bool fresh() const { return !started; }
  /// Whether it is suspended at a place where closing it would run code of the program.
  bool has_cleanup() const;

 private:
  Value* resume(Interpreter& in);
  /// The iterator that a `yield from` is waiting for, or null.
  Value* delegate() const;
  /// Closes that iterator; returns the exception that it raised, or null.
  Value* close_inner(Interpreter& in);
};

}  // namespace stator::capture
