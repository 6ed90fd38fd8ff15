#pragma once

#include <string>
#include <vector>

#include "capture/values/source.h"
#include "core/shapes/program.h"

/// Guards on the symbolic sizes of an entry's tensors, and on ints that vary: one program for all of them.
namespace stator::capture {

struct ShapeGuards {
  struct Input {
    uint32_t tensor;  // index into the sources of the fact
    int32_t dim;      // -1: the object there is an int
    bool is_stride = false;
  };
  std::vector<Input> inputs;  // what the program reads: sizes and ints
  shapes::GuardProgram program;
  struct Text {
    std::string guard;  // as Python
    UserLine line;      // the program's line that asked
  };
  std::vector<Text> texts;           // by the program's number of the guard
  std::vector<std::string> symbols;  // "s0 = x.size(0)"
};

/// The guards with the slots of their tensors and ints.
struct ShapeCheck {
  const ShapeGuards* guards;
  std::vector<int32_t> slots;

  /// Relies on the tensors having the guarded number of dimensions, and on the class of the ints. An int that does not
  /// fit 64 bits does not satisfy the guards. Runs no code of the program.
  bool holds(PyObject* const* objects) const;
};

/// The guards and the sources of their symbols, as text.
std::string describe(const ShapeGuards& guards);

}  // namespace stator::capture
