// The rows of an operating point: their contexts, pages and first tokens. Pure; the megakernel and
// its baseline are measured on the same.
#pragma once

#include <vector>

#include "kernels/backend.h"
#include "kernels/decode_benchmark.h"
#include "kernels/kv/kv_layout.h"
#include "kernels/models/model_config.h"

namespace baton::cuda {

// Tokens in each row's cache at the first step.
std::vector<int> ContextsOf(const DecodePoint& point);

// Room for the warm-up, the measured steps, the one in flight and the one after the idle second.
int TotalSteps(const DecodePoint& point);

// Of an arena with the pages that the point's rows need.
KvLayout BenchLayout(const ModelConfig& config, const DecodePoint& point);

// Row i in slot i with pages of its own, greedy, for TotalSteps tokens.
std::vector<RowJoin> BenchRows(const ModelConfig& config, const DecodePoint& point);

// Bytes of keys and values that a step of rows of these contexts reads.
double KvBytesRead(const ModelConfig& config, const std::vector<int>& contexts);

// Bytes of weights that a step reads when a layer's rows choose so many distinct experts.
double WeightBytesRead(const ModelConfig& config, double distinct_experts);

}  // namespace baton::cuda
