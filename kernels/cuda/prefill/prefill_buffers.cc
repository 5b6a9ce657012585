#include "kernels/cuda/prefill/prefill_buffers.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"
#include "kernels/cuda/prefill/tile_gemm.h"

namespace baton::prefill {
namespace {

struct Sizes {
  int64_t tokens = 0;
  int64_t slots = 0;
  int64_t segments = 0;
  int64_t query_width = 0;
  int64_t qkv_width = 0;  // The widest layer's.
  int64_t width = 0;      // The widest dense or shared network.
};

Sizes SizesOf(const ModelConfig& config, const PrefillWeights& weights,
              const BufferLimits& limits) {
  Sizes sizes;
  sizes.tokens = limits.max_tokens;
  sizes.slots = sizes.tokens * config.experts_per_token;
  sizes.segments = limits.max_segments;
  sizes.query_width = int64_t{config.query_heads} * config.head_dim;
  for (const PrefillLayerWeights& layer : weights.layers()) {
    sizes.qkv_width = std::max<int64_t>(sizes.qkv_width, layer.qkv_router_rows);
    sizes.width = std::max<int64_t>(sizes.width, layer.width);
  }
  return sizes;
}

// Runs twice: with `memory` null it sizes the plan, then it sets the pointers.
class Placer {
 public:
  explicit Placer(const DeviceMemory* memory) : memory_(memory) {}
  template <typename T>
  void operator()(T*& pointer, int64_t count) {
    const uint64_t offset = plan_.Add(count * sizeof(T));
    if (memory_ != nullptr) pointer = memory_->As<T>(offset);
  }
  uint64_t size_bytes() const { return plan_.size_bytes(); }

 private:
  const DeviceMemory* memory_;
  BufferPlan plan_;
};

void Place(PrefillBuffers& b, const ModelConfig& config, const Sizes& s, Placer& place) {
  place(b.x, s.tokens * config.hidden);
  place(b.normed, s.tokens * config.hidden);
  place(b.qkv, s.tokens * s.qkv_width);
  place(b.attention, s.tokens * s.query_width);
  place(b.projected, s.tokens * config.hidden);
  place(b.expert_rows, s.slots * config.hidden);
  place(b.expert_hidden, s.slots * config.expert_width);
  place(b.dense_hidden, s.tokens * s.width);
  place(b.dense_out, s.tokens * config.hidden);
  place(b.rotary, s.tokens * (config.head_dim / 2));
  place(b.inverse_frequencies, config.head_dim / 2);
  place(b.slot_experts, s.slots);
  place(b.slot_weights, s.slots);
  place(b.slot_rows, s.slots);
  place(b.permuted_slots, s.slots);
  b.expert_counts_bytes = uint64_t(config.layer_count) * config.expert_count * sizeof(int32_t);
  place(b.expert_counts, int64_t{config.layer_count} * config.expert_count);
  place(b.row_tiles, MaxRowTiles(s.slots, config.expert_count));
  place(b.row_tile_count, 1);
  place(b.head_rows, s.segments * config.hidden);
  place(b.logits, s.segments * config.vocab);
  place(b.partials, s.segments * kSamplePartials);
  place(b.sampled, s.segments);
}

absl::Status MakeLayerMaps(const ModelConfig& config, const PrefillLayerWeights& weights,
                           const PrefillBuffers& buffers, int64_t tokens, LayerMaps& maps) {
  const int hidden = config.hidden;
  const int query_width = config.query_heads * config.head_dim;
  BATON_ASSIGN_OR_RETURN(maps.qkv_router,
                         MakeGemmWeightMap(weights.qkv_router, weights.qkv_router_rows, hidden));
  BATON_ASSIGN_OR_RETURN(maps.o, MakeGemmWeightMap(weights.o, hidden, query_width));
  if (weights.gate_up != nullptr) {
    const int width = weights.width;
    BATON_ASSIGN_OR_RETURN(maps.gate_up, MakeGemmWeightMap(weights.gate_up, 2 * width, hidden));
    BATON_ASSIGN_OR_RETURN(maps.down, MakeGemmWeightMap(weights.down, hidden, width));
    BATON_ASSIGN_OR_RETURN(maps.hidden,
                           MakeGemmInputMap(buffers.dense_hidden, tokens, width, width));
  }
  if (weights.experts_gate_up != nullptr) {
    const int64_t experts = config.expert_count;
    BATON_ASSIGN_OR_RETURN(
        maps.experts_gate_up,
        MakeGemmWeightMap(weights.experts_gate_up, experts * 2 * config.expert_width, hidden));
    BATON_ASSIGN_OR_RETURN(
        maps.experts_down,
        MakeGemmWeightMap(weights.experts_down, experts * hidden, config.expert_width));
  }
  return absl::OkStatus();
}

absl::Status MakeMaps(const ModelConfig& config, const PrefillWeights& weights, const Sizes& s,
                      PrefillBuffers& b) {
  const int query_width = static_cast<int>(s.query_width);
  BATON_ASSIGN_OR_RETURN(b.normed_map,
                         MakeGemmInputMap(b.normed, s.tokens, config.hidden, config.hidden));
  BATON_ASSIGN_OR_RETURN(b.attention_map,
                         MakeGemmInputMap(b.attention, s.tokens, query_width, query_width));
  BATON_ASSIGN_OR_RETURN(b.head_rows_map,
                         MakeGemmInputMap(b.head_rows, s.segments, config.hidden, config.hidden));
  BATON_ASSIGN_OR_RETURN(b.head_map,
                         MakeGemmWeightMap(weights.head(), config.vocab, config.hidden));
  if (s.slots > 0) {
    BATON_ASSIGN_OR_RETURN(b.expert_rows_map,
                           MakeGemmInputMap(b.expert_rows, s.slots, config.hidden, config.hidden));
    BATON_ASSIGN_OR_RETURN(
        b.expert_hidden_map,
        MakeGemmInputMap(b.expert_hidden, s.slots, config.expert_width, config.expert_width));
  }
  b.layers.resize(config.layer_count);
  for (int l = 0; l < config.layer_count; ++l) {
    BATON_RETURN_IF_ERROR(MakeLayerMaps(config, weights.layers()[l], b, s.tokens, b.layers[l]));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PrefillBuffers> MakePrefillBuffers(const ModelConfig& config,
                                                  const PrefillWeights& weights,
                                                  const BufferLimits& limits) {
  const Sizes sizes = SizesOf(config, weights, limits);
  PrefillBuffers buffers;
  Placer sizer(nullptr);
  Place(buffers, config, sizes, sizer);
  BATON_ASSIGN_OR_RETURN(buffers.memory, DeviceMemory::Allocate(sizer.size_bytes()));
  Placer placer(&buffers.memory);
  Place(buffers, config, sizes, placer);
  BATON_RETURN_IF_ERROR(MakeMaps(config, weights, sizes, buffers));

  // 1 / theta^(2i / head_dim).
  std::vector<float> frequencies(config.head_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] =
        1.0f / static_cast<float>(std::pow(config.rope_theta, 2.0 * i / config.head_dim));
  }
  BATON_PREFILL_CUDA(cudaMemcpy(buffers.inverse_frequencies, frequencies.data(),
                                frequencies.size() * sizeof(float), cudaMemcpyHostToDevice));
  return buffers;
}

}  // namespace baton::prefill
