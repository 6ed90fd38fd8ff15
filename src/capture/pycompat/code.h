#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <vector>

/// Bytecode in one version-neutral form. No other part of Stator reads opcode numbers or oparg layouts.
namespace stator::pycompat {

/// Neutral opcodes, one per row of `opcodes.def`. An opcode that means the same as CPython's has CPython's name.
enum class Op : uint8_t {
#define STATOR_OP(name) name,
#include "capture/pycompat/opcodes.def"
#undef STATOR_OP
  kCount
};
const char* op_name(Op op);

struct Instr {
  Op op;
  int32_t arg = 0;   // meaning per op, normalised: see opcodes.def
  int32_t arg2 = 0;  // second operand of some ops (CALL: index of the keyword-name tuple in co_consts or -1;
                     // LOAD_GLOBAL: 1 when a NULL is pushed first; LOAD_SUPER_ATTR: bit 0 method, bit 1 two-argument)
  int32_t target = -1;  // jumps: index into Code::instrs
  int32_t offset = 0;   // code unit of the group's first unit (EXTENDED_ARG and KW_NAMES included); the second half of
                        // a superinstruction has the offset of the first: execution can't be resumed between them
  int32_t unit = 0;     // code unit of the operation itself: f_lasti while it runs, in units
  int32_t line = 0;     // source line, 0 if none
};

struct ExceptionEntry {
  int32_t start, end, target;  // instruction indices; [start, end)
  int32_t depth;
  bool lasti;
};

/// The decoded form of one code object. Borrowed pointers live as long as `code`.
struct Code {
  PyCodeObject* code = nullptr;
  std::vector<Instr> instrs;
  std::vector<ExceptionEntry> exceptions;
  int argcount = 0, posonlyargcount = 0, kwonlyargcount = 0;
  int nlocalsplus = 0, ncellvars = 0, nfreevars = 0, stacksize = 0, flags = 0;
  PyObject* names = nullptr;             // co_names
  PyObject* consts = nullptr;            // co_consts
  PyObject* localsplus_names = nullptr;  // tuple: locals, cells, frees in slot order
  std::vector<uint8_t> slot_kinds;       // per localsplus slot: bits of SlotKind
  int32_t return_offset = -1;            // offset of a RETURN_VALUE, else of a RETURN_CONST, else -1
  bool return_is_const = false;          // `return_offset` is that of a RETURN_CONST
  bool has_varargs() const { return flags & CO_VARARGS; }
  bool has_varkeywords() const { return flags & CO_VARKEYWORDS; }
  /// Slots of the parameters come first: positional ones, keyword-only ones, `*args`, `**kwargs`.
  int parameter_slots() const { return argcount + kwonlyargcount + has_varargs() + has_varkeywords(); }
  bool is_generator_like() const { return flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR); }
  /// Index of the instruction whose group starts at `offset`, or -1.
  int index_of(int32_t offset) const;
};

enum SlotKind : uint8_t { kSlotLocal = 1, kSlotCell = 2, kSlotFree = 4 };

/// The order of a call's NULL and callable on the stack. From 3.13 on the NULL follows the callable (for PUSH_NULL,
/// LOAD_GLOBAL, LOAD_METHOD, CALL and CALL_FUNCTION_EX); in earlier versions it comes first.
inline constexpr bool kCallableBeforeNull = PY_VERSION_HEX >= 0x030D0000;

/// Decodes a code object once; the code object owns the result. GIL held.
/// Null with a Python error set if the CPython version is not supported.
const Code* decode(PyCodeObject* code);

}  // namespace stator::pycompat
