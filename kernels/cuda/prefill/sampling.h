// Sampling on the device: greedy or Gumbel-max with the counter-based noise of common/philox.h, and
// the natural-log probability of the chosen token under softmax(logits).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "absl/status/status.h"
#include "common/generation.h"

namespace baton::prefill {

// How one row of logits is sampled. The token will stand at `position` of its sequence.
struct SampleRow {
  float temperature = 0.0f;  // 0 = greedy.
  int position = 0;
  uint64_t seed = 0;
};

// What one block found in its part of the vocabulary.
struct SamplePartial {
  float best = 0;  // Logit, or logit / temperature + noise.
  int token = 0;
  float logit = 0;  // Of `token`, scaled.
  float max = 0;
  float sum = 0;  // Of exp(logit - max).
};

inline constexpr int kSamplePartials = 64;  // Per row.

struct SampleCall {
  float* logits = nullptr;  // [rows, vocab]; multiplied by logit_scale in place.
  int rows = 0;
  int vocab = 0;
  float logit_scale = 1.0f;
  const SampleRow* row_params = nullptr;  // [rows], device
  SamplePartial* partials = nullptr;      // [rows, kSamplePartials]
  SampledToken* sampled = nullptr;        // [rows], device
};
absl::Status LaunchSample(const SampleCall& call, cudaStream_t stream);

}  // namespace baton::prefill
