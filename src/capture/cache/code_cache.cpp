#include "capture/cache/code_cache.h"

#include <algorithm>
#include <array>

#include "capture/guards/literals.h"
#include "capture/guards/tensor_expectation.h"
#include "capture/pycompat/text.h"
#include "core/observe/clock.h"
#include "core/observe/counters.h"

namespace stator::capture {
namespace {

observe::Counter hits("cache", "hits");

/// After so many refused calls in a row, calls rest. Fewer than the misses that make room for one more capture.
constexpr size_t kRefusalsUntilRest = 16;
/// After so many refused calls in a row, and then once in so many, the settings that refuse them are read again.
constexpr size_t kRefusalsUntilSure = 4;
/// Of the calls that rest, one in this many times the number of entries looks at all of them.
constexpr size_t kCallsPerEntry = 4;
/// So many hits make up for a capture.
constexpr uint64_t kHitsThatPay = 100;
/// After so many entries behind a break that died with the object at one place and were never hit, captures break
/// there.
constexpr size_t kDeathsUntilMortal = 2;
/// One hit in so many is timed. To time all would cost more than many checks of guards do.
constexpr uint64_t kHitsPerSample = 256;

struct Registry {
  std::unordered_map<PyCodeObject*, std::shared_ptr<CodeCache>> caches;
  std::unordered_map<PyCodeObject*, Ref> watches;
  uint64_t next_frame_id = 0;
  /// Recently used caches, indexed by the address of the code: a resume looks up the same few again and again.
  std::array<std::shared_ptr<CodeCache>, 64> recent;

  std::shared_ptr<CodeCache>& recent_for(PyCodeObject* code) {
    return recent[(reinterpret_cast<uintptr_t>(code) >> 4) % recent.size()];
  }
};
Registry& registry() {
  static auto* made = new Registry;
  return *made;
}

PyObject* on_code_death(PyObject* capsule, PyObject*) {
  auto* code = static_cast<PyCodeObject*>(PyCapsule_GetPointer(capsule, nullptr));
  auto cache = registry().caches.find(code);
  std::shared_ptr<CodeCache> dying = cache == registry().caches.end() ? nullptr : cache->second;
  if (registry().recent_for(code) == dying) registry().recent_for(code).reset();
  registry().caches.erase(code);
  registry().watches.erase(code);
  Py_RETURN_NONE;
}
PyMethodDef on_code_death_def = {"on_code_death", on_code_death, METH_O, nullptr};

}  // namespace

CodeCache::CodeCache(PyCodeObject* code) : code_(code) {}

CodeCache::Entries* CodeCache::at(int32_t offset) {
  if (offset == 0) return at_start_;
  auto found = entries_.find(offset);
  return found == entries_.end() ? nullptr : &found->second;
}

std::shared_ptr<Entry> CodeCache::find(int32_t offset, PyObject* cache_key, const GuardInput& input) {
  // Destroying an entry may run code of the program, which may use this list: do it after the loop.
  Entries dead;
  Entries* entries = at(offset);
  if (!entries) return nullptr;
  const int64_t start = lookup_start();
  for (auto it = entries->begin(); it != entries->end();) {
    Entry& entry = **it;
    auto here = it++;
    if (entry.guards->is_dead()) {
      note_death(entry);
      dead.splice(dead.end(), *entries, here);
    } else if (entry.cache_key.get() == cache_key && entry.fits(input.arguments) && entry.guards->run(input)) {
      return hit(*entries, here, start);
    }
  }
  return nullptr;
}

std::shared_ptr<Entry> CodeCache::find(PyObject* cache_key, PyObject* function, const RawCall& call) {
  Entries* entries = at(0);
  if (!entries) return nullptr;
  const int64_t start = lookup_start();
  for (auto it = entries->begin(); it != entries->end(); ++it) {
    Entry& entry = **it;
    if (entry.cache_key.get() == cache_key && entry.guards->run(call, function)) return hit(*entries, it, start);
  }
  return nullptr;
}

std::shared_ptr<Entry> CodeCache::find_only(int32_t offset, PyObject* cache_key, const GuardInput& input) {
  Entries* entries = at(offset);
  if (!entries) return nullptr;
  auto is_candidate = [&](const std::shared_ptr<Entry>& entry) {
    return entry->cache_key.get() == cache_key && !entry->guards->is_dead() && entry->fits(input.arguments);
  };
  auto only = std::find_if(entries->begin(), entries->end(), is_candidate);
  if (only == entries->end() || std::any_of(std::next(only), entries->end(), is_candidate)) return nullptr;
  return (*only)->guards->run_for_arguments(input) ? hit(*entries, only, 0) : nullptr;
}

std::vector<std::shared_ptr<Entry>> CodeCache::find_serving(int32_t offset, PyObject* cache_key,
                                                            const GuardInput& input) {
  std::vector<std::shared_ptr<Entry>> found;
  if (const Entries* entries = at(offset))
    for (auto& entry : *entries)
      if (entry->cache_key.get() == cache_key && entry->guards->has_break() && entry->fits(input.arguments) &&
          entry->guards->run_for_plan(input))
        found.push_back(entry);
  return found;
}

std::string CodeCache::compare_passes(int32_t offset, PyObject* cache_key, const GuardInput& input) {
  if (Entries* entries = at(offset))
    for (auto& entry : *entries)
      if (entry->cache_key.get() == cache_key && entry->fits(input.arguments))
        if (std::string difference = entry->guards->compare_passes(input); !difference.empty())
          return entry->id() + ": " + difference;
  return {};
}

int64_t CodeCache::lookup_start() const {
  // The second hit is the first one that is timed: the first one finds the caches of the processor cold.
  return lookups.hits % kHitsPerSample == 1 ? observe::now_ns() : 0;
}

std::shared_ptr<Entry> CodeCache::hit(Entries& entries, Entries::iterator at, int64_t start) {
  if (start != 0) {
    ++lookups.timed;
    lookups.timed_ns += observe::now_ns() - start;
  }
  ++lookups.hits;
  ++(*at)->hits;
  hits.bump();
  (*at)->used = ++clock_;
  if (!refusals_.empty()) end_refusals((*at)->offset);
  if (at != entries.begin() && !(*at)->general) entries.splice(entries.begin(), entries, at);
  return *at;
}

void CodeCache::note_death(const Entry& entry) {
  if (entry.hits >= kHitsThatPay) return;
  Deaths& deaths = deaths_[{entry.offset, entry.cache_key.get()}];
  ++deaths.count;
  for (const std::string& place : entry.guards->died_at()) {
    deaths.last = place;
    if (entry.offset == 0 || entry.hits > 0 || ++deaths.places[place] < kDeathsUntilMortal) continue;
    varying[entry.offset].mortal.insert(place);
  }
}

size_t CodeCache::died(int32_t offset, PyObject* cache_key) const {
  auto found = deaths_.find({offset, cache_key});
  return found == deaths_.end() ? 0 : found->second.count;
}

bool CodeCache::forgive_death(int32_t offset, PyObject* cache_key) {
  auto found = deaths_.find({offset, cache_key});
  if (found == deaths_.end() || found->second.count == 0) return false;
  --found->second.count;
  return true;
}

std::optional<TorchLimits> CodeCache::known_limits(int32_t offset, PyObject* cache_key) const {
  auto found = refusals_.find(offset);
  if (found == refusals_.end() || found->second.cache_key != cache_key) return {};
  const size_t count = found->second.count;
  const bool is_due = count < kRefusalsUntilSure || count >= kRefusalsUntilRest || count % kRefusalsUntilSure == 0;
  return is_due ? std::nullopt : std::optional(found->second.limits);
}

size_t CodeCache::note_refusal(int32_t offset, PyObject* cache_key, const TorchLimits& limits) {
  if (refusals_[offset].cache_key != cache_key) end_refusals(offset);
  Refusals& row = refusals_[offset];
  row.cache_key = cache_key;
  row.limits = limits;
  if (++row.count == kRefusalsUntilRest) ++resting_;
  return 1 + std::exchange(row.unseen, 0);
}

bool CodeCache::is_resting(int32_t offset, PyObject* cache_key) {
  auto found = refusals_.find(offset);
  if (found == refusals_.end()) return false;
  Refusals& row = found->second;
  if (row.cache_key != cache_key || row.count < kRefusalsUntilRest) return false;
  const Entries* entries = at(offset);
  if (row.unseen + 1 >= kCallsPerEntry * (entries ? entries->size() : 0)) return false;
  ++row.unseen;
  return true;
}

void CodeCache::end_refusals(int32_t offset) {
  auto found = refusals_.find(offset);
  if (found == refusals_.end()) return;
  if (found->second.count >= kRefusalsUntilRest) --resting_;
  refusals_.erase(found);
}

void CodeCache::add(std::shared_ptr<Entry> entry) {
  entry->used = ++clock_;
  end_refusals(entry->offset);
  Entries& row = entries_[entry->offset];
  if (entry->offset == 0) at_start_ = &row;
  row.insert(entry->general ? row.end() : row.begin(), std::move(entry));
}

void CodeCache::remove(const Entry& entry) {
  Entries removed;  // destroyed when the list is in order: that may run code of the program
  Entries* entries = at(entry.offset);
  if (!entries) return;
  for (auto it = entries->begin(); it != entries->end(); ++it)
    if (it->get() == &entry) return removed.splice(removed.end(), *entries, it);
}

std::vector<std::shared_ptr<Entry>> CodeCache::entries() const {
  std::vector<std::shared_ptr<Entry>> all;
  for (auto& [offset, entries] : entries_) all.insert(all.end(), entries.begin(), entries.end());
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a->used > b->used; });
  return all;
}

void CodeCache::take_marked(const std::unordered_set<const void*>& callables, Entries& into) {
  for (auto& [offset, entries] : entries_)
    for (auto it = entries.begin(); it != entries.end();) {
      auto here = it++;
      const auto& asked = (*here)->asked;
      if (std::any_of(asked.begin(), asked.end(), [&](const void* callable) { return callables.contains(callable); }))
        into.splice(into.end(), entries, here);
    }
}

void CodeCache::evict(PyObject* cache_key) {
  Entries* from = nullptr;
  Entries::iterator oldest;
  for (auto& [offset, entries] : entries_)
    for (auto it = entries.begin(); it != entries.end(); ++it)
      if ((*it)->cache_key.get() == cache_key && (!from || (*it)->used < (*oldest)->used)) {
        from = &entries;
        oldest = it;
      }
  if (!from) return;
  Entries evicted;
  evicted.splice(evicted.end(), *from, oldest);
}

std::vector<std::string> CodeCache::failures(int32_t offset, PyObject* cache_key, const GuardInput& input,
                                             size_t limit) {
  std::vector<std::string> reasons;
  const Entries* entries = at(offset);
  if (!entries) return reasons;
  for (auto& entry : *entries)
    if (entry->cache_key.get() == cache_key && reasons.size() < limit)
      reasons.push_back(
          entry->id() + ": " +
          (entry->fits(input.arguments) ? entry->guards->miss(input).text : "other variables of the frame are bound"));
  auto deaths = deaths_.find({offset, cache_key});
  if (deaths != deaths_.end() && reasons.size() < limit)
    reasons.push_back("an object that an earlier capture was bound to was deleted" +
                      (deaths->second.last.empty() ? "" : ": it was at " + deaths->second.last));
  return reasons;
}

/// Whether the guard failed because of another value of the same type: a number, a string, or the length of a list.
static bool is_other_value(const CheckArray::Miss& miss) {
  if (!miss.saw || miss.fact->kind == FactKind::Tensor) return false;
  PyTypeObject* type = Py_TYPE(miss.saw);
  if (miss.fact->kind == FactKind::Length) return type == &PyList_Type;
  return Py_TYPE(miss.fact->object.get()) == type && type != &PyBool_Type && is_literal_type(type);
}

std::vector<std::string> CodeCache::unstable_sources(int32_t offset, PyObject* cache_key, const GuardInput& input) {
  const auto& known = varying[offset].values;
  std::unordered_map<std::string, size_t> blamed;
  size_t failed = 0;
  const Entries* entries = at(offset);
  if (!entries) return {};
  for (auto& entry : *entries) {
    if (entry->cache_key.get() != cache_key || !entry->fits(input.arguments) || !entry->guards->is_about_same(input))
      continue;
    std::vector<CheckArray::Miss> misses;
    bool only_values = entry->guards->misses(input, misses);
    std::unordered_set<std::string> places;
    bool is_outdated = false;  // made before one of its sources was known to vary
    for (const CheckArray::Miss& miss : misses) {
      if (!is_other_value(miss)) continue;
      std::string place = miss.source->describe();
      is_outdated = is_outdated || known.contains(place);
      places.insert(std::move(place));
    }
    if (is_outdated) continue;
    failed += only_values || !places.empty();
    for (const std::string& place : places) ++blamed[place];
  }
  std::vector<std::string> unstable;
  for (auto& [place, count] : blamed)
    if (count > 1 && 2 * count > failed) unstable.push_back(place);
  return unstable;
}

/// Whether they are two classes of one name, which the same statement made.
static bool is_class_made_again(PyObject* a, PyObject* b) {
  if (!PyType_Check(a) || !PyType_Check(b)) return false;
  auto *x = reinterpret_cast<PyTypeObject*>(a), *y = reinterpret_cast<PyTypeObject*>(b);
  if (a == b || !PyType_HasFeature(x, Py_TPFLAGS_HEAPTYPE) || !PyType_HasFeature(y, Py_TPFLAGS_HEAPTYPE)) return false;
  return PyUnicode_Compare(reinterpret_cast<PyHeapTypeObject*>(a)->ht_qualname,
                           reinterpret_cast<PyHeapTypeObject*>(b)->ht_qualname) == 0;
}

std::vector<std::string> CodeCache::renewed_sources(int32_t offset, PyObject* cache_key, const GuardInput& input,
                                                    bool is_at_limit) {
  const Entries* entries = offset > 0 ? at(offset) : nullptr;
  if (!entries) return {};
  std::unordered_map<std::string, size_t> blamed;
  size_t failed = 0;
  for (auto& entry : *entries) {
    if (entry->cache_key.get() != cache_key || entry->general || !entry->fits(input.arguments)) continue;
    ++failed;
    const CheckArray::Miss miss = entry->guards->miss(input);
    if (!miss.saw || !miss.expected || is_from_pinned(*miss.source)) continue;
    const bool is_type = miss.fact->kind == FactKind::TypeIs;
    if (!is_type && miss.fact->kind != FactKind::Identity) continue;
    PyObject* found = is_type ? reinterpret_cast<PyObject*>(Py_TYPE(miss.saw)) : miss.saw;
    if (is_at_limit ? entry->hits == 0 : is_class_made_again(miss.expected, found)) ++blamed[miss.source->describe()];
  }
  const auto& known = varying[offset].mortal;
  std::vector<std::string> renewed;
  for (auto& [place, count] : blamed)
    if (count > 1 && 2 * count > failed && !known.contains(place)) renewed.push_back(place);
  return renewed;
}

/// Whether the guard failed because of another number of this class.
static bool is_other_number(const CheckArray::Miss& miss, const PyTypeObject* type) {
  return miss.fact->kind == FactKind::Equals && miss.saw && Py_TYPE(miss.saw) == type &&
         Py_TYPE(miss.fact->object.get()) == type;
}

/// The dimensions of a tensor whose other size made the guard fail, and may be symbolic: a bit for each.
static uint64_t other_sizes(const CheckArray::Miss& miss, bool parameters) {
  if (miss.fact->kind != FactKind::Tensor || !miss.saw || (!parameters && miss.fact->tensor->is_parameter())) return 0;
  uint64_t dims = miss.fact->tensor->other_sizes(miss.saw);
  // Sizes 0 and 1 decide how tensors broadcast, so that they are captured apart.
  for (int dim = 0; dim < 64; ++dim)
    if ((dims >> dim & 1) != 0 && size_of(miss.saw, dim) < 2) dims &= ~(uint64_t{1} << dim);
  return dims;
}

/// The dimensions of a tensor whose other stride made the guard fail, and may be symbolic: a bit for each.
static uint64_t other_strides(const CheckArray::Miss& miss, uint64_t symbolic, bool parameters) {
  if (miss.fact->kind != FactKind::Tensor || !miss.saw || (!parameters && miss.fact->tensor->is_parameter())) return 0;
  return miss.fact->tensor->other_strides(miss.saw, symbolic);
}

/// Adds what changed as text, once.
static void tell_change(std::vector<std::string>& into, const std::string& source, const std::string& before,
                        const std::string& now) {
  std::string text = source + ": " + before + ", now " + now;
  if (std::find(into.begin(), into.end(), text) == into.end()) into.push_back(std::move(text));
}

/// The text of a number.
static std::string number_text(PyObject* number) {
  const Ref text = Ref::steal(PyObject_Repr(number));
  if (!text) PyErr_Clear();
  return text_of(text.get());
}

CodeCache::Changed CodeCache::changed(int32_t offset, PyObject* cache_key, const GuardInput& input, bool parameters) {
  Changed changed;
  const Entries* entries = at(offset);
  if (!entries) return changed;
  const Varying &known = varying[offset], &fixed_here = fixed[offset];
  for (auto& entry : *entries) {
    if (entry->cache_key.get() != cache_key || !entry->fits(input.arguments) || !entry->guards->is_about_same(input))
      continue;
    std::vector<CheckArray::Miss> misses;
    if (!entry->guards->misses(input, misses)) continue;
    bool is_specialised = false;
    for (const CheckArray::Miss& miss : misses) {
      const bool is_float = is_other_number(miss, &PyFloat_Type), is_int = is_other_number(miss, &PyLong_Type);
      uint64_t dims = other_sizes(miss, parameters), strides = other_strides(miss, dims, parameters);
      if (!is_float && !is_int && dims == 0 && strides == 0) continue;
      std::string place = miss.source->describe();
      dims &= ~(known.sizes.of(place) | fixed_here.sizes.of(place));
      strides &= ~(known.strides.of(place) | fixed_here.strides.of(place));
      auto is_new = [&](const std::unordered_set<std::string>& numbers, const std::unordered_set<std::string>& fixed) {
        return !numbers.contains(place) && !known.values.contains(place) && !fixed.contains(place);
      };
      const bool is_new_float = is_float && is_new(known.floats, fixed_here.floats);
      const bool is_new_int = is_int && is_new(known.ints, fixed_here.ints);
      is_specialised = is_specialised || is_new_float || is_new_int || dims != 0 || strides != 0;
      changed.sources.sizes.add(place, dims);
      changed.sources.strides.add(place, strides);
      for (int dim = 0; dim < 64 && strides >> dim != 0; ++dim)
        if ((strides >> dim & 1) != 0)
          tell_change(changed.texts, stride_text(place, dim), std::to_string(miss.fact->tensor->stride(dim)),
                      std::to_string(stride_of(miss.saw, dim)));
      for (int dim = 0; dim < 64 && dims >> dim != 0; ++dim)
        if ((dims >> dim & 1) != 0)
          tell_change(changed.texts, size_text(place, dim), std::to_string(miss.fact->tensor->size(dim)),
                      std::to_string(size_of(miss.saw, dim)));
      if (is_new_float || is_new_int)
        tell_change(changed.texts, place, number_text(miss.fact->object.get()), number_text(miss.saw));
      if (is_new_float) changed.sources.floats.insert(place);
      if (is_new_int) changed.sources.ints.insert(std::move(place));
    }
    if (is_specialised) changed.specialised.push_back(entry);
  }
  return changed;
}

size_t CodeCache::count(int32_t offset, PyObject* cache_key) const {
  const Entries* entries = at(offset);
  size_t n = 0;
  if (!entries) return n;
  for (auto& entry : *entries) n += entry->cache_key.get() == cache_key;
  return n;
}

size_t CodeCache::count_for(int32_t offset, PyObject* cache_key, const GuardInput& input) const {
  const Entries* entries = at(offset);
  size_t n = 0;
  if (!entries) return n;
  for (auto& entry : *entries) n += entry->cache_key.get() == cache_key && entry->guards->is_about_same(input);
  return n;
}

void CodeCache::detach() {
  std::unordered_map<int32_t, Entries> dropped;
  dropped.swap(entries_);
  at_start_ = nullptr;
  refusals_.clear();
  deaths_.clear();
  resting_ = 0;
  next_compile_id = 0;
  warned = skipped = false;
  detached_ = true;
}

static std::shared_ptr<CodeCache> registered_cache(PyCodeObject* code) {
  auto [found, fresh] = registry().caches.try_emplace(code, nullptr);
  if (fresh) {
    found->second = std::make_shared<CodeCache>(code);
    found->second->frame_id = registry().next_frame_id++;
    Ref capsule = Ref::steal(PyCapsule_New(code, nullptr, nullptr));
    Ref callback = Ref::steal(PyCFunction_New(&on_code_death_def, capsule.get()));
    registry().watches[code] = Ref::steal(PyWeakref_NewRef(reinterpret_cast<PyObject*>(code), callback.get()));
    return registry().caches[code];
  }
  return found->second;
}

std::shared_ptr<CodeCache> code_cache(PyCodeObject* code) {
  auto& recent = registry().recent_for(code);
  if (recent && recent->code() == code) return recent;
  return recent = registered_cache(code);
}

std::shared_ptr<CodeCache> find_code_cache(PyCodeObject* code) {
  auto found = registry().caches.find(code);
  return found == registry().caches.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<CodeCache>> code_caches() {
  std::vector<std::shared_ptr<CodeCache>> all;
  for (auto& [code, cache] : registry().caches) all.push_back(cache);
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a->frame_id < b->frame_id; });
  return all;
}

bool forget_cache(PyCodeObject* code) {
  std::shared_ptr<CodeCache> cache = find_code_cache(code);
  if (!cache) return false;
  Ref watch = std::move(registry().watches[code]);
  registry().watches.erase(code);
  registry().caches.erase(code);
  if (registry().recent_for(code) == cache) registry().recent_for(code).reset();
  cache->detach();
  return true;
}

void drop_marked(const std::unordered_set<const void*>& callables) {
  // Destroying entries may run code of the program, which may use the registry: do it at the end.
  std::list<std::shared_ptr<Entry>> dropped;
  for (auto& [code, cache] : registry().caches) cache->take_marked(callables, dropped);
}

void reset_caches() {
  // Destroying entries may run code of the program, which may use the registry: empty the registry first.
  const std::vector<std::shared_ptr<CodeCache>> all = code_caches();
  registry().next_frame_id = 0;
  registry().recent.fill(nullptr);
  auto caches = std::move(registry().caches);
  auto watches = std::move(registry().watches);
  registry().caches.clear();
  registry().watches.clear();
  for (auto& cache : all) cache->detach();
}

}  // namespace stator::capture
