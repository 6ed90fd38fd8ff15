#pragma once

/// The table that maps each opcode of the running CPython to a neutral instruction. It is C, because CPython's opcode
/// macros have the names of the neutral opcodes: only opcode_rows.c includes both.

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  kRuleMissing = 0,  // no such opcode in this version
  kRulePlain,        // arg unchanged
  kRuleCache,        // a cache unit: belongs to the instruction before it
  kRuleExtend,       // EXTENDED_ARG
  kRuleKwNames,      // prefix of CALL: arg is the index of the keyword names
  kRulePrefix,       // prefix of CALL without meaning
  kRuleCall,         // arg2: keyword names, or -1
  kRuleForward,      // jump; the target is `param` units after the one in arg
  kRuleBackward,     // jump
  kRuleCompare,      // arg >> param; with param 5, arg2: bit 4, "make it a bool"
  kRuleLowBit,       // arg >> 1, arg2: bit 0
  kRuleAttribute,    // arg >> 1; bit 0 makes it LOAD_METHOD
  kRuleSuper,        // arg >> 2, arg2: bits 0 and 1
  kRuleConstArg,     // arg: param
  kRuleConstArg2,    // arg2: param
  kRuleSend,         // forward jump, arg2: param
  kRulePair,         // two instructions: op on arg >> 4, the op `param` on arg & 15
  kRuleIntrinsic1,
  kRuleIntrinsic2,
} StatorOpcodeRule;

typedef struct {
  uint8_t op;    // Op of code.h
  uint8_t rule;  // StatorOpcodeRule
  uint8_t param;
} StatorOpcodeRow;

/// Indexed by opcode number; an opcode without a row has kRuleMissing.
extern const StatorOpcodeRow stator_opcode_rows[256];
/// Intrinsics that have a neutral opcode, by number; one with kRuleMissing remains CALL_INTRINSIC_n.
extern const StatorOpcodeRow stator_intrinsic_1_rows[16];
extern const StatorOpcodeRow stator_intrinsic_2_rows[16];
/// 0 if this CPython is newer than the table.
extern const int stator_opcode_rows_known;

#ifdef __cplusplus
}
#endif
