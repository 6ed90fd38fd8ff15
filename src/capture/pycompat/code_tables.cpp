#include "capture/pycompat/code_tables.h"

namespace stator::pycompat {

std::vector<int32_t> lines_of(const PyCodeObject* code, size_t units) {
  // Entry kinds of the location table.
  constexpr int kOneLine = 10, kNoColumns = 13, kLong = 14, kNone = 15;
  std::vector<int32_t> lines(units);
  ByteReader table(code->co_linetable);
  int32_t line = code->co_firstlineno;
  for (size_t unit = 0; unit < units && !table.done();) {
    const uint8_t head = table.byte();
    const int kind = head >> 3 & 15;
    const size_t length = (head & 7) + 1;
    if (kind == kNoColumns || kind == kLong) {
      line += table.signed_little_endian();
    } else if (kind >= kOneLine && kind < kNoColumns) {
      line += kind - kOneLine;
    }
    while (!(table.peek() & 0x80)) table.byte();
    const size_t end = std::min(units, unit + length);
    std::fill(lines.begin() + unit, lines.begin() + end, kind == kNone ? 0 : std::max(line, 0));
    unit = end;
  }
  return lines;
}

}  // namespace stator::pycompat
