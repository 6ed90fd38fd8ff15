#include "core/backend/reference/checkpoint.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/backend/host.h"
#include "core/backend/reference/random_states.h"
#include "core/backend/reference/saved_metadata.h"
#include "core/base/fork_safe.h"

namespace stator::backend {
namespace {

using Tensors = std::vector<at::Tensor>;
using Kind = CheckpointError::Kind;

CheckpointHost host;
std::atomic<int64_t> next_reading = -1;

/// Protects the tables of all frames. Tensors and groups are neither copied nor released while it is held: that may
/// need the GIL.
auto& tables = *new ForkSafeMutex;

[[noreturn]] void fail_assertion() {
  throw CheckpointError(Kind::Inconsistent,
                        "Something went unexpectedly wrong in activation checkpoint. Please report this bug by filing "
                        "an issue to PyTorch.");
}

/// RAII: hooks of what autograd saves on this thread.
class HookScope {
 public:
  explicit HookScope(std::shared_ptr<SavedTensorHooks> hooks) { host.push(std::move(hooks)); }
  ~HookScope() { host.pop(); }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
};

/// What a part is recomputed for: a group of backward passes or, outside of a group, one backward pass.
struct Pass {
  std::shared_ptr<void> group;
  int64_t task;

  static Pass current() {
    if (auto group = host.current_group()) return {std::move(group), 0};
    const int task = torch::autograd::get_current_graph_task_id();
    if (task >= 0) return {nullptr, task};
    // The program reads a saved tensor outside of a backward pass: the recomputation is for this one tensor.
    return {nullptr, next_reading--};
  }
  bool is_reading() const { return task < 0; }
  bool operator<(const Pass& other) const {
    return std::pair(group.get(), task) < std::pair(other.group.get(), other.task);
  }
};

/// What autograd stores in place of a tensor. For each pass that recomputed it: the tensor, until autograd takes it.
struct Holder {
  std::map<Pass, std::optional<at::Tensor>> recomputed;
};

/// One run of a part that may be computed again; the hooks of that run. Owned by what autograd saved of it.
class Frame final : public SavedTensorHooks, public std::enable_shared_from_this<Frame> {
 public:
  Frame(std::shared_ptr<const Executable> part, const Tensors& arguments, Tensors operands,
        const CheckpointOptions& options)
      : part_(std::move(part)), operands_(std::move(operands)), options_(options) {
    if (options.preserve_rng_state) random_.emplace(arguments);
    for (const at::Tensor& argument : arguments) arguments_.emplace_back(argument, /*is_output=*/false);
  }

  std::shared_ptr<void> pack(const at::Tensor& tensor) override {
    auto holder = std::make_shared<Holder>();
    std::optional<SavedMetadata> metadata;
    if (options_.checks_metadata) metadata.emplace(tensor);
    std::lock_guard lock(tables);
    saved_.push_back({holder, std::move(metadata)});
    return holder;
  }

  at::Tensor unpack(const std::shared_ptr<void>& stored) override {
    auto& holder = *static_cast<Holder*>(stored.get());
    const Pass pass = Pass::current();
    if (!is_recomputed(pass)) recompute(pass);
    at::Tensor tensor = take(holder, pass);
    if (pass.is_reading()) forget(pass);
    return tensor;
  }

  /// A recomputation saves its next tensor. Returns whether it was the last one that is needed.
  bool receive(const Pass& pass, at::Tensor tensor);

  void complete() {
    std::lock_guard lock(tables);
    is_complete_ = true;
  }

 private:
  struct Saved {
    std::weak_ptr<Holder> holder;  // dies with what autograd saved
    std::optional<SavedMetadata> metadata;
  };
  struct Progress {
    size_t received = 0;
    bool is_over = false;
  };

  bool is_recomputed(const Pass& pass) {
    std::lock_guard lock(tables);
    return progress_[pass].is_over;
  }
  void recompute(const Pass& pass);
  void check(const Pass& pass);
  at::Tensor take(Holder& holder, const Pass& pass);
  void forget(const Pass& pass);

  const std::shared_ptr<const Executable> part_;
  std::vector<torch::autograd::SavedVariable> arguments_;
  const Tensors operands_;
  const CheckpointOptions options_;
  std::optional<RandomStates> random_;
  // Under `tables`:
  std::vector<Saved> saved_;
  std::map<Pass, Progress> progress_;
  bool is_complete_ = false;        // the first run is over
  bool saved_more_inside_ = false;  // a backward pass inside of the first run saved more than that run had so far
};

/// The hooks of a recomputation. They store the tensors themselves, in case of a backward pass over the recomputation.
class Recomputation final : public SavedTensorHooks {
 public:
  Recomputation(std::weak_ptr<Frame> frame, Pass pass) : frame_(std::move(frame)), pass_(std::move(pass)) {}

  std::shared_ptr<void> pack(const at::Tensor& given) override {
    auto tensor = std::make_shared<at::Tensor>(given.requires_grad() ? given.detach() : given);
    auto frame = frame_.lock();
    if (!frame) throw CheckpointError(Kind::Inconsistent, "Internal error: target_frame reference is None");
    if (frame->receive(pass_, *tensor)) {
      is_stopped_ = true;
      throw StopRecomputation();
    }
    return tensor;
  }
  at::Tensor unpack(const std::shared_ptr<void>& stored) override { return *static_cast<at::Tensor*>(stored.get()); }

  bool is_stopped() const { return is_stopped_; }

 private:
  std::weak_ptr<Frame> frame_;
  Pass pass_;
  bool is_stopped_ = false;
};

bool Frame::receive(const Pass& pass, at::Tensor tensor) {
  std::shared_ptr<Holder> holder;  // released after the lock
  std::lock_guard lock(tables);
  const size_t index = progress_[pass].received++;
  if (index >= saved_.size()) {
    if (options_.early_stop)
      throw CheckpointError(Kind::Inconsistent, "Unexpected state: target_frame.early_stop is set");
    if (is_complete_)
      throw CheckpointError(Kind::Differs,
                            "torch.utils.checkpoint: trying to save more tensors during recomputation than during the "
                            "original forward pass.\n");
    saved_more_inside_ = true;
    return false;
  }
  // A backward pass inside of the first run may have released what it saved.
  holder = saved_[index].holder.lock();
  if (holder && !holder->recomputed.try_emplace(pass, std::move(tensor)).second) fail_assertion();
  return options_.early_stop && index + 1 == saved_.size();
}

void Frame::recompute(const Pass& pass) {
  Tensors inputs;
  for (const auto& argument : arguments_) inputs.push_back(argument.unpack());
  inputs.insert(inputs.end(), operands_.begin(), operands_.end());
  auto hooks = std::make_shared<Recomputation>(weak_from_this(), pass);
  try {
    // Each node runs under the autocast state that it was recorded with.
    HookScope hooked(hooks);
    c10::AutoGradMode with_gradients(true);
    RandomStates::Scope same_numbers(random_ ? &*random_ : nullptr);
    part_->run(std::move(inputs));
  } catch (...) {
    if (!hooks->is_stopped()) throw;
    host.forget_error();
  }
  check(pass);
}

void Frame::check(const Pass& pass) {
  std::string differences;
  std::vector<std::shared_ptr<Holder>> holders;  // released after the lock
  std::lock_guard lock(tables);
  Progress& progress = progress_[pass];
  progress.is_over = true;
  if (saved_more_inside_) return;
  if (progress.received != saved_.size())
    throw CheckpointError(
        Kind::Differs,
        "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
        "recomputation.\nNumber of tensors saved during forward: " +
            std::to_string(saved_.size()) +
            "\nNumber of tensors saved during recomputation: " + std::to_string(progress.received) + ".\n");
  for (size_t i = 0; i < saved_.size(); ++i) {
    const auto& holder = holders.emplace_back(saved_[i].holder.lock());
    if (!holder) continue;
    auto found = holder->recomputed.find(pass);
    if (found == holder->recomputed.end() || !found->second) fail_assertion();
    if (!saved_[i].metadata) continue;
    const SavedMetadata recomputed(*found->second);
    if (recomputed != *saved_[i].metadata)
      differences += "tensor at position " + std::to_string(i) + ":\nsaved metadata: " + saved_[i].metadata->text() +
                     "\nrecomputed metadata: " + recomputed.text() + "\n";
  }
  if (!differences.empty())
    throw CheckpointError(Kind::Differs,
                          "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata "
                          "than during the forward pass.\n" +
                              differences + ".\n");
}

at::Tensor Frame::take(Holder& holder, const Pass& pass) {
  std::lock_guard lock(tables);
  auto found = holder.recomputed.find(pass);
  if (found == holder.recomputed.end()) fail_assertion();
  if (!found->second)
    throw CheckpointError(
        Kind::UnpackedTwice,
        std::string("torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. ") +
            (pass.group ? "Performing two backward calls that overlap (i.e. require the same saved activation in order "
                          "to compute gradients) is not allowed while under the torch.utils.checkpoint.GraphExecGroup "
                          "context. "
                        : "") +
            "If you are calling ctx.saved_tensors in backward, make sure to do so only once. Otherwise please open an "
            "issue with details on your use case.");
  at::Tensor tensor = *std::move(found->second);
  found->second.reset();
  return tensor;
}

void Frame::forget(const Pass& pass) {
  std::vector<std::shared_ptr<Holder>> holders;  // with the tensors, released after the lock
  Tensors tensors;
  std::lock_guard lock(tables);
  for (const Saved& saved : saved_) {
    const auto& holder = holders.emplace_back(saved.holder.lock());
    if (!holder) continue;
    auto found = holder->recomputed.find(pass);
    if (found == holder->recomputed.end()) continue;
    if (found->second) tensors.push_back(*std::move(found->second));
    holder->recomputed.erase(found);
  }
  progress_.erase(pass);
}

}  // namespace

void set_checkpoint_host(const CheckpointHost& given) { host = given; }

Tensors run_checkpoint(const std::shared_ptr<const Executable>& part, Tensors arguments, Tensors operands,
                       const CheckpointOptions& options) {
  std::shared_ptr<Frame> frame;
  std::optional<HookScope> hooked;
  Tensors inputs = arguments;
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  if (host.push && c10::GradMode::is_enabled()) {
    frame = std::make_shared<Frame>(part, arguments, std::move(operands), options);
    hooked.emplace(frame);
  }
  arguments.clear();
  operands.clear();
  Tensors made = part->run(std::move(inputs));
  if (frame) frame->complete();
  return made;
}

}  // namespace stator::backend
