#pragma once

#include "capture/interpreter/interpreter.h"

/// Instructions that only stand in the body of a class, or work there in another way.
namespace stator::capture {

void on_load_build_class(Interpreter& in, Frame& f, const pycompat::Instr& i);
void on_load_name(Interpreter& in, Frame& f, const pycompat::Instr& i);
void on_store_name(Interpreter& in, Frame& f, const pycompat::Instr& i);
void on_delete_name(Interpreter& in, Frame& f, const pycompat::Instr& i);
void on_load_locals(Interpreter& in, Frame& f, const pycompat::Instr& i);
void on_load_class_deref(Interpreter& in, Frame& f, const pycompat::Instr& i);
void on_load_from_dict_or_globals(Interpreter& in, Frame& f, const pycompat::Instr& i);
void on_setup_annotations(Interpreter& in, Frame& f, const pycompat::Instr& i);

}  // namespace stator::capture
