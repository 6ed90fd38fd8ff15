// `random.Random(seed)` that the program makes: its methods written in Python are interpreted, those written in C run
// on an instance that belongs to the capture. `base` of the value is that instance.
#include "capture/guards/literals.h"
#include "capture/interpreter/protocol/arguments.h"
#include "capture/interpreter/protocol/exceptions.h"
#include "capture/interpreter/protocol/models.h"
#include "capture/interpreter/state/known_types.h"

namespace stator::capture {
namespace {

PyTypeObject* generator_class() {
  static auto* const type = reinterpret_cast<PyTypeObject*>(known_object("random.Random"));
  return type;
}

Value* make(Interpreter& in, CallArgs& args) {
  static PyObject* const name = PyUnicode_InternFromString("__init__");
  static PyObject* const new_state = known_object("_random.Random");
  Ref state = Ref::steal(PyObject_CallNoArgs(new_state));
  if (!state) throw Break{BreakId::unknown_call, take_error_text()};
  auto* made = in.arena.make<ObjectValue>(generator_class());
  made->base = in.constant(std::move(state));
  in.guards.add_class(made->type);
  in.call(in.get_attr(made, name), args);
  return made;
}

/// A method that `random.Random` inherits from its base class in C. It runs on the real generator that belongs to the
/// capture (see above).
template <const char* const& kName, bool changes>
Value* method(Interpreter& in, CallArgs& args) {
  auto* self = as<ObjectValue>(args.positional[0]);
  auto* state = self && self->type == generator_class() && !self->object ? as<ConstantValue>(self->base) : nullptr;
  if (!state)
    throw Break{BreakId::unknown_call, std::string("random.Random.") + kName + " of a generator from outside"};
  CallArgs rest = args;
  rest.positional.erase(rest.positional.begin());
  LiteralArgs given = literal_args(in, rest);
  const bool is_seed = std::string_view(kName) == "seed";
  const bool has_seed = given.positional && PyTuple_GET_SIZE(given.positional.get()) == 1 &&
                        PyTuple_GET_ITEM(given.positional.get(), 0) != Py_None;
  if (!given.positional || given.keywords || (is_seed && !has_seed))
    throw Break{BreakId::unknown_call, std::string("random.Random.") + kName + " of something that is not known"};
  if (changes) {
    in.effects.refuse_frozen(self);
    in.effects.note_change();
  }
  Ref bound = Ref::steal(PyObject_GetAttrString(state->object.get(), kName));
  Ref result = bound ? Ref::steal(PyObject_CallObject(bound.get(), given.positional.get())) : Ref();
  if (!result) raise_current(in);
  return in.constant(std::move(result));
}

constexpr const char* kRandom = "random";
constexpr const char* kBits = "getrandbits";
constexpr const char* kSeed = "seed";
constexpr const char* kGet = "getstate";
constexpr const char* kSet = "setstate";

constexpr ModelRow kRows[] = {
    {"random.Random", make, 0, 1, "x"},
    {"_random.Random.random", method<kRandom, true>, 1, 1},
    {"_random.Random.getrandbits", method<kBits, true>, 2, 2},
    {"_random.Random.seed", method<kSeed, true>, 1, 2},
    {"_random.Random.getstate", method<kGet, false>, 1, 1},
    {"_random.Random.setstate", method<kSet, true>, 2, 2},
};

}  // namespace

std::span<const ModelRow> random_models() { return kRows; }

}  // namespace stator::capture
