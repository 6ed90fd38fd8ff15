#include "capture/interpreter/torch/made_functions.h"

#include "capture/guards/literals.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {
namespace {

[[noreturn]] void refuse(const char* what) { throw Break{BreakId::unknown_call, what}; }

Ref lasting_code(FunctionValue* function) {
  const bool is_same = function && !function->function && function->closure.empty() && !function->defaults &&
                       !function->kwdefaults && !function->own && function->fields.empty();
  if (!is_same) refuse("an autograd function, made by the program, whose methods use its variables");
  Ref made = Ref::steal(PyFunction_New(reinterpret_cast<PyObject*>(function->code), function->globals));
  return made ? Ref::steal(PyStaticMethod_New(made.get())) : Ref();
}

/// The value of a class attribute, if every run of the program makes an equal one; breaks otherwise.
Ref lasting_attribute(Interpreter& in, Value* value) {
  PyObject* constant = in.constant_of(value);
  if (constant && is_literal(constant)) return Ref::borrow(constant);
  const Prototype* made = constant ? in.prototypes.find(constant) : nullptr;
  const bool is_static = made && made->made_by.callable.get() == reinterpret_cast<PyObject*>(&PyStaticMethod_Type) &&
                         made->made_by.arguments.size() == 1 && made->made_by.keywords.empty();
  if (!is_static)
    refuse("an autograd function, made by the program, with attributes that are neither literals nor static methods");
  return lasting_code(as<FunctionValue>(made->made_by.arguments[0]));
}

bool is_run_by_graph(PyObject* name) {
  return PyUnicode_CompareWithASCIIString(name, "forward") == 0 ||
         PyUnicode_CompareWithASCIIString(name, "setup_context") == 0;
}

}  // namespace

Ref lasting_function(Interpreter& in, const Prototype& made) {
  // torch's metaclass sets one attribute in its `__init__`; any other change of the class was made by the program.
  if (!made.is_statement || made.changes.size() != 1)
    refuse("an autograd function that was changed after its class statement");
  Ref names = Ref::steal(PyDict_New());
  for (auto& [key, value] : made.names) {
    PyObject* name = in.constant_of(key);
    if (is_run_by_graph(name)) continue;
    Ref held = lasting_attribute(in, value);
    if (!held || PyDict_SetItem(names.get(), name, held.get()) < 0)
      throw Break{BreakId::unknown_call, take_error_text()};
  }
  Ref bases = in.literal_of(made.made_by.arguments[1]);
  Ref made_class = bases ? Ref::steal(PyObject_CallFunctionObjArgs(made.made_by.callable.get(),
                                                                   in.constant_of(made.made_by.arguments[0]),
                                                                   bases.get(), names.get(), nullptr))
                         : Ref();
  if (!made_class) {
    PyErr_Clear();
    refuse("an autograd function, made by the program, whose base class the program also makes");
  }
  return made_class;
}

}  // namespace stator::capture
