#pragma once

#include <vector>

#include "capture/call/plan.h"
#include "capture/pycompat/code.h"
#include "capture/values/source.h"
#include "capture/values/value.h"

namespace stator::capture {

class Interpreter;

/// One activation: the captured frame itself, an inlined call, or a suspended generator.
struct Frame {
  Interpreter* owner = nullptr;
  const pycompat::Code* code = nullptr;
  FunctionValue* function = nullptr;
  PyObject* globals = nullptr;
  Source* globals_source = nullptr;
  PyObject* builtins = nullptr;
  std::vector<Value*> locals;   // by localsplus slot; null: unbound, or an argument that was not read yet
  std::vector<Source*> unread;  // the captured frame: sources of such arguments, by slot
  std::vector<bool> kept;       // a frame that is resumed: slots that were not assigned since
  std::vector<Value*> stack;
  size_t pc = 0;
  int line = 0;
  Frame* caller = nullptr;
  uint32_t location = 0;  // in the graph, of `located_line`; 0: none yet
  int located_line = 0;
  const Source* module = nullptr;  // the torch.nn.Module whose method runs here; set together with `location`
  Value* result = nullptr;         // set by return and yield
  bool returned = false, yielded = false;
  Value* handled = nullptr;                          // exception being handled
  bool in_transform = false;                         // when it was entered last: see FrameStack::in_transform
  DictValue* locals_dict = nullptr;                  // the result of locals()
  DictValue* names = nullptr;                        // the body of a class: its namespace
  Value* thrown = nullptr;                           // generators: raised at the `yield` when the frame is resumed
  uint64_t step = 0;                                 // number of the running instruction within the attempt
  Continuation continuation = Continuation::Opaque;  // how the caller uses the result
  bool break_is_error = false;                       // see Start; compiled functions have their own setting

  Value* pop() {
    Value* top = read(stack.back());
    stack.pop_back();
    return top;
  }
  void push(Value* value) { stack.push_back(value); }
  Value*& top(size_t depth = 1) {
    Value*& place = stack[stack.size() - depth];
    place = read(place);
    return place;
  }
  /// Replaces a lazy value by the value itself.
  Value* read(Value* value) const;
  void store(int slot, Value* value) {
    if (!unread.empty()) unread[slot] = nullptr;
    if (!kept.empty()) kept[slot] = false;
    locals[slot] = value;
  }
  const pycompat::Instr& instr() const { return code->instrs[pc - 1]; }
};

}  // namespace stator::capture
