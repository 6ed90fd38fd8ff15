#pragma once

#include "capture/interpreter/protocol/interpreter.h"

/// Classes and descriptors that the program makes.
namespace stator::capture {

/// Makes a prototype by a call on surrogates; the plan makes the call on the program's own objects. Raises what the
/// call raises.
Value* make_by_call(Interpreter& in, Ref callable, const CallArgs& args);
/// Makes a call that changes the prototype class and nothing else, with it as the first argument. The plan makes the
/// same call after it has made the class.
void change_prototype(Interpreter& in, Prototype& prototype, Ref callable, const CallArgs& rest);

/// What a class statement gives to its metaclass.
struct Statement {
  Value* name;   // a constant
  Value* bases;  // a tuple of classes
  std::vector<std::pair<Value*, Value*>> names;
};
/// The prototype of its class; `__set_name__` and `__init_subclass__` were not called yet.
Prototype& make_by_statement(Interpreter& in, Ref metaclass, const Statement& statement);

}  // namespace stator::capture
