// Models of `warnings`: its Python code is interpreted like any other.
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"
#include "capture/interpreter/torch/warning_filters.h"
#include "capture/pycompat/text.h"

namespace stator::capture {
namespace {

[[noreturn]] void refuse(const char* what) { throw Break{BreakId::unknown_call, what}; }

/// warnings._filters_mutated, called after the filters were changed: the filters must be read again.
Value* rules_changed(Interpreter& in, CallArgs&) {
  in.replay_method(in.constant(known_object("_warnings._filters_mutated")), "__call__", {});
  in.torch.tracer.refuse_warnings(has_changed_filters(in) || has_warned(in));
  return in.none();
}

/// Frames that CPython leaves out when it counts: those of the import machinery.
bool is_internal(const Frame& frame) {
  const std::string file = text_of(frame.code->code->co_filename);
  return file.find("importlib") != file.npos && file.find("_bootstrap") != file.npos;
}

/// The frame that `stacklevel` names, counted from the caller of `warn`.
const Frame& warned_frame(Interpreter& in, Value* level) {
  int64_t left = level ? index_of(in, level) : 1;
  const Frame* frame = in.frames.current();
  for (; frame && left > 1; --left) {
    if (is_internal(*frame)) refuse("a warning in the import machinery");
    frame = frame->caller;
  }
  if (!frame || is_internal(*frame)) refuse("a warning at a line outside of the compiled function");
  return *frame;
}

Value* category_of(Interpreter& in, Value* given) {
  PyObject* category = given ? in.constant_of(given) : Py_None;
  if (category == Py_None) return in.constant(PyExc_UserWarning);
  const bool is_known = category && PyType_Check(category) && !in.prototypes.find(category) &&
                        PyObject_IsSubclass(category, PyExc_Warning) == 1;
  if (!is_known) refuse("a warning of a category that is not known");
  return given;
}

/// Breaks if a warning may do more than being shown; a guard asks again in each call.
void require_plain_warnings(Interpreter& in) {
  static PyObject* const question = known_object("stator.warned.only_shows");
  Ref answer = Ref::steal(PyObject_CallNoArgs(question)), nothing = Ref::steal(PyTuple_New(0));
  if (answer.get() != Py_True) refuse("a warning that may raise, or that code of the program shows");
  in.guards.sources().add_fact(
      in.guards.sources().pinned(question, "warnings are only shown"),
      Fact{FactKind::Returns, std::move(answer), std::move(nothing), 0, in.frames.user_line()});
}

/// `warn(message, category=None, stacklevel=1, source=None)`: the plan gives the warning where it replays the effects.
Value* warn(Interpreter& in, CallArgs& args) {
  Value* text = argument(args, 0, "message");
  PyObject* message = text ? in.constant_of(text) : nullptr;
  if (!message || !PyUnicode_CheckExact(message)) refuse("a warning whose message is not a known str");
  if (args.keyword("skip_file_prefixes")) refuse("a warning that skips files");
  if (Value* source = argument(args, 3, "source"); source && !in.is_same(source, in.none()))
    refuse("a warning with a source");
  Value* category = category_of(in, argument(args, 1, "category"));
  const Frame& frame = warned_frame(in, argument(args, 2, "stacklevel"));
  if (has_changed_filters(in)) refuse("a warning after the program has changed the filters");
  require_plain_warnings(in);
  static PyObject* const give = known_object("stator.warned.give");
  static PyObject* const module_of = known_object("stator.warned.module_of");
  Ref module = Ref::steal(PyObject_CallOneArg(module_of, frame.globals));
  if (!module || module.get() == Py_None) {
    PyErr_Clear();
    refuse("a warning in code that belongs to no module");
  }
  in.replay_method(in.constant(give), "__call__",
                   {in.constant(message), category, in.constant(frame.code->code->co_filename), in.integer(frame.line),
                    in.constant(std::move(module))});
  // A torch warning of a later operator would come before this one.
  in.torch.tracer.refuse_warnings(true);
  return in.none();
}

constexpr ModelRow kRows[] = {
    {"_warnings._filters_mutated", rules_changed, 0, 0},
    {"_warnings.warn", warn, 0, 4, "message category stacklevel source skip_file_prefixes"},
};

}  // namespace

std::span<const ModelRow> warning_models() { return kRows; }

}  // namespace stator::capture
