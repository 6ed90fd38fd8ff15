#include "capture/interpreter/objects/dropped.h"

#include <algorithm>
#include <memory>
#include <unordered_set>
#include <vector>

#include "capture/guards/dropping.h"

namespace stator::capture {
namespace {

/// The variables and stack values of the captured frame that it held when the capture began, and holds no longer.
void add_dropped_variables(Interpreter& in, std::vector<Source*>& roots) {
  const Frame* frame = in.frames.current();
  // The captured frame has returned. Its caller holds the arguments, unless the frame is a resumed one.
  if (!frame && !in.start.is_resumed()) return;
  std::unordered_set<const Source*> held;
  while (frame && frame->caller) frame = frame->caller;
  if (frame) {
    held.insert(frame->unread.begin(), frame->unread.end());
    for (const auto* values : {&frame->locals, &frame->stack})
      for (const Value* value : *values) held.insert(value ? value->source : nullptr);
  }
  const std::vector<Ref>& values = in.start.values();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) {
      in.start.note_looked_at(i);  // in a later call, the program may drop what is bound there
      continue;
    }
    Source* source = in.guards.sources().argument(static_cast<int>(i), values[i].get());
    if (!held.contains(source)) roots.push_back(source);
  }
}

}  // namespace

bool may_have_dropped(Interpreter& in, Source* source) {
  if (!in.effects.classes_written.empty()) return true;
  PyObject* object = source->object.get();
  std::vector<Source*> roots;
  for (const Effect& effect : in.effects) {
    Source* changed = effect.target ? effect.target->source : nullptr;
    // A change of the object itself does not drop it. What the program makes in each call has no guards.
    if (!changed || changed->object.get() == object || in.prototypes.owns(changed)) continue;
    if (!changed->object) return true;
    if (std::find(roots.begin(), roots.end(), changed) == roots.end()) roots.push_back(changed);
  }
  add_dropped_variables(in, roots);
  if (roots.empty()) return false;
  const bool depends =
      std::any_of(roots.begin(), roots.end(), [&](Source* root) { return is_reachable(root->object.get(), object); });
  source->loaded = true;
  for (Source* root : roots) root->loaded = true;
  Fact fact{depends ? FactKind::Depends : FactKind::Survives, Ref(), Ref(), 0, in.frames.user_line()};
  fact.group = std::make_shared<const std::vector<Source*>>(std::move(roots));
  in.guards.add(source, std::move(fact));
  return depends;
}

}  // namespace stator::capture
