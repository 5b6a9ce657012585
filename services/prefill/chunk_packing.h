// Which waiting prompts join the last chunk of the one that is being computed. Pure.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "kernels/models/chunk_cost.h"

namespace baton {

// One that waits, in order of arrival.
struct PackCandidate {
  PromptStretch stretch;  // What is left of it.
  bool may_ride = true;   // Of the same arena, and its lease allows one chunk.
};

struct PackLimits {
  int64_t tokens = 0;  // Of the whole chunk.
  int prompts = 1;     // Likewise.
};

// Seconds that a chunk of these stretches takes; 0: not known.
using ChunkSeconds = std::function<double(absl::Span<const PromptStretch>)>;

// Indexes of `waiting`, in order, that join the chunk of `head`. Asked shortest first, what fits
// joins if that makes the sum of all prompts' waiting times smaller: those of the chunk, and those
// that wait before it, wait longer, and the joining one and all behind it wait less. Where seconds
// are not known, what fits joins in order of arrival.
std::vector<size_t> ChooseRiders(const PromptStretch& head, absl::Span<const PackCandidate> waiting,
                                 const PackLimits& limits, const ChunkSeconds& seconds);

}  // namespace baton
