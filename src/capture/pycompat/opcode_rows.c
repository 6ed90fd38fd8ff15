#include "capture/pycompat/opcode_rows.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <opcode.h>

#if PY_VERSION_HEX < 0x030B0000
#error "CPython 3.11 or newer is needed"
#endif

// Token pasting prevents the argument from being expanded to an opcode number.
enum {
#define STATOR_OP(name) kOp_##name,
#include "capture/pycompat/opcodes.def"
#undef STATOR_OP
};

#define ROW(opcode, neutral, rule, param) [opcode] = {kOp_##neutral, kRule##rule, param}
#define SAME_WITH(name, rule, param) [name] = {kOp_##name, kRule##rule, param}
#define SAME(name) [name] = {kOp_##name, kRulePlain, 0}

#define BEFORE_312 (PY_VERSION_HEX < 0x030C0000)
#define BEFORE_313 (PY_VERSION_HEX < 0x030D0000)

#if PY_VERSION_HEX >= 0x030E0000

const int stator_opcode_rows_known = 0;
const StatorOpcodeRow stator_opcode_rows[256] = {{0}};

#else

const int stator_opcode_rows_known = 1;

const StatorOpcodeRow stator_opcode_rows[256] = {
    ROW(CACHE, NOP, Cache, 0),
    ROW(EXTENDED_ARG, NOP, Extend, 0),
    ROW(RESUME, NOP, Plain, 0),
    SAME(NOP),
    SAME(POP_TOP),
    SAME(PUSH_NULL),
    SAME(COPY),
    SAME(SWAP),
    SAME(LOAD_CONST),
    SAME(LOAD_FAST),
    SAME(STORE_FAST),
    SAME(DELETE_FAST),
    SAME(MAKE_CELL),
    SAME(COPY_FREE_VARS),
    SAME(LOAD_DEREF),
    SAME(STORE_DEREF),
    SAME(DELETE_DEREF),
    SAME_WITH(LOAD_GLOBAL, LowBit, 0),
    SAME(STORE_GLOBAL),
    SAME(DELETE_GLOBAL),
    SAME(LOAD_NAME),
    SAME(STORE_NAME),
    SAME(DELETE_NAME),
    SAME(STORE_ATTR),
    SAME(DELETE_ATTR),
    SAME(IMPORT_NAME),
    SAME(IMPORT_FROM),
    SAME(BINARY_OP),
    SAME(BINARY_SUBSCR),
    SAME(STORE_SUBSCR),
    SAME(DELETE_SUBSCR),
    SAME(UNARY_NEGATIVE),
    SAME(UNARY_NOT),
    SAME(UNARY_INVERT),
    SAME(IS_OP),
    SAME(CONTAINS_OP),
    SAME(BUILD_TUPLE),
    SAME(BUILD_LIST),
    SAME(BUILD_SET),
    SAME(BUILD_MAP),
    SAME(BUILD_CONST_KEY_MAP),
    SAME(BUILD_SLICE),
    SAME(BUILD_STRING),
    SAME(LIST_APPEND),
    SAME(LIST_EXTEND),
    SAME(SET_ADD),
    SAME(SET_UPDATE),
    SAME(MAP_ADD),
    SAME(DICT_UPDATE),
    SAME(DICT_MERGE),
    SAME(UNPACK_SEQUENCE),
    SAME(UNPACK_EX),
    SAME(GET_LEN),
    SAME(MATCH_CLASS),
    SAME(MATCH_KEYS),
    SAME(MATCH_MAPPING),
    SAME(MATCH_SEQUENCE),
    SAME_WITH(CALL, Call, 0),
    SAME(CALL_FUNCTION_EX),
    SAME(MAKE_FUNCTION),
    SAME(LOAD_BUILD_CLASS),
    SAME(LOAD_ASSERTION_ERROR),
    ROW(JUMP_FORWARD, JUMP, Forward, 0),
    ROW(JUMP_BACKWARD, JUMP, Backward, 0),
    ROW(JUMP_BACKWARD_NO_INTERRUPT, JUMP, Backward, 0),
    SAME(GET_ITER),
    SAME(RETURN_VALUE),
    SAME(RETURN_GENERATOR),
    SAME(YIELD_VALUE),
    SAME(GET_YIELD_FROM_ITER),
    SAME(GET_AWAITABLE),
    SAME(GET_AITER),
    SAME(GET_ANEXT),
    SAME(END_ASYNC_FOR),
    SAME(BEFORE_ASYNC_WITH),
    SAME(BEFORE_WITH),
    SAME(WITH_EXCEPT_START),
    SAME(PUSH_EXC_INFO),
    SAME(POP_EXCEPT),
    SAME(CHECK_EXC_MATCH),
    SAME(CHECK_EG_MATCH),
    SAME(RERAISE),
    SAME(RAISE_VARARGS),
    SAME(SETUP_ANNOTATIONS),

#if BEFORE_312
    SAME(LOAD_ATTR),
    SAME(LOAD_METHOD),
    SAME(LOAD_CLASSDEREF),
    SAME(COMPARE_OP),
    SAME(UNARY_POSITIVE),
    SAME(LIST_TO_TUPLE),
    SAME(IMPORT_STAR),
    SAME(PRINT_EXPR),
    SAME(ASYNC_GEN_WRAP),
    SAME(PREP_RERAISE_STAR),
    ROW(PRECALL, NOP, Prefix, 0),
    SAME_WITH(FOR_ITER, Forward, 0),
    SAME_WITH(SEND, Send, 0),
    SAME_WITH(JUMP_IF_TRUE_OR_POP, Forward, 0),
    SAME_WITH(JUMP_IF_FALSE_OR_POP, Forward, 0),
    ROW(POP_JUMP_FORWARD_IF_TRUE, POP_JUMP_IF_TRUE, Forward, 0),
    ROW(POP_JUMP_FORWARD_IF_FALSE, POP_JUMP_IF_FALSE, Forward, 0),
    ROW(POP_JUMP_FORWARD_IF_NONE, POP_JUMP_IF_NONE, Forward, 0),
    ROW(POP_JUMP_FORWARD_IF_NOT_NONE, POP_JUMP_IF_NOT_NONE, Forward, 0),
    ROW(POP_JUMP_BACKWARD_IF_TRUE, POP_JUMP_IF_TRUE, Backward, 0),
    ROW(POP_JUMP_BACKWARD_IF_FALSE, POP_JUMP_IF_FALSE, Backward, 0),
    ROW(POP_JUMP_BACKWARD_IF_NONE, POP_JUMP_IF_NONE, Backward, 0),
    ROW(POP_JUMP_BACKWARD_IF_NOT_NONE, POP_JUMP_IF_NOT_NONE, Backward, 0),
#else
    SAME_WITH(LOAD_ATTR, Attribute, 0),
    SAME_WITH(LOAD_SUPER_ATTR, Super, 0),
    SAME(LOAD_LOCALS),
    SAME(LOAD_FROM_DICT_OR_GLOBALS),
    ROW(LOAD_FROM_DICT_OR_DEREF, LOAD_CLASSDEREF, ConstArg2, 1),
    SAME(LOAD_FAST_AND_CLEAR),
    ROW(LOAD_FAST_CHECK, LOAD_FAST, Plain, 0),
    SAME(BINARY_SLICE),
    SAME(STORE_SLICE),
    SAME_WITH(CALL_INTRINSIC_1, Intrinsic1, 0),
    SAME_WITH(CALL_INTRINSIC_2, Intrinsic2, 0),
    SAME_WITH(POP_JUMP_IF_TRUE, Forward, 0),
    SAME_WITH(POP_JUMP_IF_FALSE, Forward, 0),
    SAME_WITH(POP_JUMP_IF_NONE, Forward, 0),
    SAME_WITH(POP_JUMP_IF_NOT_NONE, Forward, 0),
    SAME(END_FOR),
    SAME(RETURN_CONST),
    SAME_WITH(SEND, Send, 1),
    SAME(END_SEND),
    SAME(CLEANUP_THROW),
    SAME(INTERPRETER_EXIT),
#endif

#if BEFORE_313
    SAME(LOAD_CLOSURE),
    SAME(FORMAT_VALUE),
    ROW(KW_NAMES, NOP, KwNames, 0),
#if !BEFORE_312
    SAME_WITH(COMPARE_OP, Compare, 4),
    SAME_WITH(FOR_ITER, Forward, 1),  // past END_FOR
#endif
#else
    ROW(LOAD_FAST_LOAD_FAST, LOAD_FAST, Pair, kOp_LOAD_FAST),
    ROW(STORE_FAST_LOAD_FAST, STORE_FAST, Pair, kOp_LOAD_FAST),
    ROW(STORE_FAST_STORE_FAST, STORE_FAST, Pair, kOp_STORE_FAST),
    SAME_WITH(COMPARE_OP, Compare, 5),
    SAME(TO_BOOL),
    SAME(CALL_KW),
    SAME(SET_FUNCTION_ATTRIBUTE),
    SAME(CONVERT_VALUE),
    ROW(FORMAT_SIMPLE, FORMAT_VALUE, ConstArg, 0),
    ROW(FORMAT_WITH_SPEC, FORMAT_VALUE, ConstArg, 4),
    SAME_WITH(FOR_ITER, Forward, 2),  // past END_FOR and the POP_TOP that belongs to it
    SAME(EXIT_INIT_CHECK),
#endif
};

#endif

// Intrinsics have the same numbers in every version. An intrinsic whose opcode in 3.11 pushed nothing pushes None; its
// arg2 is then 1.
const StatorOpcodeRow stator_intrinsic_1_rows[16] = {
    ROW(1, PRINT_EXPR, ConstArg2, 1), ROW(2, IMPORT_STAR, ConstArg2, 1), ROW(4, ASYNC_GEN_WRAP, Plain, 0),
    ROW(5, UNARY_POSITIVE, Plain, 0), ROW(6, LIST_TO_TUPLE, Plain, 0),
};
const StatorOpcodeRow stator_intrinsic_2_rows[16] = {
    ROW(1, PREP_RERAISE_STAR, Plain, 0),
};
