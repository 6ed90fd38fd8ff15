#pragma once

#include <optional>

#include "capture/interpreter/interpreter.h"

/// Globals, closure cells and imports.
namespace stator::capture {

Value* load_cell(Interpreter& in, CellValue* cell);  // null: unbound
void store_cell(Interpreter& in, CellValue* cell, Value* value);
/// A null value deletes.
void store_global(Interpreter& in, PyObject* globals, PyObject* name, Value* value);
/// What the program wrote to these globals under that name; a null value was deleted.
std::optional<Value*> written_global(Interpreter& in, PyObject* globals, PyObject* name);
Value* import_name(Interpreter& in, Frame& frame, PyObject* name, Value* from_list, Value* level);

}  // namespace stator::capture
