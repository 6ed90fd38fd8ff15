#pragma once

#include <c10/core/AutogradState.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "capture/interpreter/state/tracer.h"
#include "core/tracer/recorder.h"
#include "core/tracer/tracer.h"

namespace stator::capture {

struct TorchTracer::Impl {
  tracer::Tracer tracer;
  struct ThreadState {
    c10::AutogradState autograd;
    c10::impl::LocalDispatchKeySet keys;
  };
  std::vector<ThreadState> before_inference;  // of the open blocks, outermost first
  std::vector<Question> questions;            // that guards on sizes answer
  explicit Impl(const std::string& name) : tracer(name) {}
};

}  // namespace stator::capture
