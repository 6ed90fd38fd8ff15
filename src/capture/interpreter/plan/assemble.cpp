#include "capture/interpreter/plan/assemble.h"

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "capture/guards/literals.h"
#include "capture/interpreter/classes/classes.h"
#include "capture/interpreter/containers/dicts.h"
#include "capture/interpreter/containers/keys.h"
#include "capture/interpreter/exceptions.h"
#include "capture/interpreter/iteration/generators.h"
#include "capture/interpreter/known_types.h"
#include "capture/interpreter/nesting.h"
#include "capture/interpreter/torch/arrays.h"
#include "capture/interpreter/torch/numbers.h"
#include "capture/interpreter/torch/tensor_attributes.h"

namespace stator::capture {
namespace {

class Assembler {
 public:
  explicit Assembler(Interpreter& in) : in_(in) {}

  Assembly run(Value* result) {
    check_unfinished(in_);
    return until_acyclic([&] {
      for (const Effect& effect : in_.effects)
        if (effect.kind == EffectKind::Make) emit_effect(effect);
      out_.result = emit(result);
      for (const Effect& effect : in_.effects) emit_effect(effect);
      emit_modes();
    });
  }

  Assembly run_break() {
    return until_acyclic([&] { emit_break(); });
  }

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

  void emit_break() {
    for (const Effect& effect : in_.effects) emit_effect(effect);
    for (Frame* frame = in_.frame; frame; frame = frame->caller) {
      if (frame->handled) throw StopEarlier{in_.raise_step(frame->handled)};
      out_.frames.insert(out_.frames.begin(), image_of(*frame));
    }
    emit_modes();
    for (GeneratorValue* generator : in_.generators)
      if (generator->has_cleanup() && !known_.count(generator))
        throw Break{BreakId::generator, "a generator is dropped before its cleanup ran"};
  }

  void emit_modes() {
    if (in_.modes == in_.outside_modes && in_.overriding == in_.outside_overriding) return;
    size_t kept = 0;
    while (kept < in_.modes.size() && kept < in_.outside_modes.size() && in_.modes[kept] == in_.outside_modes[kept])
      ++kept;
    out_.modes_at_end.kept = static_cast<int64_t>(kept);
    out_.modes_at_end.state = in_.overriding;
    for (size_t i = kept; i < in_.modes.size(); ++i) out_.modes_at_end.pushed.push_back(emit(in_.modes[i]));
  }

  FrameImage image_of(Frame& frame) {
    FrameImage image;
    if (frame.caller) image.function = emit(frame.function);
    for (size_t i = 0; i < frame.locals.size(); ++i) {
      if (!frame.kept.empty() && frame.kept[i]) continue;
      Source* unread = frame.unread.empty() ? nullptr : frame.unread[i];
      int32_t step = frame.locals[i] ? emit(frame.locals[i]) : unread ? emit_slot(unread) : -1;
      image.places.push_back(static_cast<int32_t>(i));
      image.slots.push_back(step);
    }
    for (Value* value : frame.stack) image.stack.push_back(is_null(value) ? -1 : emit(value));
    image.offset = frame.instr().offset;
    image.unit = frame.instr().unit;
    if (&frame != in_.frame) image.next = frame.code->instrs[frame.pc].offset;
    image.continuation = frame.continuation;
    return image;
  }

  int32_t add(Step step) {
    out_.steps.push_back(std::move(step));
    return static_cast<int32_t>(out_.steps.size()) - 1;
  }

  int32_t emit_all(const std::vector<Value*>& values, std::vector<int32_t>& into) {
    for (Value* value : values) into.push_back(emit(value));
    return 0;
  }

  int32_t emit(Value* value) {
    auto found = known_.find(value);
    if (found != known_.end()) {
      if (found->second < 0) {
        if (value->kind == Kind::List || value->kind == Kind::Dict) throw Cycle{value};
        throw Break{BreakId::reconstruct, "an object that holds itself"};
      }
      return found->second;
    }
    Nesting nesting;
    known_[value] = -1;
    const bool is_own = in_.prototypes.owns(value->source);
    if (is_own && value->kind != Kind::Constant && value->kind != Kind::Tuple) refuse_part();
    ++depth_;
    int32_t made = value->source && !is_own ? emit_slot(value->source) : emit_new(value);
    known_[value] = made;
    if (--depth_ == 0)
      while (!later_.empty())
        for (auto& fill : std::exchange(later_, {})) fill();
    return made;
  }

  [[noreturn]] static void refuse_part() {
    throw Break{BreakId::reconstruct, "a part of a class that the program made"};
  }

  int32_t emit_slot(Source* source) {
    source->loaded = true;
    out_.slots.push_back(source);
    return add({StepKind::Slot, static_cast<int32_t>(out_.slots.size()) - 1});
  }

  int32_t emit_new(Value* value) {
    switch (value->kind) {
      case Kind::Constant: {
        const Ref& object = static_cast<ConstantValue*>(value)->object;
        if (Prototype* prototype = in_.prototypes.find(object.get())) return emit_prototype(*prototype);
        if (in_.prototypes.owns(object.get())) refuse_part();
        return add({StepKind::Constant, -1, -1, object});
      }
      case Kind::Tensor: {
        auto* tensor = static_cast<TensorValue*>(value);
        if (tensor->wrapped_at)
          throw StopEarlier{tensor->wrapped_at, BreakId::reconstruct,
                            "a tensor of a transform that is over, or would go on"};
        out_.outputs.push_back(tensor->fake.get());
        Step step{StepKind::Output, static_cast<int32_t>(out_.outputs.size()) - 1};
        if (tensor->type != TorchTracer::tensor_type())
          step.object = Ref::borrow(reinterpret_cast<PyObject*>(tensor->type));
        return add(std::move(step));
      }
      case Kind::Array: {
        auto* array = static_cast<ArrayValue*>(value);
        out_.outputs.push_back(array_fake(in_, array));
        Step step{StepKind::Call, 0, -1, Ref::borrow(array_maker(in_, array))};
        step.items = {add({StepKind::Output, static_cast<int32_t>(out_.outputs.size()) - 1})};
        return add(std::move(step));
      }
      case Kind::Number: {
        out_.outputs.push_back(number_fake(in_, static_cast<NumberValue*>(value)));
        static PyObject* const item = known_object("torch._C.TensorBase.item");
        Step step{StepKind::Call, 0, -1, Ref::borrow(item)};
        step.items = {add({StepKind::Output, static_cast<int32_t>(out_.outputs.size()) - 1})};
        return add(std::move(step));
      }
      case Kind::Text: {
        auto* text = static_cast<TextValue*>(value);
        Step step{StepKind::Call, 0, -1, text->callable};
        emit_all(text->arguments, step.items);
        return add(std::move(step));
      }
      case Kind::Tuple:
      case Kind::List:
        return emit_sequence(static_cast<SequenceValue*>(value));
      case Kind::Dict: {
        auto* dict = static_cast<DictValue*>(value);
        Step step{StepKind::Dict, -1, -1, Ref::borrow(reinterpret_cast<PyObject*>(dict->type))};
        if (dict->type == default_dict_type()) step.a = emit(default_factory(in_, dict));
        if (!cyclic_.count(dict)) {
          step.items = dict_items(dict);
          return add(std::move(step));
        }
        int32_t made = known_[dict] = add(std::move(step));
        Step filling{StepKind::FillDict, made};
        filling.items = dict_items(dict);
        add(std::move(filling));
        return made;
      }
      case Kind::Set: {
        return emit_set(static_cast<SetValue*>(value));
      }
      case Kind::View: {
        auto* view = static_cast<ViewValue*>(value);
        static const char* const names[] = {"keys", "values", "items"};
        int32_t dict = emit(view->dict);
        return add(
            {StepKind::View, dict, -1, Ref::steal(PyUnicode_InternFromString(names[static_cast<size_t>(view->part)]))});
      }
      case Kind::Slice: {
        auto* slice = static_cast<SliceValue*>(value);
        Step step{StepKind::Slice};
        emit_all({slice->start, slice->stop, slice->step}, step.items);
        return add(std::move(step));
      }
      case Kind::Method: {
        auto* method = static_cast<MethodValue*>(value);
        int32_t function = emit(method->function), self = emit(method->self);
        return add({StepKind::Bound, function, self});
      }
      case Kind::Object:
        return emit_object(static_cast<ObjectValue*>(value));
      case Kind::Function:
        return emit_function(static_cast<FunctionValue*>(value));
      case Kind::Cell: {
        auto* cell = static_cast<CellValue*>(value);
        int32_t made = add({StepKind::NewCell});
        known_[value] = made;
        if (cell->contents) {
          when_classes_are_there([this, cell, made] {
            int32_t contents = emit(cell->contents);
            add({StepKind::SetCell, made, contents});
          });
        }
        return made;
      }
      case Kind::Super: {
        auto* super = static_cast<SuperValue*>(value);
        Step step{StepKind::Call, 0, -1, Ref::borrow(reinterpret_cast<PyObject*>(&PySuper_Type))};
        step.items = {emit(in_.constant(reinterpret_cast<PyObject*>(super->type))), emit(super->self)};
        return add(std::move(step));
      }
      case Kind::Opaque: {
        auto* opaque = static_cast<OpaqueValue*>(value);
        if (!opaque->callable) throw Break{BreakId::reconstruct, opaque->what};
        if (opaque->grad_fn && !is_as_deferred(in_, opaque))
          throw StopEarlier{opaque->step, BreakId::mutation, "a tensor is written after it got a hook"};
        Step step{StepKind::Call, 0, -1, opaque->callable};
        emit_all(opaque->arguments, step.items);
        return add(std::move(step));
      }
      case Kind::Iterator:
        if (auto* generator = dynamic_cast<GeneratorValue*>(value)) return emit_generator(generator);
        return emit_iterator(static_cast<IteratorValue*>(value));
      default:
        throw Break{BreakId::reconstruct, std::string("a ") + in_.type_of(value)->tp_name};
    }
  }

  int32_t emit_set(SetValue* set) {
    Step step{StepKind::Set, set->type == &PyFrozenSet_Type};
    if (set->table) {
      refuse_rehash(in_, set->table);
      for (auto& entry : set->table->entries)
        if (entry.key) step.items.push_back(emit(entry.key));
      return add(std::move(step));
    }
    // The order of a set tells its history; a copy that has lost it is another set.
    step.object = Ref::steal(PyFrozenSet_New(set->elements.get()));
    Ref copy = Ref::steal(PySet_New(step.object.get()));
    Ref wanted = Ref::steal(PySequence_List(set->elements.get())), made = Ref::steal(PySequence_List(copy.get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(wanted.get()); ++i)
      if (PyList_GET_ITEM(wanted.get(), i) != PyList_GET_ITEM(made.get(), i))
        throw Break{BreakId::reconstruct, "a set whose order cannot be rebuilt"};
    return add(std::move(step));
  }

  /// By the built-in method, whatever a subclass makes of it.
  static Step call_on_set(int32_t set, const char* method, std::vector<int32_t> arguments) {
    Step step{StepKind::Call, 0, -1,
              Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PySet_Type), method))};
    step.items = {set};
    step.items.insert(step.items.end(), arguments.begin(), arguments.end());
    return step;
  }

  int32_t emit_iterator(IteratorValue* iterator) {
    Rebuild how = iterator->rebuild(in_);
    if (!how.callable) throw Break{BreakId::reconstruct, std::string("a ") + iterator->type()->tp_name};
    Step step{StepKind::Call, static_cast<int32_t>(how.taken), -1, Ref::borrow(how.callable)};
    emit_all(how.args, step.items);
    if (!how.keywords.empty()) {
      step.extra = Ref::steal(PyTuple_New(how.keywords.size()));
      for (size_t i = 0; i < how.keywords.size(); ++i) {
        PyTuple_SET_ITEM(step.extra.get(), i, PyUnicode_InternFromString(how.keywords[i].first));
        step.items.push_back(emit(how.keywords[i].second));
      }
    }
    return add(std::move(step));
  }

  int32_t emit_generator(GeneratorValue* generator) {
    Frame& frame = *generator->frame;
    if (generator->finished) throw Break{BreakId::reconstruct, "a generator that has ended"};
    if (frame.handled) throw StopEarlier{in_.raise_step(frame.handled)};
    Step step{StepKind::Generator};
    step.items.push_back(emit(frame.function));
    if (generator->started) {
      FrameImage image = image_of(frame);
      step.a = static_cast<int32_t>(image.slots.size());
      step.b = image.unit;
      step.items.insert(step.items.end(), image.slots.begin(), image.slots.end());
      step.items.insert(step.items.end(), image.stack.begin(), image.stack.end());
      return add(std::move(step));
    }
    // Its call again, with the arguments as they were bound.
    const pycompat::Code& code = *frame.code;
    SequenceValue* args = in_.tuple({frame.locals.begin(), frame.locals.begin() + code.argcount});
    size_t rest = code.argcount + code.kwonlyargcount;
    if (code.has_varargs())
      for (Value* item : in_.unpack(frame.locals[rest++])) args->items.push_back(item);
    DictValue* keywords = in_.dict();
    for (int i = 0; i < code.kwonlyargcount; ++i) {
      PyObject* name = PyTuple_GET_ITEM(code.localsplus_names, code.argcount + i);
      in_.dict_set(keywords, in_.constant(name), frame.locals[code.argcount + i]);
    }
    if (code.has_varkeywords())
      for (auto& [key, value] : mapping_items(in_, frame.locals[rest])) in_.dict_set(keywords, key, value);
    step.items.push_back(emit(args));
    step.items.push_back(emit(keywords));
    return add(std::move(step));
  }

  /// What a class holds may refer to it, and to its instances, by a cell or an attribute that nobody looks at while the
  /// class is made.
  template <class F>
  void when_classes_are_there(F&& fill) {
    if (open_classes_ > 0)
      later_.emplace_back(std::forward<F>(fill));
    else
      fill();
  }

  int32_t emit_call(const MadeBy& by, std::vector<int32_t> first) {
    Step step{StepKind::Call, 0, -1, by.callable};
    step.items = std::move(first);
    emit_all(by.arguments, step.items);
    if (!by.keywords.empty()) step.extra = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(by.keywords.size())));
    for (size_t i = 0; i < by.keywords.size(); ++i) {
      PyTuple_SET_ITEM(step.extra.get(), static_cast<Py_ssize_t>(i), Ref(by.keywords[i].first).release());
      step.items.push_back(emit(by.keywords[i].second));
    }
    return add(std::move(step));
  }

  int32_t emit_class(const Prototype& prototype) {
    Step names{StepKind::Dict, -1, -1, Ref::borrow(reinterpret_cast<PyObject*>(&PyDict_Type))};
    for (auto& [key, value] : prototype.names) {
      names.items.push_back(emit(key));
      names.items.push_back(emit(value));
    }
    Step step{StepKind::Class, -1, -1, prototype.made_by.callable};
    emit_all(prototype.made_by.arguments, step.items);
    step.items.push_back(add(std::move(names)));
    return add(std::move(step));
  }

  int32_t emit_prototype(const Prototype& prototype) {
    auto [found, fresh] = made_.try_emplace(&prototype, -1);
    if (!fresh && found->second < 0)
      throw StopEarlier{prototype.step, BreakId::reconstruct, "a class that the program made, and that holds itself"};
    if (!fresh) return found->second;
    ++open_classes_;
    int32_t made = prototype.is_statement ? emit_class(prototype) : emit_call(prototype.made_by, {});
    made_[&prototype] = made;
    --open_classes_;
    if (!prototype.changes.empty())
      later_.emplace_back([this, &prototype, made] {
        for (const MadeBy& change : prototype.changes) emit_call(change, {made});
      });
    return made;
  }

  void set_class(Step& step, PyTypeObject* type) {
    auto* object = reinterpret_cast<PyObject*>(type);
    if (Prototype* prototype = in_.prototypes.find(object))
      step.b = emit_prototype(*prototype);
    else
      step.object = Ref::borrow(object);
  }

  int32_t emit_sequence(SequenceValue* sequence) {
    bool is_list = sequence->kind == Kind::List,
         is_plain = sequence->type == &PyTuple_Type || sequence->type == &PyList_Type;
    Step step{is_list ? StepKind::List : is_plain ? StepKind::Tuple : StepKind::NamedTuple};
    if (!is_plain) set_class(step, sequence->type);
    if (is_list && cyclic_.count(sequence)) {
      int32_t made = known_[sequence] = add(std::move(step));
      Step filling{StepKind::FillList, made};
      for (size_t i = 0; i < sequence->items.size(); ++i) filling.items.push_back(emit(in_.item(sequence, i)));
      add(std::move(filling));
      return made;
    }
    for (size_t i = 0; i < sequence->items.size(); ++i) step.items.push_back(emit(in_.item(sequence, i)));
    return add(std::move(step));
  }

  std::vector<int32_t> dict_items(DictValue* dict) {
    std::vector<int32_t> items;
    for (auto& [key, value] : items_to_put(in_, dict)) {
      items.push_back(emit(key));
      items.push_back(emit(value));
    }
    return items;
  }

  /// The instance without its attributes.
  int32_t emit_bare(ObjectValue* object) {
    auto type = Ref::borrow(reinterpret_cast<PyObject*>(object->type));
    if (object->step) throw StopEarlier{object->step, BreakId::reconstruct, "a block that changes a thread's state"};
    PyTypeObject* native = native_base(object->type);
    static auto* const base_exception = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
    bool is_exception = is_exception_class(object->type);
    // Each run of the program has an exception of its own, with its own traceback: the real raise makes it.
    if (is_exception && (object->raised || object->cause || object->context)) throw StopEarlier{in_.raise_step(object)};
    if (is_exception || native == &PyTuple_Type) {
      // Some exceptions have fields that their own constructor sets.
      bool has_fields = is_exception && native->tp_init != base_exception->tp_init;
      if (has_fields && object->type->tp_init != native->tp_init)
        throw Break{BreakId::reconstruct, std::string("an exception with fields of its own: ") + object->type->tp_name};
      Step step{has_fields ? StepKind::Call : is_exception ? StepKind::NewObject : StepKind::NamedTuple};
      set_class(step, object->type);
      if (has_fields && !step.object)
        throw Break{BreakId::reconstruct, "an exception with fields, of a class that the program made"};
      auto* items = as_sequence(object->base);
      for (size_t i = 0; i < items->items.size(); ++i) step.items.push_back(emit(in_.item(items, i)));
      return add(std::move(step));
    }
    if (native == deque_type() && object->type == native) {
      Step step{StepKind::Call, -1, -1, std::move(type)};
      step.items = {emit(object->base), emit(object->attributes[0].value)};
      return add(std::move(step));
    }
    if (native == &PyDictProxy_Type) {
      Step step{StepKind::Call, -1, -1, std::move(type)};
      step.items = {emit(object->base)};
      return add(std::move(step));
    }
    if (native == &PyFrozenSet_Type) {
      Step step{StepKind::NewObject};
      set_class(step, object->type);
      step.items = {emit(object->base)};
      return add(std::move(step));
    }
    bool bare = native == &PyBaseObject_Type || native == &PySet_Type || native == &PyDict_Type ||
                native == &PyODict_Type || native == &PyList_Type || native == namespace_type();
    if (!bare) throw Break{BreakId::reconstruct, std::string("a ") + object->type->tp_name};
    Step step{StepKind::NewObject};
    set_class(step, object->type);
    return add(std::move(step));
  }

  /// Whether a name of an instance's `__dict__` is not to be reached as an attribute: its class has a say there.
  static bool is_hidden(PyTypeObject* type, PyObject* name) {
    PyObject* on_class = _PyType_Lookup(type, name);
    return on_class && Py_TYPE(on_class)->tp_descr_set && Py_TYPE(on_class) != &PyMemberDescr_Type;
  }
  int32_t emit_dict_of(int32_t made) {
    static PyObject* const read = known_object("builtins.object.__getattribute__");
    static PyObject* const name = PyUnicode_InternFromString("__dict__");
    Step step{StepKind::Call, -1, -1, Ref::borrow(read)};
    step.items = {made, add({StepKind::Constant, -1, -1, Ref::borrow(name)})};
    return add(std::move(step));
  }

  /// The program may put anything into a __dict__.
  static Ref attribute_name(Value* key) {
    auto* name = as<ConstantValue>(key);
    if (!name || !PyUnicode_Check(name->object.get()))
      throw Break{BreakId::reconstruct, "an object with attributes that have no name"};
    return name->object;
  }

  int32_t emit_object(ObjectValue* object) {
    if (object->type == partial_type()) {
      Step step{StepKind::Partial};
      for (auto& attribute : object->attributes) step.items.push_back(emit(attribute.value));
      return add(std::move(step));
    }
    int32_t made = emit_bare(object);
    known_[object] = made;
    if (out_.steps[made].kind == StepKind::Call && !is_exception_class(object->type)) return made;
    when_classes_are_there([this, object, made] { fill_object(object, made); });
    return made;
  }

  void fill_object(ObjectValue* object, int32_t made) {
    if (object->own) {
      if (known_.count(object->own)) throw Break{BreakId::reconstruct, "an object and its __dict__"};
      int32_t own = -1;
      for (auto& [key, attribute] : mapping_items(in_, object->own)) {
        int32_t value = emit(attribute);
        Ref name = attribute_name(key);
        if (!is_hidden(object->type, name.get())) {
          add({StepKind::SetAttribute, made, value, std::move(name)});
          continue;
        }
        if (own < 0) own = emit_dict_of(made);
        add({StepKind::SetItem, own, value, std::move(name)});
      }
    }
    if (auto* dict = as<DictValue>(object->base)) {
      Step step{StepKind::FillDict, made};
      step.items = dict_items(dict);
      add(std::move(step));
    } else if (auto* list = as_sequence(object->base); list && list->kind == Kind::List) {
      Step step{StepKind::FillList, made};
      for (size_t i = 0; i < list->items.size(); ++i) step.items.push_back(emit(in_.item(list, i)));
      add(std::move(step));
    } else if (auto* set = as<SetValue>(object->base); set && set->type == &PySet_Type) {
      add(call_on_set(made, "update", {emit(set)}));
    }
  }

  int32_t emit_function(FunctionValue* function) {
    Step step{StepKind::Function, -1, -1, Ref::borrow(reinterpret_cast<PyObject*>(function->code))};
    step.items.push_back(emit_slot(function->globals_source));
    step.items.push_back(function->defaults ? emit(function->defaults) : -1);
    step.items.push_back(function->kwdefaults ? emit(function->kwdefaults) : -1);
    for (CellValue* cell : function->closure) step.items.push_back(emit(cell));
    int32_t made = add(std::move(step));
    known_[function] = made;
    static PyObject* const annotations = PyUnicode_InternFromString("__annotations__");
    if (function->annotations) in_.get_attr(function, annotations);  // becomes a field
    for (auto& [name, field] : function->fields) {
      int32_t value = emit(field);
      add({StepKind::SetAttribute, made, value, Ref::steal(PyUnicode_InternFromString(name.c_str()))});
    }
    if (function->own)
      for (auto& [name, attribute] : mapping_items(in_, function->own)) {
        int32_t value = emit(attribute);
        add({StepKind::SetAttribute, made, value, attribute_name(name)});
      }
    return made;
  }

  /// Only what is other than it was, so that every place of the dict's table stays what it is to those who iterate it;
  /// false where it must be filled anew.
  bool emit_changes(DictValue* dict, int32_t target) {
    PyObject* before = dict->outside.get();
    if (!before || !PyDict_CheckExact(before)) return false;
    // Attributes that were stored or deleted before the dict stood for them are changed already.
    for (const Effect& effect : in_.effects) {
      auto* owner = as<ObjectValue>(effect.target);
      if (owner && owner->own == dict) return false;
    }
    std::vector<PyObject*> keys;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(before, &position, &key, &value)) keys.push_back(key);
    bool is_fixed = keys.size() <= dict->entries.size() && std::all_of(keys.begin(), keys.end(), is_literal);
    for (auto& entry : dict->entries) {
      auto* name = as<ConstantValue>(entry.key);
      is_fixed = is_fixed && (!entry.key || (name && name->literal));
    }
    if (!is_fixed) return false;
    for (size_t i = 0; i < keys.size(); ++i)
      if (!dict->entries[i].key) add({StepKind::SetItem, target, -1, Ref::borrow(keys[i])});
    for (size_t i = 0; i < dict->entries.size(); ++i) {
      DictValue::Entry& entry = dict->entries[i];
      if (!entry.key) continue;
      const Ref& name = static_cast<ConstantValue*>(entry.key)->object;
      const Source* from = entry.value->source;
      bool is_there = i < keys.size() && from && from->kind == SourceKind::DictItem && from->parent == dict->source &&
                      literal_equal(from->key.get(), name.get());
      if (is_there) continue;
      int32_t stored = emit(entry.value);
      add({StepKind::SetItem, target, stored, name});
    }
    return true;
  }

  void emit_effect(const Effect& effect) {
    int32_t target = emit(effect.target);
    auto name = [&] { return static_cast<ConstantValue*>(effect.key)->object; };
    switch (effect.kind) {
      case EffectKind::Make:
        return;
      case EffectKind::Take:
        add({StepKind::Take, target, effect.count});
        return;
      case EffectKind::SetAttr: {
        int32_t value = emit(effect.value);
        add({StepKind::SetAttribute, target, value, name()});
        return;
      }
      case EffectKind::DelAttr:
        add({StepKind::SetAttribute, target, -1, name()});
        return;
      case EffectKind::SetGlobal: {
        int32_t value = emit(effect.value);
        add({StepKind::SetItem, target, value, name()});
        return;
      }
      case EffectKind::SetCell: {
        int32_t value = emit(effect.value);
        add({StepKind::SetCell, target, value});
        return;
      }
      case EffectKind::ListReplace: {
        auto* list = as_sequence(effect.target);
        Step step{StepKind::FillList, target};
        for (size_t i = 0; i < list->items.size(); ++i) step.items.push_back(emit(in_.item(list, i)));
        add(std::move(step));
        return;
      }
      case EffectKind::DictReplace: {
        auto* dict = as<DictValue>(effect.target);
        if (emit_changes(dict, target)) return;
        Step step{StepKind::FillDict, target};
        step.items = dict_items(dict);
        add(std::move(step));
        return;
      }
      case EffectKind::CallMethod: {
        std::vector<int32_t> arguments;
        for (Value* argument : as_sequence(effect.value)->items) arguments.push_back(emit(argument));
        Step step{StepKind::CallMethod, target, -1, name()};
        if (effect.target->kind == Kind::Set)
          step = call_on_set(target, PyUnicode_AsUTF8(name().get()), std::move(arguments));
        else
          step.items = std::move(arguments);
        add(std::move(step));
        return;
      }
      case EffectKind::DelGlobal:
        add({StepKind::SetItem, target, -1, name()});
        return;
    }
  }

  Interpreter& in_;
  Assembly out_;
  std::unordered_map<Value*, int32_t> known_;
  std::unordered_set<Value*> cyclic_;
  std::unordered_map<const Prototype*, int32_t> made_;
  int open_classes_ = 0;                      // that are being made
  int depth_ = 0;                             // of values inside of values
  std::vector<std::function<void()>> later_;  // what waits for them
};

}  // namespace

Assembly assemble(Interpreter& in, Value* result) { return Assembler(in).run(result); }
Assembly assemble_break(Interpreter& in) { return Assembler(in).run_break(); }

}  // namespace stator::capture
