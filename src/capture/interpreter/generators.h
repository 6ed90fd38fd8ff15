#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// A generator made in the program: its frame runs inside the capture, one `next` at a time.
struct GeneratorValue final : IteratorValue {
  std::unique_ptr<Frame> frame;
  bool started = false, finished = false;
  Value* result = nullptr;  // of the return statement

  Value* next(Interpreter& in) override;
  PyTypeObject* type() const override { return &PyGen_Type; }
};

Value* make_generator(Interpreter& in, std::unique_ptr<Frame> frame);

}  // namespace stator::capture
