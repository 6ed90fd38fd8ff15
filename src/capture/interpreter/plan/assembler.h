#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/plan/assemble.h"

namespace stator::capture {

/// Makes the steps of one plan. Each value is made once, before what needs it.
class Assembler {
 public:
  explicit Assembler(Interpreter& in) : in_(in) {}

  Assembly run(Value* result);
  Assembly run_break();

 private:
  /// A list or dict that was met while its own items were made.
  struct Cycle {
    Value* container;
  };
  /// Containers that hold themselves are made empty and filled later, as the program did; others when their items are
  /// there.
  template <class F>
  Assembly until_acyclic(F&& make) {
    constexpr size_t kMost = 64;
    while (true) {
      try {
        make();
        return std::move(out_);
      } catch (const Cycle& cycle) {
        bool is_new = cyclic_.insert(cycle.container).second;
        if (!is_new || cyclic_.size() > kMost) throw Break{BreakId::reconstruct, "a container that holds itself"};
        out_ = {};
        known_.clear();
        made_.clear();
        later_.clear();
        open_classes_ = depth_ = 0;
      }
    }
  }
  void emit_break();
  void emit_modes();
  FrameImage image_of(Frame& frame);

  int32_t add(Step step);
  /// The step that makes the value, which is there from then on.
  int32_t emit(Value* value);
  void emit_all(const std::vector<Value*>& values, std::vector<int32_t>& into);
  int32_t emit_slot(Source* source);
  /// The number of a new output of the graph.
  int32_t add_output(PyObject* fake);
  int32_t emit_new(Value* value);

  // ---- containers, iterators, functions
  int32_t emit_sequence(SequenceValue* sequence);
  int32_t emit_dict(DictValue* dict);
  /// Attributes of an OrderedDict that was made; null: none.
  void set_own(int32_t owner, const DictValue* attributes);
  /// Keys and values in turn.
  std::vector<int32_t> dict_items(DictValue* dict);
  int32_t emit_set(SetValue* set);
  /// By the built-in method, whatever a subclass makes of it.
  static Step call_on_set(int32_t set, const char* method, std::vector<int32_t> arguments);
  int32_t emit_iterator(IteratorValue* iterator);
  int32_t emit_generator(GeneratorValue* generator);
  int32_t emit_function(FunctionValue* function);
  int32_t emit_cell(CellValue* cell);

  // ---- instances and classes
  /// What a class holds may refer to it, and to its instances, by a cell or an attribute that nobody looks at while the
  /// class is made.
  template <class F>
  void when_classes_are_there(F&& fill) {
    if (open_classes_ > 0)
      later_.emplace_back(std::forward<F>(fill));
    else
      fill();
  }
  [[noreturn]] static void refuse_part();
  int32_t emit_call(const MadeBy& by, std::vector<int32_t> first);
  int32_t emit_class(const Prototype& prototype);
  int32_t emit_prototype(const Prototype& prototype);
  void set_class(Step& step, PyTypeObject* type);
  /// The instance without its attributes.
  int32_t emit_bare(ObjectValue* object);
  /// `__dict__` of the instance that the step makes.
  int32_t emit_dict_of(int32_t made);
  /// The program may put anything into a __dict__.
  static Ref attribute_name(Value* key);
  int32_t emit_object(ObjectValue* object);
  void fill_object(ObjectValue* object, int32_t made);

  // ---- effects
  /// Only what is other than it was, so that every place of the dict's table stays what it is to those who iterate it;
  /// false where it must be filled anew.
  bool emit_changes(DictValue* dict, int32_t target);
  void emit_effect(const Effect& effect);

  Interpreter& in_;
  Assembly out_;
  std::unordered_map<Value*, int32_t> known_;
  std::unordered_set<Value*> cyclic_;
  std::unordered_map<const Prototype*, int32_t> made_;
  int open_classes_ = 0;                      // that are being made
  int depth_ = 0;                             // of values inside of values
  std::vector<std::function<void()>> later_;  // what waits for them
};

}  // namespace stator::capture
