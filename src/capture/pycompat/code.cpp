#include "capture/pycompat/code.h"

#include <algorithm>
#include <memory>
#include <new>

#include "capture/pycompat/code_tables.h"
#include "capture/pycompat/opcode_rows.h"
#include "capture/pycompat/ref.h"

namespace stator::pycompat {
namespace {

constexpr const char* kNames[] = {
#define STATOR_OP(name) #name,
#include "capture/pycompat/opcodes.def"
#undef STATOR_OP
};

/// Decodes all code units in one pass, then translates jump targets and the exception table to instruction indices. An
/// instruction, the prefixes before it (EXTENDED_ARG, KW_NAMES, ...) and its caches are a group.
class Decoder {
 public:
  Decoder(Code& out, PyObject* bytes)
      : out_(out),
        bytes_(reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes))),
        units_(static_cast<size_t>(PyBytes_GET_SIZE(bytes)) / 2),
        lines_(lines_of(out.code, units_)),
        index_of_unit_(units_ + 1, -1) {}

  /// False if a jump or an exception entry points into the middle of a group.
  bool run() {
    out_.instrs.reserve(units_ / 2 + 1);
    for (size_t unit = 0; unit < units_;) unit = decode_unit(unit);
    index_of_unit_[units_] = static_cast<int32_t>(out_.instrs.size());
    out_.instrs.shrink_to_fit();
    return link_jumps() && decode_exceptions();
  }

 private:
  size_t decode_unit(size_t unit) {
    const uint8_t opcode = bytes_[2 * unit];
    const StatorOpcodeRow row = stator_opcode_rows[opcode];
    const int32_t arg = static_cast<int32_t>(extended_ << 8 | bytes_[2 * unit + 1]);
    size_t next = unit + 1;
    while (next < units_ && stator_opcode_rows[bytes_[2 * next]].rule == kRuleCache) ++next;
    if (group_start_ < 0) group_start_ = static_cast<int32_t>(unit);
    extended_ = 0;
    switch (row.rule) {
      case kRuleExtend:
        extended_ = static_cast<uint32_t>(arg);
        break;
      case kRuleKwNames:
        keyword_names_ = arg;
        break;
      case kRulePrefix:
        break;
      default:
        emit(row, opcode, arg, static_cast<int32_t>(unit), static_cast<int32_t>(next));
    }
    return next;
  }

  void emit(StatorOpcodeRow row, uint8_t opcode, int32_t arg, int32_t unit, int32_t next) {
    index_of_unit_[group_start_] = static_cast<int32_t>(out_.instrs.size());
    Instr instr{static_cast<Op>(row.op), arg, 0, -1, group_start_, unit, lines_[unit]};
    switch (row.rule) {
      case kRuleMissing:
      case kRuleCache:  // a cache that follows no instruction. CPython also gives unknown opcodes as 0, CACHE
        instr.op = Op::UNKNOWN;
        instr.arg = opcode;
        break;
      case kRuleCall:
        instr.arg2 = keyword_names_;
        break;
      case kRuleSend:
        instr.arg2 = row.param;
        instr.target = next + arg;
        break;
      case kRuleForward:
        instr.target = next + arg + row.param;
        break;
      case kRuleBackward:
        instr.target = next - arg;
        break;
      case kRuleCompare:
        instr.arg = arg >> row.param;
        instr.arg2 = row.param == 5 ? arg >> 4 & 1 : 0;
        break;
      case kRuleLowBit:
        instr.arg = arg >> 1;
        instr.arg2 = arg & 1;
        break;
      case kRuleAttribute:
        instr.arg = arg >> 1;
        if (arg & 1) instr.op = Op::LOAD_METHOD;
        break;
      case kRuleSuper:
        instr.arg = arg >> 2;
        instr.arg2 = arg & 3;
        break;
      case kRuleConstArg:
        instr.arg = row.param;
        break;
      case kRuleConstArg2:
        instr.arg2 = row.param;
        break;
      case kRuleIntrinsic1:
        apply_intrinsic(instr, stator_intrinsic_1_rows);
        break;
      case kRuleIntrinsic2:
        apply_intrinsic(instr, stator_intrinsic_2_rows);
        break;
      case kRulePair: {
        Instr second = instr;
        instr.arg = arg >> 4;
        second.arg = arg & 15;
        second.op = static_cast<Op>(row.param);
        out_.instrs.push_back(instr);
        instr = second;
        break;
      }
      default:
        break;
    }
    out_.instrs.push_back(instr);
    group_start_ = -1;
    keyword_names_ = -1;
  }

  static void apply_intrinsic(Instr& instr, const StatorOpcodeRow (&rows)[16]) {
    if (instr.arg < 0 || instr.arg >= 16 || rows[instr.arg].rule == kRuleMissing) return;
    const StatorOpcodeRow row = rows[instr.arg];
    instr.op = static_cast<Op>(row.op);
    instr.arg = 0;
    instr.arg2 = row.rule == kRuleConstArg2 ? row.param : 0;
  }

  int32_t index_at(int64_t unit) const {
    return unit < 0 || unit > static_cast<int64_t>(units_) ? -1 : index_of_unit_[unit];
  }

  bool link_jumps() {
    for (Instr& instr : out_.instrs) {
      if (instr.target < 0) continue;
      instr.target = index_at(instr.target);
      if (instr.target < 0 || instr.target >= static_cast<int32_t>(out_.instrs.size())) return false;
    }
    return true;
  }

  bool decode_exceptions() {
    for (ByteReader table(out_.code->co_exceptiontable); !table.done();) {
      const int32_t start = table.big_endian();
      const int32_t end = start + table.big_endian();
      const int32_t target = table.big_endian();
      const int32_t depth_and_lasti = table.big_endian();
      const ExceptionEntry entry{index_at(start), index_at(end), index_at(target), depth_and_lasti >> 1,
                                 (depth_and_lasti & 1) != 0};
      if (entry.start < 0 || entry.end < 0 || entry.target < 0) return false;
      out_.exceptions.push_back(entry);
    }
    return true;
  }

  Code& out_;
  const uint8_t* bytes_;
  size_t units_;
  std::vector<int32_t> lines_;
  std::vector<int32_t> index_of_unit_;  // by unit: the instruction whose group begins there, or -1
  uint32_t extended_ = 0;
  int32_t keyword_names_ = -1;
  int32_t group_start_ = -1;
};

std::vector<uint8_t> slot_kinds_of(const PyCodeObject* code) {
  // Bits of co_localspluskinds; their names are internal to CPython.
  constexpr uint8_t kFastLocal = 0x20, kFastCell = 0x40, kFastFree = 0x80;
  const auto* raw = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(code->co_localspluskinds));
  std::vector<uint8_t> kinds(code->co_nlocalsplus);
  for (size_t slot = 0; slot < kinds.size(); ++slot) {
    kinds[slot] = (raw[slot] & kFastLocal ? kSlotLocal : 0) | (raw[slot] & kFastCell ? kSlotCell : 0) |
                  (raw[slot] & kFastFree ? kSlotFree : 0);
  }
  return kinds;
}

void find_return(Code& code) {
  for (const Instr& instr : code.instrs) {
    if (instr.op == Op::RETURN_VALUE || (instr.op == Op::RETURN_CONST && code.return_offset < 0)) {
      code.return_offset = instr.offset;
      code.return_is_const = instr.op == Op::RETURN_CONST;
      if (!code.return_is_const) return;
    }
  }
}

std::unique_ptr<Code> decode_new(PyCodeObject* code) {
  if (!stator_opcode_rows_known) {
    PyErr_Format(PyExc_NotImplementedError, "the bytecode of CPython %d.%d is not known", PY_MAJOR_VERSION,
                 PY_MINOR_VERSION);
    return nullptr;
  }
  // Do not read the bytes in the code object: CPython specialises and instruments them in place.
  const Ref bytes = Ref::steal(PyCode_GetCode(code));
  if (!bytes) return nullptr;
  auto out = std::make_unique<Code>();
  out->code = code;
  out->argcount = code->co_argcount;
  out->posonlyargcount = code->co_posonlyargcount;
  out->kwonlyargcount = code->co_kwonlyargcount;
  out->nlocalsplus = code->co_nlocalsplus;
  out->ncellvars = code->co_ncellvars;
  out->nfreevars = code->co_nfreevars;
  out->stacksize = code->co_stacksize;
  out->flags = code->co_flags;
  out->names = code->co_names;
  out->consts = code->co_consts;
  out->localsplus_names = code->co_localsplusnames;
  out->slot_kinds = slot_kinds_of(code);
  if (!Decoder(*out, bytes.get()).run()) {
    PyErr_Format(PyExc_ValueError, "the bytecode of %U is malformed: a target lies inside an instruction",
                 code->co_qualname);
    return nullptr;
  }
  find_return(*out);
  return out;
}

// 3.12 renamed these functions.
#if PY_VERSION_HEX >= 0x030C0000
constexpr auto request_extra_index = PyUnstable_Eval_RequestCodeExtraIndex;
constexpr auto get_extra = PyUnstable_Code_GetExtra;
constexpr auto set_extra = PyUnstable_Code_SetExtra;
#else
constexpr auto request_extra_index = _PyEval_RequestCodeExtraIndex;
constexpr auto get_extra = _PyCode_GetExtra;
constexpr auto set_extra = _PyCode_SetExtra;
#endif

/// -1 with an error set if CPython has no index left.
Py_ssize_t extra_index() {
  static Py_ssize_t index = -1;
  if (index < 0) {
    index = request_extra_index([](void* decoded) { delete static_cast<Code*>(decoded); });
    if (index < 0) PyErr_SetString(PyExc_RuntimeError, "no free index for data attached to code objects");
  }
  return index;
}

}  // namespace

const char* op_name(Op op) { return op < Op::kCount ? kNames[static_cast<size_t>(op)] : "?"; }

int Code::index_of(int32_t offset) const {
  const auto found = std::lower_bound(instrs.begin(), instrs.end(), offset,
                                      [](const Instr& instr, int32_t value) { return instr.offset < value; });
  return found != instrs.end() && found->offset == offset ? static_cast<int>(found - instrs.begin()) : -1;
}

const Code* decode(PyCodeObject* code) {
  const Py_ssize_t index = extra_index();
  if (index < 0) return nullptr;
  auto* object = reinterpret_cast<PyObject*>(code);
  void* known = nullptr;
  if (get_extra(object, index, &known) < 0) return nullptr;
  if (known) return static_cast<const Code*>(known);
  try {
    std::unique_ptr<Code> fresh = decode_new(code);
    if (!fresh || set_extra(object, index, fresh.get()) < 0) return nullptr;
    return fresh.release();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return nullptr;
  }
}

}  // namespace stator::pycompat
