// Guards as text (columns `describe` and `saw` of guard_kinds.def).
#include "capture/guards/class_content.h"
#include "capture/guards/describe.h"
#include "capture/guards/dropping.h"
#include "capture/guards/elements.h"
#include "capture/guards/kinds.h"
#include "capture/guards/literals.h"
#include "capture/guards/object_queries.h"
#include "capture/guards/shape_guards.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

std::string expected_object(const Fact& fact) { return short_repr(fact.object.get()); }

std::string saw_object(const Fact&, PyObject* object) { return object ? short_repr(object) : "nothing there"; }

std::string describe_identity(const Fact& fact) { return "is the same object (" + expected_object(fact) + ")"; }
std::string describe_equals(const Fact& fact) { return "== " + expected_object(fact); }
std::string describe_compares(const Fact& fact) {
  constexpr const char* kSymbols[] = {"<", "<=", "==", "!=", ">", ">="};
  const std::string text = std::string(kSymbols[fact.number / 2]) + " " + expected_object(fact);
  return fact.number % 2 != 0 ? text : "not " + text;
}
std::string describe_type(const Fact& fact) { return "has type " + expected_object(fact); }
std::string saw_type(const Fact&, PyObject* object) {
  return object ? "a " + std::string(Py_TYPE(object)->tp_name) : "nothing there";
}
std::string describe_class_content(const Fact& fact) { return "class is unchanged: " + expected_object(fact); }
std::string saw_class(const Fact& fact, PyObject*) { return fact.content->difference(); }
std::string describe_tensor(const Fact& fact) { return fact.tensor->describe(); }
std::string saw_tensor(const Fact& fact, PyObject* object) {
  return object ? fact.tensor->mismatch(object) : "nothing there";
}
std::string describe_length(const Fact& fact) { return "has length " + std::to_string(fact.number); }
std::string saw_length(const Fact&, PyObject* object) {
  Py_ssize_t length = object ? plain_length(object) : -1;
  return length < 0 ? saw_type({}, object) : "length " + std::to_string(length);
}
std::string describe_keys(const Fact& fact) { return "has keys " + describe_elements(fact.object.get()); }
std::string saw_keys(const Fact&, PyObject* object) {
  if (!object || !PyDict_Check(object)) return saw_type({}, object);
  Ref keys = Ref::steal(PyDict_Keys(object));
  return "keys " + short_repr(keys.get());
}
std::string describe_absent(const Fact& fact) { return "has no key " + expected_object(fact); }
std::string describe_set(const Fact& fact) { return "has the elements " + describe_elements(fact.object.get()); }
std::string describe_code(const Fact&) { return "has the same code"; }
std::string describe_native_method(const Fact& fact) { return "is bound from " + expected_object(fact); }
std::string describe_no_attribute(const Fact& fact) { return "has no own attribute " + expected_object(fact); }
std::string describe_no_attributes(const Fact&) { return "has no own attributes"; }
std::string describe_cell_empty(const Fact&) { return "is unbound"; }
std::string describe_same(const Fact& fact) {
  return "is the same object as " + (fact.other ? fact.other->describe() : std::string("another source"));
}
std::string describe_not_same(const Fact& fact) {
  return "is another object than " + (fact.other ? fact.other->describe() : std::string("another source"));
}

std::string describe_leaf(const Fact& fact) { return fact.number ? "is a leaf" : "is not a leaf"; }
std::string saw_item(const Fact&, PyObject* object) {
  auto item = object ? int_item(object) : std::nullopt;
  return item ? "holds " + std::to_string(*item) : saw_type({}, object);
}
std::string describe_items(const Fact& fact) { return "holds " + expected_object(fact); }
std::string saw_items(const Fact&, PyObject* object) {
  Ref items = object ? int_items(object) : Ref();
  return items ? "holds " + short_repr(items.get()) : saw_type({}, object);
}
std::string describe_view(const Fact& fact) { return fact.number ? "is a view" : "is not a view"; }
std::string describe_item(const Fact& fact) { return "holds " + std::to_string(static_cast<int64_t>(fact.number)); }
std::string describe_array_layout(const Fact& fact) {
  return fact.object ? "is an array of the same dtype, shape and strides" : "is an array without a layout for tensors";
}
std::string describe_offset(const Fact& fact) { return "has storage offset " + std::to_string(fact.number); }
std::string describe_no_gradient(const Fact&) { return "has no gradient"; }
std::string describe_nothing_handled(const Fact&) { return "is called while no exception is being handled"; }
std::string describe_distinct(const Fact&) { return "is a different object than the others that were read"; }
std::string describe_memory(const Fact&) { return "shares memory with the other inputs as it did"; }
std::string describe_shapes(const Fact& fact) { return describe(*fact.shapes); }
std::string saw_shapes(const Fact&, PyObject*) { return "sizes for which they do not hold"; }
std::string describe_exhausted(const Fact& fact) { return "has " + std::to_string(fact.number) + " items left"; }
std::string describe_drop(const Fact& fact, const std::string& text) {
  switch (static_cast<Dropped>(fact.number)) {
    case Dropped::Object:
      return text;
    case Dropped::Parts:
      return "holds what " + text;
    case Dropped::Attribute:
      return "has an attribute " + expected_object(fact) + " that " + text;
    default:
      return "has an item " + expected_object(fact) + " that " + text;
  }
}
std::string describe_unobservable_drop(const Fact& fact) {
  return describe_drop(fact, "can be dropped without running code of the program");
}
std::string describe_observable_drop(const Fact& fact) {
  return describe_drop(fact, "cannot be dropped without running code of the program");
}
std::string describe_depends(const Fact&) { return "is kept alive by what the program drops"; }
std::string describe_survives(const Fact&) { return "is not kept alive by what the program drops"; }
std::string describe_unknown_item(const Fact& fact) {
  return "cannot be read in advance after " + std::to_string(fact.number) + " items";
}
std::string saw_exhausted(const Fact&, PyObject*) { return "more items"; }
std::string describe_abc(const Fact&) { return "has the same registered subclasses"; }

std::string describe_not_cached(const Fact& fact) { return "has no cached result for " + expected_object(fact); }
std::string describe_returns(const Fact& fact) { return "returns " + expected_object(fact); }
std::string saw_answer(const Fact& fact, PyObject* object) {
  Ref answer = object ? answer_of(object, fact.extra.get()) : Ref();
  return answer ? short_repr(answer.get()) : "an error";
}

struct TextRow {
  const char* name;
  std::string (*describe)(const Fact& fact);
  /// `object`: what is at the source now; null if the path leads nowhere.
  std::string (*saw)(const Fact& fact, PyObject* object);
};
constexpr TextRow kTexts[] = {
#define STATOR_GUARD(name, stage, traits, unwanted, check, words, describe, saw) {#name, describe, saw},
#include "capture/values/guard_kinds.def"
#undef STATOR_GUARD
};

const TextRow& text_of(FactKind kind) { return kTexts[static_cast<size_t>(kind)]; }

}  // namespace

const char* name_of(FactKind kind) { return text_of(kind).name; }

std::string describe_fact(const Source& source, const Fact& fact) {
  // An item of an instance's __dict__ is an attribute of the instance.
  bool is_attribute = fact.kind == FactKind::Absent && source.kind == SourceKind::InstanceDict;
  return source.describe() + " " + text_of(is_attribute ? FactKind::NoAttribute : fact.kind).describe(fact);
}

std::string at_line(const UserLine& line) {
  if (!line.file) return "";
  return "  (needed at " + stator::text_of(line.file.get()) + ":" + std::to_string(line.line) + ")";
}

std::string describe_seen(const Fact& fact, PyObject* object) { return text_of(fact.kind).saw(fact, object); }

}  // namespace stator::capture
