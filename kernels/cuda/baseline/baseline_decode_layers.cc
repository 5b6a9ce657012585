// The part of BaselineDecode that enqueues a step, in order of execution.
#include <algorithm>

#include "common/check.h"
#include "kernels/cuda/baseline/baseline_decode.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/prefill/cuda_status.h"

namespace baton::cuda {

prefill::NormCall BaselineDecode::NormOf(const __nv_bfloat16* weight) const {
  return {
      .weight = weight, .rms = config_.norm == NormKind::kRmsNorm, .epsilon = config_.norm_epsilon};
}

// Row-major out = in weights^T is column-major out^T = weights in^T.
absl::Status BaselineDecode::Multiply(const Product& product) {
  const float one = 1.0f, zero = 0.0f;
  BATON_PREFILL_CUBLAS(library_.gemm_ex(cublas_, CUBLAS_OP_T, CUBLAS_OP_N, product.n, rows(),
                                        product.k, &one, product.weights, CUDA_R_16BF, product.k,
                                        product.in, CUDA_R_16BF, product.k, &zero, product.out,
                                        product.float_out ? CUDA_R_32F : CUDA_R_16BF, product.n,
                                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  return absl::OkStatus();
}

absl::Status BaselineDecode::EnqueueStep() {
  BATON_RETURN_IF_ERROR(prefill::LaunchRotary({.positions = at_.positions,
                                               .inverse_frequencies = at_.inverse_frequencies,
                                               .rotary = at_.rotary,
                                               .rows = rows(),
                                               .head_dim = config_.head_dim},
                                              stream_));
  BATON_RETURN_IF_ERROR(prefill::LaunchEmbed({.token_ids = at_.token_ids,
                                              .embedding = weights_.embedding(),
                                              .x = at_.x,
                                              .normed = at_.normed,
                                              .rows = rows(),
                                              .hidden = config_.hidden,
                                              .norm = NormOf(weights_.layers()[0].norm)},
                                             stream_));
  for (int l = 0; l < config_.layer_count; ++l) {
    BATON_RETURN_IF_ERROR(EnqueueAttention(l));
    BATON_RETURN_IF_ERROR(EnqueueFeedForward(l));
    if (!config_.layers[l].dense) BATON_RETURN_IF_ERROR(EnqueueExperts(l));
    BATON_RETURN_IF_ERROR(EnqueueCombine(l));
  }
  return EnqueueHead();
}

absl::Status BaselineDecode::EnqueueAttention(int layer) {
  const prefill::PrefillLayerWeights& weights = weights_.layers()[layer];
  const int q_width = config_.query_heads * config_.head_dim;
  BATON_RETURN_IF_ERROR(Multiply({.in = at_.normed,
                                  .weights = weights.qkv_router,
                                  .out = at_.qkv,
                                  .n = weights.qkv_router_rows,
                                  .k = config_.hidden}));
  const bool window = batch_.layout.layer_group[layer] == kWindowGroup;
  const KvGroupLayout& group = batch_.layout.groups[window ? kWindowGroup : kFullGroup];
  char* base = static_cast<char*>(batch_.kv_base) + group.offset_bytes +
               batch_.layout.layer_in_group[layer] * batch_.layout.layer_bytes();
  BATON_RETURN_IF_ERROR(LaunchRotateAppend({.qkv = at_.qkv,
                                            .pitch = weights.qkv_router_rows,
                                            .rows = rows(),
                                            .query_heads = config_.query_heads,
                                            .kv_heads = config_.kv_heads,
                                            .rope = config_.layers[layer].rope,
                                            .rotary = at_.rotary,
                                            .positions = at_.positions,
                                            .base = base,
                                            .page_bytes = group.page_bytes,
                                            .pages = window ? at_.window_pages : at_.full_pages,
                                            .page_stride = window ? window_stride_ : full_stride_,
                                            .ring = window ? at_.window_ring : nullptr},
                                           stream_));
  const int g = config_.layers[layer].sliding ? kWindowGroup : kFullGroup;
  BATON_RETURN_IF_ERROR(
      LaunchSplitAttention({.queries = at_.qkv,
                            .query_pitch = weights.qkv_router_rows,
                            .rows = rows(),
                            .query_heads = config_.query_heads,
                            .kv_heads = config_.kv_heads,
                            .window_keys = config_.layers[layer].sliding ? config_.window_keys : 0,
                            .positions = at_.positions,
                            .base = base,
                            .page_bytes = group.page_bytes,
                            .pages = window ? at_.window_pages : at_.full_pages,
                            .page_stride = window ? window_stride_ : full_stride_,
                            .ring = window ? at_.window_ring : nullptr,
                            .pages_per_split = pages_per_split_[g],
                            .max_splits = max_splits_[g],
                            .partial_o = at_.partial_o,
                            .partial_ml = at_.partial_ml,
                            .out = at_.attention},
                           stream_));
  return Multiply({.in = at_.attention,
                   .weights = weights.o,
                   .out = at_.projected,
                   .n = config_.hidden,
                   .k = q_width});
}

// The dense network or the shared expert.
absl::Status BaselineDecode::EnqueueFeedForward(int layer) {
  const prefill::PrefillLayerWeights& weights = weights_.layers()[layer];
  if (weights.gate_up == nullptr) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(Multiply({.in = at_.normed,
                                  .weights = weights.gate_up,
                                  .out = at_.gate_up,
                                  .n = 2 * weights.width,
                                  .k = config_.hidden}));
  BATON_RETURN_IF_ERROR(LaunchGate(
      {.in = at_.gate_up, .out = at_.hidden, .rows = rows(), .width = weights.width}, stream_));
  return Multiply({.in = at_.hidden,
                   .weights = weights.down,
                   .out = at_.dense_out,
                   .n = config_.hidden,
                   .k = weights.width});
}

absl::Status BaselineDecode::EnqueueExperts(int layer) {
  const prefill::PrefillLayerWeights& weights = weights_.layers()[layer];
  BATON_RETURN_IF_ERROR(LaunchChooseExperts({.logits = at_.qkv + qkv_width(),
                                             .pitch = weights.qkv_router_rows,
                                             .rows = rows(),
                                             .expert_count = config_.expert_count,
                                             .experts_per_token = config_.experts_per_token,
                                             .softmax = config_.router == RouterKind::kSoftmax,
                                             .norm_topk = config_.norm_topk,
                                             .forced_experts = batch_.forced_experts,
                                             .layer = layer,
                                             .step = at_.step,
                                             .lists = at_.lists},
                                            stream_));
  ExpertProductCall call{
      .in = at_.normed,
      .weights = weights.experts_gate_up,
      .out = at_.expert_hidden,
      .in_width = config_.hidden,
      .out_width = config_.expert_width,
      .experts_per_token = config_.experts_per_token,
      .most_active = std::min(config_.expert_count, rows() * config_.experts_per_token),
      .lists = at_.lists};
  BATON_RETURN_IF_ERROR(LaunchExpertGateUp(call, stream_));
  call.in = at_.expert_hidden;
  call.weights = weights.experts_down;
  call.out = at_.expert_out;
  call.in_width = config_.expert_width;
  call.out_width = config_.hidden;
  return LaunchExpertDown(call, stream_);
}

absl::Status BaselineDecode::EnqueueCombine(int layer) {
  const prefill::PrefillLayerWeights& weights = weights_.layers()[layer];
  const bool last = layer + 1 == config_.layer_count;
  prefill::CombineCall call;
  call.x = at_.x;
  call.normed = at_.normed;
  call.attention = at_.projected;
  if (config_.layers[layer].dense) {
    call.dense = at_.dense_out;
  } else {
    call.expert_rows = at_.expert_out;
    call.slot_rows = at_.slot_rows;
    call.slot_weights = at_.lists.slot_weights;
    call.slots = config_.experts_per_token;
    call.shared = weights.gate_up != nullptr ? at_.dense_out : nullptr;
    call.shared_scale = config_.shared == SharedExperts::kAverage ? 0.5f : 1.0f;
  }
  call.rows = rows();
  call.hidden = config_.hidden;
  call.norm = NormOf(last ? weights_.final_norm() : weights_.layers()[layer + 1].norm);
  return prefill::LaunchCombine(call, stream_);
}

absl::Status BaselineDecode::EnqueueHead() {
  BATON_RETURN_IF_ERROR(Multiply({.in = at_.normed,
                                  .weights = weights_.head(),
                                  .out = at_.logits,
                                  .n = config_.vocab,
                                  .k = config_.hidden,
                                  .float_out = true}));
  BATON_RETURN_IF_ERROR(prefill::LaunchSample({.logits = at_.logits,
                                               .rows = rows(),
                                               .vocab = config_.vocab,
                                               .logit_scale = config_.logit_scale,
                                               .row_params = at_.sample_rows,
                                               .partials = at_.partials,
                                               .sampled = at_.sampled},
                                              stream_));
  return LaunchAdvance({.rows = rows(),
                        .sampled = at_.sampled,
                        .token_ids = at_.token_ids,
                        .positions = at_.positions,
                        .sample_rows = at_.sample_rows,
                        .step = at_.step,
                        .history = at_.history,
                        .max_steps = static_cast<uint32_t>(batch_.max_steps)},
                       stream_);
}

}  // namespace baton::cuda
