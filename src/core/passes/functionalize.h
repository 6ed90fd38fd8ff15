#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/export.h"
#include "core/graph/graph.h"

namespace stator::passes {

/// What becomes of writes to inputs.
enum class WriteBack : uint8_t {
  AtEnd,      // `copy_` nodes at the end write the new contents to the inputs: the graph does what the original does
  AsOutputs,  // the graph writes nothing; the new contents are outputs, before those of the original
};

struct STATOR_API Functionalized {
  std::shared_ptr<graph::Graph> graph;

  /// An input that the original changes.
  struct Mutation {
    uint32_t input;          // position
    graph::ValueId updated;  // the new contents
    bool data, metadata;     // whether its elements change; whether its sizes, strides or storage change
  };
  std::vector<Mutation> mutations;

  /// What an output of the original is: an input or a tensor in the memory of an input, the same tensor as an earlier
  /// output or one in its memory, or a tensor of its own.
  struct OutputFact {
    enum class Kind : uint8_t { Own, Input, ViewOfInput, SameAsOutput, SharesWithOutput };
    Kind kind = Kind::Own;
    uint32_t of = 0;  // position of the input or output
  };
  std::vector<OutputFact> outputs;

  /// Operators without a form that writes nothing. They write to a new copy of their operand.
  std::vector<std::string> on_copies;
};

/// A graph without writes to values of the program: a write makes a new value, views are made again from the new value
/// of their base. Views, random numbers, asserts and states stay as they are. Outputs have the strides and share the
/// memory that they do in the original.
///
/// Throws fake::Unsupported or c10::Error, with the reason, for what it cannot express: calls of Python code,
/// sub-graphs that write to operands, writes to memory whose elements overlap.
STATOR_API Functionalized functionalize(const graph::Graph& graph, WriteBack write_back = WriteBack::AtEnd);

}  // namespace stator::passes
