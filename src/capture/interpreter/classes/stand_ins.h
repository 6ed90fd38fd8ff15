#pragma once

#include "capture/interpreter/interpreter.h"

namespace stator::capture {

/// The real object that stands for a value inside of prototypes: of the same class, with parts that stand for its
/// parts. Breaks where there can be none.
Ref stand_in(Interpreter& in, Value* value);
/// Stand-ins get the attributes and items that their values have by now.
void refresh_stand_ins(Interpreter& in, PyTypeObject* prototype);
/// What the call makes on stand-ins is a prototype; the plan makes the call on the program's own objects. Raises what
/// the call raises.
Value* make_by_call(Interpreter& in, Ref callable, const CallArgs& args);
/// A call that changes the class of a prototype and nothing else, on it and these arguments, now and when the plan
/// makes the class.
void change_prototype(Interpreter& in, Prototype& prototype, Ref callable, const CallArgs& rest);

/// What a class statement hands to its metaclass.
struct Statement {
  Value* name;   // a constant
  Value* bases;  // a tuple of classes
  std::vector<std::pair<Value*, Value*>> names;
};
/// The prototype of its class, of which nobody was told yet.
Prototype& make_by_statement(Interpreter& in, Ref metaclass, const Statement& statement);

/// `prototype.name = to`, or its deletion where there is no value.
void set_prototype_attr(Interpreter& in, Prototype& prototype, PyObject* name, Value* to);

}  // namespace stator::capture
