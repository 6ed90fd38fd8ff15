#pragma once

/// Whether the store of observations exists. It always does, but for one library: the benchmark `observe` compares
/// captures with those that use a libstator_core whose `core/observe` is compiled with STATOR_NO_RECORDING.
namespace stator::observe {

#ifdef STATOR_NO_RECORDING
inline constexpr bool kIsRecording = false;
#else
inline constexpr bool kIsRecording = true;
#endif

}  // namespace stator::observe
