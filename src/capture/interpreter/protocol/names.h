#pragma once

#include <optional>

#include "capture/interpreter/protocol/interpreter.h"

/// Globals, closure cells and imports.
namespace stator::capture {

Value* load_cell(Interpreter& in, CellValue* cell);  // null: unbound
void store_cell(Interpreter& in, CellValue* cell, Value* value);
/// A null value deletes.
void store_global(Interpreter& in, PyObject* globals, PyObject* name, Value* value);
/// The value that the program wrote to a global (null: deleted); empty if it wrote none.
std::optional<Value*> written_global(Interpreter& in, PyObject* globals, PyObject* name);
Value* import_name(Interpreter& in, Frame& frame, PyObject* name, Value* from_list, Value* level);

}  // namespace stator::capture
