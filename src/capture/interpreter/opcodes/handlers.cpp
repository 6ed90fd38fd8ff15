// The table of handlers: a row for each opcode.
#include "capture/interpreter/protocol/handlers.h"

#include <algorithm>

#include "capture/interpreter/opcodes/building.h"
#include "capture/interpreter/opcodes/calling.h"
#include "capture/interpreter/opcodes/class_bodies.h"
#include "capture/interpreter/opcodes/control.h"
#include "capture/interpreter/opcodes/handling.h"
#include "capture/interpreter/opcodes/lookups.h"
#include "capture/interpreter/opcodes/operations.h"
#include "capture/interpreter/opcodes/variables.h"

namespace stator::capture {
using pycompat::Instr;
using pycompat::Op;

namespace {

void on_unsupported(Interpreter&, Frame&, const Instr& i) { throw Break{BreakId::opcode, pycompat::op_name(i.op)}; }

struct HandlerRow {
  Op op;
  Handler handler;
};
constexpr HandlerRow kHandlers[] = {
    {Op::NOP, on_nop},
    {Op::POP_TOP, on_pop_top},
    {Op::PUSH_NULL, on_push_null},
    {Op::COPY, on_copy},
    {Op::SWAP, on_swap},
    {Op::LOAD_CONST, on_load_const},
    {Op::LOAD_FAST, on_load_fast},
    {Op::LOAD_FAST_AND_CLEAR, on_load_fast_and_clear},
    {Op::STORE_FAST, on_store_fast},
    {Op::DELETE_FAST, on_delete_fast},
    {Op::MAKE_CELL, on_make_cell},
    {Op::COPY_FREE_VARS, on_copy_free_vars},
    {Op::LOAD_CLOSURE, on_load_closure},
    {Op::LOAD_DEREF, on_load_deref},
    {Op::STORE_DEREF, on_store_deref},
    {Op::DELETE_DEREF, on_delete_deref},
    {Op::LOAD_CLASSDEREF, on_load_class_deref},
    {Op::LOAD_GLOBAL, on_load_global},
    {Op::STORE_GLOBAL, on_store_global},
    {Op::DELETE_GLOBAL, on_delete_global},
    {Op::LOAD_NAME, on_load_name},
    {Op::STORE_NAME, on_store_name},
    {Op::DELETE_NAME, on_delete_name},
    {Op::LOAD_LOCALS, on_load_locals},
    {Op::LOAD_FROM_DICT_OR_GLOBALS, on_load_from_dict_or_globals},
    {Op::LOAD_ATTR, on_load_attr},
    {Op::LOAD_METHOD, on_load_method},
    {Op::LOAD_SUPER_ATTR, on_load_super_attr},
    {Op::STORE_ATTR, on_store_attr},
    {Op::DELETE_ATTR, on_delete_attr},
    {Op::IMPORT_NAME, on_import_name},
    {Op::IMPORT_FROM, on_import_from},
    {Op::IMPORT_STAR, on_unsupported},
    {Op::BINARY_OP, on_binary_op},
    {Op::BINARY_SUBSCR, on_binary_subscr},
    {Op::BINARY_SLICE, on_binary_slice},
    {Op::STORE_SUBSCR, on_store_subscr},
    {Op::STORE_SLICE, on_store_slice},
    {Op::DELETE_SUBSCR, on_delete_subscr},
    {Op::UNARY_POSITIVE, on_unary},
    {Op::UNARY_NEGATIVE, on_unary},
    {Op::UNARY_NOT, on_unary},
    {Op::UNARY_INVERT, on_unary},
    {Op::TO_BOOL, on_to_bool},
    {Op::COMPARE_OP, on_compare},
    {Op::IS_OP, on_is},
    {Op::CONTAINS_OP, on_contains},
    {Op::BUILD_TUPLE, on_build_tuple},
    {Op::BUILD_LIST, on_build_list},
    {Op::BUILD_SET, on_build_set},
    {Op::BUILD_MAP, on_build_map},
    {Op::BUILD_CONST_KEY_MAP, on_build_const_key_map},
    {Op::BUILD_SLICE, on_build_slice},
    {Op::BUILD_STRING, on_build_string},
    {Op::LIST_APPEND, on_list_append},
    {Op::LIST_EXTEND, on_list_extend},
    {Op::LIST_TO_TUPLE, on_list_to_tuple},
    {Op::SET_ADD, on_set_add},
    {Op::SET_UPDATE, on_set_update},
    {Op::MAP_ADD, on_map_add},
    {Op::DICT_UPDATE, on_dict_update},
    {Op::DICT_MERGE, on_dict_merge},
    {Op::UNPACK_SEQUENCE, on_unpack_sequence},
    {Op::UNPACK_EX, on_unpack_ex},
    {Op::FORMAT_VALUE, on_format_value},
    {Op::CONVERT_VALUE, on_unsupported},
    {Op::GET_LEN, on_get_len},
    {Op::MATCH_CLASS, on_match_class},
    {Op::MATCH_KEYS, on_match_keys},
    {Op::MATCH_MAPPING, on_match_mapping},
    {Op::MATCH_SEQUENCE, on_match_sequence},
    {Op::CALL, on_call},
    {Op::CALL_KW, on_unsupported},
    {Op::CALL_FUNCTION_EX, on_call_function_ex},
    {Op::CALL_INTRINSIC_1, on_call_intrinsic_1},
    {Op::CALL_INTRINSIC_2, on_unsupported},
    {Op::MAKE_FUNCTION, on_make_function},
    {Op::SET_FUNCTION_ATTRIBUTE, on_unsupported},
    {Op::LOAD_BUILD_CLASS, on_load_build_class},
    {Op::LOAD_ASSERTION_ERROR, on_load_assertion_error},
    {Op::JUMP, on_jump},
    {Op::POP_JUMP_IF_TRUE, on_pop_jump_if_true},
    {Op::POP_JUMP_IF_FALSE, on_pop_jump_if_false},
    {Op::POP_JUMP_IF_NONE, on_pop_jump_if_none},
    {Op::POP_JUMP_IF_NOT_NONE, on_pop_jump_if_not_none},
    {Op::JUMP_IF_TRUE_OR_POP, on_jump_if_true_or_pop},
    {Op::JUMP_IF_FALSE_OR_POP, on_jump_if_false_or_pop},
    {Op::GET_ITER, on_get_iter},
    {Op::FOR_ITER, on_for_iter},
    {Op::END_FOR, on_unsupported},
    {Op::RETURN_VALUE, on_return_value},
    {Op::RETURN_CONST, on_return_const},
    {Op::RETURN_GENERATOR, on_return_generator},
    {Op::YIELD_VALUE, on_yield_value},
    {Op::GET_YIELD_FROM_ITER, on_get_yield_from_iter},
    {Op::SEND, on_send},
    {Op::END_SEND, on_end_send},
    {Op::CLEANUP_THROW, on_cleanup_throw},
    {Op::GET_AWAITABLE, on_unsupported},
    {Op::GET_AITER, on_unsupported},
    {Op::GET_ANEXT, on_unsupported},
    {Op::END_ASYNC_FOR, on_unsupported},
    {Op::ASYNC_GEN_WRAP, on_unsupported},
    {Op::BEFORE_ASYNC_WITH, on_unsupported},
    {Op::BEFORE_WITH, on_before_with},
    {Op::WITH_EXCEPT_START, on_with_except_start},
    {Op::PUSH_EXC_INFO, on_push_exc_info},
    {Op::POP_EXCEPT, on_pop_except},
    {Op::CHECK_EXC_MATCH, on_check_exc_match},
    {Op::CHECK_EG_MATCH, on_unsupported},
    {Op::PREP_RERAISE_STAR, on_unsupported},
    {Op::RERAISE, on_reraise},
    {Op::RAISE_VARARGS, on_raise_varargs},
    {Op::SETUP_ANNOTATIONS, on_setup_annotations},
    {Op::PRINT_EXPR, on_unsupported},
    {Op::INTERPRETER_EXIT, on_unsupported},
    {Op::EXIT_INIT_CHECK, on_unsupported},
    {Op::UNKNOWN, on_unsupported},
};

constexpr size_t kOps = static_cast<size_t>(Op::kCount);
struct Table {
  Handler by_op[kOps] = {};
  constexpr Table() {
    for (const HandlerRow& row : kHandlers) by_op[static_cast<size_t>(row.op)] = row.handler;
  }
};
constexpr Table kTable;

/// Asks the rows, not the table: under UBSan, the address of a function is not a constant that can be compared with
/// null.
constexpr bool has_all_opcodes() {
  bool has_row[kOps] = {};
  for (const HandlerRow& row : kHandlers) has_row[static_cast<size_t>(row.op)] = true;
  return std::all_of(std::begin(has_row), std::end(has_row), [](bool has) { return has; });
}
static_assert(std::size(kHandlers) == kOps, "an opcode has no row, or two");
static_assert(has_all_opcodes(), "an opcode has no row");

}  // namespace

Handler handler_of(Op op) { return kTable.by_op[static_cast<size_t>(op)]; }

}  // namespace stator::capture
