#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "capture/interpreter/assembly/assemble.h"
#include "capture/interpreter/iteration/generators.h"

namespace stator::capture {

/// Makes the steps of one plan. Each value is made once, before the steps that use it.
class Assembler {
 public:
  explicit Assembler(Interpreter& in) : in_(in) {}

  Assembly run(Value* result);
  Assembly run_break();

 private:
  /// Thrown for a list or dict that is met while its own items are made.
  struct Cycle {
    Value* container;
  };
  /// Containers that contain themselves are made empty and filled later; others are made with their items.
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
        open_classes_ = nesting_ = 0;
      }
    }
  }
  void emit_break();
  void emit_modes();
  FrameState frame_state_of(Frame& frame);

  int32_t add(Step step);
  /// The step that makes the value, added if there is none yet.
  int32_t emit(Value* value);
  void emit_all(const std::vector<Value*>& values, std::vector<int32_t>& into);
  int32_t emit_slot(Source* source);
  /// The number of a new output of the graph.
  int32_t add_output(PyObject* fake);
  int32_t emit_new(Value* value);
  int32_t emit_tensor(TensorValue* tensor);
  /// A tensor whose class has a `__torch_dispatch__`, with its attributes.
  int32_t emit_wrapper(TensorValue* tensor);
  int32_t emit_wrapper_view(const Dispatching& view);
  int32_t emit_opaque(OpaqueValue* opaque);

  // ---- containers, iterators, functions
  int32_t emit_sequence(SequenceValue* sequence);
  int32_t emit_dict(DictValue* dict);
  /// Attributes of an OrderedDict that was made; null: none.
  void set_own(int32_t owner, const DictValue* attributes);
  /// Keys and values in turn.
  std::vector<int32_t> dict_items(DictValue* dict);
  int32_t emit_set(SetValue* set);
  /// A call of the built-in method, even if a subclass overrides it.
  static Step call_on_set(int32_t set, const char* method, std::vector<int32_t> arguments);
  int32_t emit_iterator(IteratorValue* iterator);
  int32_t emit_generator(GeneratorValue* generator);
  int32_t emit_function(FunctionValue* function);
  int32_t emit_cell(CellValue* cell);

  // ---- instances and classes
  /// Runs `fill` once no class is being made. The parts of a class may refer to it, or to its instances, by cells and
  /// attributes that are not read while the class is made.
  template <class F>
  void when_classes_are_there(F&& fill) {
    if (open_classes_ > 0)
      later_.emplace_back(std::forward<F>(fill));
    else
      fill();
  }
  [[noreturn]] static void refuse_part();
  /// A member of an enumeration that the program made; refuses other parts of what it made.
  int32_t emit_part(PyObject* part);
  int32_t emit_call(const MadeBy& by, std::vector<int32_t> first);
  int32_t emit_class(const Prototype& prototype);
  int32_t emit_prototype(const Prototype& prototype);
  void set_class(Step& step, PyTypeObject* type);
  /// The instance without its attributes.
  int32_t emit_bare(ObjectValue* object);
  /// `__dict__` of the instance that the step makes.
  int32_t emit_dict_of(int32_t made);
  /// The key of a `__dict__` item as an attribute name; breaks for a key that is not a str.
  static Ref attribute_name(Value* key);
  int32_t emit_object(ObjectValue* object);
  void fill_object(ObjectValue* object, int32_t made);

  // ---- effects
  /// Writes only the entries that changed, so that running iterators of the dict stay valid. False if the dict must be
  /// cleared and filled.
  bool emit_changes(DictValue* dict, int32_t target);
  void emit_effect(const Effect& effect);

  Interpreter& in_;
  Assembly out_;
  std::unordered_map<Value*, int32_t> known_;
  std::unordered_set<Value*> cyclic_;
  std::unordered_map<const Prototype*, int32_t> made_;
  int open_classes_ = 0;                      // classes that are being made
  int nesting_ = 0;                           // nesting of values
  std::vector<std::function<void()>> later_;  // what waits until they are made
};

}  // namespace stator::capture
