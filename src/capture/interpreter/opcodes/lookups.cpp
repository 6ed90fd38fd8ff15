#include "capture/interpreter/opcodes/lookups.h"

#include "capture/interpreter/opcodes/operands.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/names.h"
#include "capture/pycompat/text.h"

namespace stator::capture {

using pycompat::Instr;

void on_load_global(Interpreter& in, Frame& f, const Instr& i) {
  if (i.arg2) f.push(in.arena.null());
  f.push(in.load_global(f, name_at(f, i.arg)));
}
void on_store_global(Interpreter& in, Frame& f, const Instr& i) {
  store_global(in, f.globals, name_at(f, i.arg), f.pop());
}
void on_delete_global(Interpreter& in, Frame& f, const Instr& i) {
  PyObject* name = name_at(f, i.arg);
  auto written = written_global(in, f.globals, name);
  if (written ? !*written : !PyDict_GetItemWithError(f.globals, name))
    in.raise(PyExc_NameError, "name '" + exact_text_of(name) + "' is not defined");
  if (!written) in.load_global(f, name);
  store_global(in, f.globals, name, nullptr);
}
void on_load_attr(Interpreter& in, Frame& f, const Instr& i) {
  Value* owner = f.pop();
  f.push(in.get_attr(owner, name_at(f, i.arg)));
}
void on_load_method(Interpreter& in, Frame& f, const Instr& i) {
  Value* owner = f.pop();
  Value* found = in.get_attr(owner, name_at(f, i.arg));
  f.push(in.arena.null());
  f.push(found);
}
void on_load_super_attr(Interpreter& in, Frame& f, const Instr& i) {
  Value* self = f.pop();
  Value* type = f.pop();
  Value* callee = f.pop();
  Value* super = in.call(callee, arguments({type, self}));
  Value* found = in.get_attr(super, name_at(f, i.arg));
  if (i.arg2 & 1) f.push(in.arena.null());
  f.push(found);
}
void on_store_attr(Interpreter& in, Frame& f, const Instr& i) {
  Value* owner = f.pop();
  Value* value = f.pop();
  in.set_attr(owner, name_at(f, i.arg), value);
}
void on_delete_attr(Interpreter& in, Frame& f, const Instr& i) { in.del_attr(f.pop(), name_at(f, i.arg)); }

void on_import_name(Interpreter& in, Frame& f, const Instr& i) {
  Value* from_list = f.pop();
  Value* level = f.pop();
  f.push(import_name(in, f, name_at(f, i.arg), from_list, level));
}
void on_import_from(Interpreter& in, Frame& f, const Instr& i) {
  Value* found = attribute_or_null(in, f.top(), name_at(f, i.arg));
  // It may be a module that is being imported; otherwise CPython raises the error.
  if (!found) throw Break{BreakId::raises, "import of a name that is not there"};
  f.push(found);
}

}  // namespace stator::capture
