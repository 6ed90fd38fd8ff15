#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <vector>

/// Readers for the byte tables of a code object.
namespace stator::pycompat {

/// Decodes the variable-length integers of the exception table (big-endian) and of the location table (little-endian).
/// Reads zeros past the end.
class ByteReader {
 public:
  explicit ByteReader(PyObject* bytes)
      : at_(reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes))), end_(at_ + PyBytes_GET_SIZE(bytes)) {}
  bool done() const { return at_ >= end_; }
  uint8_t byte() { return done() ? 0 : *at_++; }
  uint8_t peek() const { return done() ? 0x80 : *at_; }

  int32_t big_endian() {
    uint8_t b = byte();
    uint32_t value = b & 63;
    while (b & 64) {
      b = byte();
      value = value << 6 | (b & 63);
    }
    return static_cast<int32_t>(value);
  }
  int32_t little_endian() {
    uint8_t b = byte();
    uint32_t value = b & 63;
    for (int shift = 6; b & 64; shift += 6) {
      b = byte();
      value |= static_cast<uint32_t>(b & 63) << std::min(shift, 31);
    }
    return static_cast<int32_t>(value);
  }
  int32_t signed_little_endian() {
    const uint32_t value = static_cast<uint32_t>(little_endian());
    const int32_t magnitude = static_cast<int32_t>(value >> 1);
    return value & 1 ? -magnitude : magnitude;
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

/// Source line of every code unit, 0 for units without one. Takes time linear in the table.
std::vector<int32_t> lines_of(const PyCodeObject* code, size_t units);

}  // namespace stator::pycompat
