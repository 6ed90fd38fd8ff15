#include "compile/stance.h"

#include <iterator>

#include "capture/pycompat/facts.h"
#include "compile/errors.h"
#include "compile/reports.h"
#include "compile/torch_marks.h"
#include "compile/watched_dict.h"

namespace stator {
using namespace capture;

namespace {

struct StanceRow {
  const char* name;
  RunMode mode;
};
// In the order of `Stance`.
constexpr StanceRow kStances[] = {
    {"default", RunMode::Compile},
    {"eager_then_compile", RunMode::Compile},
    {"force_eager", RunMode::Off},
    {"eager_on_recompile", RunMode::RunOnly},
    {"fail_on_recompile", RunMode::FailOnMiss},
    {"aot_eager_then_compile", RunMode::Compile},
};

/// Stator's own stance.
struct OwnStance {
  Stance stance = Stance::Default;
  PyObject* backend = nullptr;  // that replaces all others, owned; null: none
  bool skips_guards = false;

  /// Whether torch's stance counts.
  bool is_default() const { return stance == Stance::Default && !backend && !skips_guards; }
};
OwnStance own;

std::optional<Stance> stance_of(PyObject* name) {
  if (PyUnicode_Check(name))
    for (size_t i = 0; i < std::size(kStances); ++i)
      if (PyUnicode_CompareWithASCIIString(name, kStances[i].name) == 0) return static_cast<Stance>(i);
  PyErr_Format(PyExc_RuntimeError, "there is no stance %R", name);
  return {};
}

/// The stance that was set by torch's own function, which keeps it in a variable of a module. The module is not
/// imported for this. Each call asks whether the variable may have changed.
struct TorchStance {
  WatchedDict modules, globals;  // globals: of that module, if it is there
  Stance known = Stance::Default;
  PyObject* backend = nullptr;  // that replaces all others, owned; null: none
  bool skips_guards = false;

  bool is_known() const { return modules.is_unchanged() && (!globals.get() || globals.is_unchanged()); }

  std::optional<Stance> look() {
    static PyObject* const module_name = PyUnicode_InternFromString("torch._dynamo.eval_frame");
    static PyObject* const variable = PyUnicode_InternFromString("_stance");
    if (!modules.get()) modules.watch(PyImport_GetModuleDict());
    PyObject* module = stator_dict_get_str(modules.get(), module_name);
    PyObject* dict = module && PyModule_Check(module) ? PyModule_GetDict(module) : nullptr;
    if (dict != globals.get()) globals.watch(dict);
    known = Stance::Default;
    Py_CLEAR(backend);
    PyObject* stance = dict ? stator_dict_get_str(dict, variable) : nullptr;
    Ref name = stance ? Ref::steal(PyObject_GetAttrString(stance, "stance")) : Ref();
    PyErr_Clear();
    if (name) {
      std::optional<Stance> found = stance_of(name.get());
      if (!found) return {};
      known = *found;
    }
    Ref forced = stance ? Ref::steal(PyObject_GetAttrString(stance, "backend")) : Ref();
    PyErr_Clear();
    if (forced && forced.get() != Py_None && known == Stance::Default) backend = forced.release();
    Ref skips = stance ? Ref::steal(PyObject_GetAttrString(stance, "skip_guard_eval_unsafe")) : Ref();
    PyErr_Clear();
    skips_guards = skips && skips.get() == Py_True;
    modules.remember();
    globals.remember();
    return known;
  }
};
TorchStance of_torch;

std::optional<Stance> stance_now() {
  if (!own.is_default()) return own.stance;
  return of_torch.is_known() ? of_torch.known : of_torch.look();
}

}  // namespace

PyObject* set_stance(PyObject* name, PyObject* backend, bool skips_guards) {
  std::optional<Stance> wanted = stance_of(name);
  if (!wanted) return nullptr;
  PyObject* before = Py_BuildValue("OOO", stance_name(own.stance), own.backend ? own.backend : Py_None,
                                   own.skips_guards ? Py_True : Py_False);
  if (!before) return nullptr;
  own.stance = *wanted;
  own.skips_guards = skips_guards;
  Py_XSETREF(own.backend, backend == Py_None ? nullptr : Py_NewRef(backend));
  return before;
}

PyObject* stance_names() {
  PyObject* names = PyTuple_New(std::size(kStances));
  for (size_t i = 0; names && i < std::size(kStances); ++i)
    PyTuple_SET_ITEM(names, static_cast<Py_ssize_t>(i), PyUnicode_InternFromString(kStances[i].name));
  return names;
}

PyObject* stance_name(Stance stance) {
  static PyObject* const names = stance_names();
  return PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(stance));
}

std::optional<RunMode> mode_now() {
  if (may_have_new_marks()) note_new_marks();
  std::optional<Stance> stance = stance_now();
  if (!stance) return {};
  const RunMode asked = run_mode(), stands = kStances[static_cast<size_t>(*stance)].mode;
  if (asked == RunMode::Off || stands == RunMode::Off) return RunMode::Off;
  return asked == RunMode::Compile ? stands : asked;
}

PyObject* forced_backend() { return own.is_default() ? of_torch.backend : own.backend; }

bool skips_guards() { return own.is_default() ? of_torch.skips_guards : own.skips_guards; }

bool is_first_call(CodeCache& cache, PyObject* const* bound) {
  const std::optional<Stance> stance = stance_now();
  const bool is_plain = stance == Stance::EagerThenCompile || stance == Stance::AotEagerThenCompile;
  if (!is_plain || std::exchange(cache.was_called, true) || !cache.entries().empty()) return false;
  cache.first_call = std::make_unique<const SeenArguments>(*cache.decoded, bound);
  return true;
}

void refuse_capture(CodeCache& cache, const Place& place, PyObject* cache_key) {
  std::string message = "the stance fail_on_recompile forbids to capture " + name_of(cache.code());
  std::vector<std::string> reasons = cache.failures(place.offset, cache_key, {place.values, place.function});
  message += reasons.empty() ? ", which was not captured before" : "; what was captured does not fit:";
  for (const std::string& reason : reasons) message += "\n  " + reason;
  Ref error = Ref::steal(PyObject_CallFunction(error_types().recompile_forbidden.get(), "s", message.c_str()));
  if (error) PyErr_SetObject(error_types().recompile_forbidden.get(), error.get());
}

}  // namespace stator
