// The layers of a chunk, in order of execution.
#include "common/check.h"
#include "kernels/cuda/prefill/cuda_status.h"
#include "kernels/cuda/prefill/moe_kernels.h"
#include "kernels/cuda/prefill/prefill_chunk_run.h"
#include "kernels/cuda/prefill/row_kernels.h"
#include "kernels/cuda/prefill/sampling.h"
#include "kernels/cuda/prefill/tensor_map.h"
#include "kernels/cuda/prefill/tile_gemm.h"

namespace baton::prefill {

NormCall PrefillEngine::NormOf(const __nv_bfloat16* weight) const {
  NormCall norm;
  norm.weight = weight;
  norm.rms = config_.norm == NormKind::kRmsNorm;
  norm.epsilon = config_.norm_epsilon;
  return norm;
}

absl::Status PrefillEngine::RunLayers(const Chunk& chunk) {
  BATON_RETURN_IF_ERROR(timer_.Begin(stream_));
  BATON_PREFILL_CUDA(
      cudaMemsetAsync(buffers_.expert_counts, 0, buffers_.expert_counts_bytes, stream_));
  BATON_RETURN_IF_ERROR(RunEmbed(chunk));
  for (int l = 0; l < config_.layer_count; ++l) {
    BATON_RETURN_IF_ERROR(RunAttention(chunk, l));
    BATON_RETURN_IF_ERROR(RunFeedForward(chunk, l));
    BATON_RETURN_IF_ERROR(RunCombine(chunk, l));
  }
  return RunHead(chunk);
}

absl::Status PrefillEngine::Multiply(const Product& product) {
  if (options_.pinned) {
    TileGemmCall call;
    call.a_map = product.a_map;
    call.b_map = product.b_map;
    call.n = product.n;
    call.k = product.k;
    call.out = product.out;
    call.out_pitch = product.n;
    call.output = product.float_out ? GemmOutput::kFloat : GemmOutput::kBf16;
    call.rows = product.rows;
    return LaunchTileGemm(call, multiprocessors_, stream_);
  }
  const float one = 1.0f;
  const float zero = 0.0f;
  // Row-major out = a b^T is column-major out^T = b a^T.
  BATON_PREFILL_CUBLAS(cublas_library_.gemm_ex(
      cublas_, CUBLAS_OP_T, CUBLAS_OP_N, product.n, product.rows, product.k, &one, product.b,
      CUDA_R_16BF, product.k, product.a, CUDA_R_16BF, product.k, &zero, product.out,
      product.float_out ? CUDA_R_32F : CUDA_R_16BF, product.n, CUBLAS_COMPUTE_32F,
      CUBLAS_GEMM_DEFAULT));
  return absl::OkStatus();
}

absl::Status PrefillEngine::RunEmbed(const Chunk& chunk) {
  RotaryCall rotary;
  rotary.positions = chunk.device.positions;
  rotary.inverse_frequencies = buffers_.inverse_frequencies;
  rotary.rotary = buffers_.rotary;
  rotary.rows = chunk.plan.tokens;
  rotary.head_dim = config_.head_dim;
  BATON_RETURN_IF_ERROR(LaunchRotary(rotary, stream_));
  EmbedCall embed;
  embed.token_ids = chunk.device.token_ids;
  embed.embedding = weights_->embedding();
  embed.x = buffers_.x;
  embed.normed = buffers_.normed;
  embed.rows = chunk.plan.tokens;
  embed.hidden = config_.hidden;
  embed.norm = NormOf(weights_->layers()[0].norm);
  BATON_RETURN_IF_ERROR(LaunchEmbed(embed, stream_));
  return timer_.Mark(Stage::kEmbed);
}

absl::Status PrefillEngine::RunAttention(const Chunk& chunk, int layer) {
  const PrefillLayerWeights& weights = weights_->layers()[layer];
  const LayerMaps& maps = buffers_.layers[layer];
  const int tokens = chunk.plan.tokens;
  const int query_width = config_.query_heads * config_.head_dim;
  BATON_RETURN_IF_ERROR(
      Multiply({buffers_.normed, &buffers_.normed_map, weights.qkv_router, &maps.qkv_router,
                buffers_.qkv, tokens, weights.qkv_router_rows, config_.hidden}));
  BATON_RETURN_IF_ERROR(timer_.Mark(Stage::kQkv));
  BATON_RETURN_IF_ERROR(RunScatter(chunk, layer));
  if (chunk.push) BATON_RETURN_IF_ERROR(pusher_->PushLayer(layer, stream_));
  BATON_RETURN_IF_ERROR(timer_.Mark(Stage::kScatter));
  BATON_RETURN_IF_ERROR(Attend(chunk, layer));
  BATON_RETURN_IF_ERROR(timer_.Mark(Stage::kAttention));
  BATON_RETURN_IF_ERROR(Multiply({buffers_.attention, &buffers_.attention_map, weights.o, &maps.o,
                                  buffers_.projected, tokens, config_.hidden, query_width}));
  return timer_.Mark(Stage::kOutput);
}

absl::Status PrefillEngine::RunScatter(const Chunk& chunk, int layer) {
  ScatterCall scatter;
  scatter.qkv = buffers_.qkv;
  scatter.pitch = weights_->layers()[layer].qkv_router_rows;
  scatter.rows = chunk.plan.tokens;
  scatter.query_heads = config_.query_heads;
  scatter.kv_heads = config_.kv_heads;
  scatter.head_dim = config_.head_dim;
  scatter.rope = config_.layers[layer].rope;
  scatter.rotary = buffers_.rotary;
  scatter.window_group = chunk.target.layout->layer_group[layer] == kWindowGroup;
  scatter.kv = LayerView(chunk.target, layer);
  scatter.positions = chunk.device.positions;
  scatter.token_segment = chunk.device.token_segment;
  scatter.segments = chunk.device.segments;
  scatter.segment_count = static_cast<int>(chunk.plan.segments.size());
  scatter.pages = chunk.device.pages;
  return LaunchScatter(scatter, stream_);
}

absl::Status PrefillEngine::Attend(const Chunk& chunk, int layer) {
  const int pitch = weights_->layers()[layer].qkv_router_rows;
  const uint8_t group = chunk.target.layout->layer_group[layer];
  AttentionCall attention;
  attention.kernel = attention_kernel_;
  attention.queries = buffers_.qkv;
  attention.query_pitch = pitch;
  attention.tokens = chunk.plan.tokens;
  attention.out = buffers_.attention;
  attention.query_heads = config_.query_heads;
  attention.kv_heads = config_.kv_heads;
  attention.head_dim = config_.head_dim;
  attention.window_keys = config_.layers[layer].sliding ? config_.window_keys : 0;
  attention.window_group = group == kWindowGroup;
  attention.kv = LayerView(chunk.target, layer);
  attention.tiles = chunk.device.tiles;
  attention.tile_count = static_cast<int>(chunk.plan.tiles.size());
  attention.segments = chunk.device.segments;
  attention.pages = chunk.device.pages;
  CUtensorMap query_map = {};
  if (attention_kernel_ == AttentionKernel::kWgmma) {
    HeadMapShape shape;
    shape.tokens = chunk.plan.tokens;
    shape.heads = config_.query_heads;
    shape.head_dim = config_.head_dim;
    shape.pitch_elements = pitch;
    shape.box_heads = config_.query_heads / config_.kv_heads;
    shape.box_tokens =
        AttentionTileTokens(attention_kernel_, config_.query_heads, config_.kv_heads);
    BATON_ASSIGN_OR_RETURN(query_map, MakeHeadMap(buffers_.qkv, shape));
  }
  attention.query_map = &query_map;
  attention.kv_map = &chunk.kv_maps[group];
  return LaunchAttention(attention, stream_);
}

absl::Status PrefillEngine::RunFeedForward(const Chunk& chunk, int layer) {
  const PrefillLayerWeights& weights = weights_->layers()[layer];
  const LayerMaps& maps = buffers_.layers[layer];
  if (weights.gate_up != nullptr) {
    TileGemmCall call;
    call.a_map = &buffers_.normed_map;
    call.b_map = &maps.gate_up;
    call.n = 2 * weights.width;
    call.k = config_.hidden;
    call.out = buffers_.dense_hidden;
    call.out_pitch = weights.width;
    call.output = GemmOutput::kSwiGlu;
    call.rows = chunk.plan.tokens;
    BATON_RETURN_IF_ERROR(LaunchTileGemm(call, multiprocessors_, stream_));
    BATON_RETURN_IF_ERROR(timer_.Mark(Stage::kGateUp));
    BATON_RETURN_IF_ERROR(
        Multiply({buffers_.dense_hidden, &maps.hidden, weights.down, &maps.down, buffers_.dense_out,
                  chunk.plan.tokens, config_.hidden, weights.width}));
    BATON_RETURN_IF_ERROR(timer_.Mark(Stage::kDown));
  }
  if (weights.experts_gate_up != nullptr) BATON_RETURN_IF_ERROR(RunExperts(chunk, layer));
  return absl::OkStatus();
}

absl::Status PrefillEngine::RunRoute(const Chunk& chunk, int layer) {
  const PrefillLayerWeights& weights = weights_->layers()[layer];
  const int slots = chunk.plan.tokens * config_.experts_per_token;
  RouteCall route;
  route.logits = buffers_.qkv + (config_.query_heads + 2 * config_.kv_heads) * config_.head_dim;
  route.pitch = weights.qkv_router_rows;
  route.rows = chunk.plan.tokens;
  route.expert_count = config_.expert_count;
  route.experts_per_token = config_.experts_per_token;
  route.softmax = config_.router == RouterKind::kSoftmax;
  route.norm_topk = config_.norm_topk;
  route.slot_experts = buffers_.slot_experts;
  route.slot_weights = buffers_.slot_weights;
  route.expert_rows = buffers_.expert_counts + int64_t{layer} * config_.expert_count;
  BATON_RETURN_IF_ERROR(LaunchRoute(route, stream_));
  PermuteCall permute;
  permute.slot_experts = buffers_.slot_experts;
  permute.expert_rows = route.expert_rows;
  permute.slots = slots;
  permute.expert_count = config_.expert_count;
  permute.permuted_slots = buffers_.permuted_slots;
  permute.slot_rows = buffers_.slot_rows;
  permute.row_tiles = buffers_.row_tiles;
  permute.row_tile_count = buffers_.row_tile_count;
  BATON_RETURN_IF_ERROR(LaunchPermute(permute, stream_));
  GatherCall gather;
  gather.in = buffers_.normed;
  gather.rows = buffers_.permuted_slots;
  gather.divisor = config_.experts_per_token;
  gather.out = buffers_.expert_rows;
  gather.count = slots;
  gather.hidden = config_.hidden;
  return LaunchGather(gather, stream_);
}

absl::Status PrefillEngine::RunExperts(const Chunk& chunk, int layer) {
  BATON_RETURN_IF_ERROR(RunRoute(chunk, layer));
  BATON_RETURN_IF_ERROR(timer_.Mark(Stage::kRoute));
  const LayerMaps& maps = buffers_.layers[layer];
  TileGemmCall call;
  call.a_map = &buffers_.expert_rows_map;
  call.b_map = &maps.experts_gate_up;
  call.n = 2 * config_.expert_width;
  call.k = config_.hidden;
  call.out = buffers_.expert_hidden;
  call.out_pitch = config_.expert_width;
  call.output = GemmOutput::kSwiGlu;
  call.row_tiles = buffers_.row_tiles;
  call.row_tile_count = buffers_.row_tile_count;
  BATON_RETURN_IF_ERROR(LaunchTileGemm(call, multiprocessors_, stream_));
  BATON_RETURN_IF_ERROR(timer_.Mark(Stage::kGateUp));
  call.a_map = &buffers_.expert_hidden_map;
  call.b_map = &maps.experts_down;
  call.n = config_.hidden;
  call.k = config_.expert_width;
  call.out = buffers_.expert_rows;  // The inputs are no longer needed.
  call.out_pitch = config_.hidden;
  call.output = GemmOutput::kBf16;
  BATON_RETURN_IF_ERROR(LaunchTileGemm(call, multiprocessors_, stream_));
  return timer_.Mark(Stage::kDown);
}

absl::Status PrefillEngine::RunCombine(const Chunk& chunk, int layer) {
  const PrefillLayerWeights& weights = weights_->layers()[layer];
  const bool last = layer + 1 == config_.layer_count;
  CombineCall call;
  call.x = buffers_.x;
  call.normed = buffers_.normed;
  call.attention = buffers_.projected;
  if (config_.layers[layer].dense) {
    call.dense = buffers_.dense_out;
  } else {
    call.expert_rows = buffers_.expert_rows;
    call.slot_rows = buffers_.slot_rows;
    call.slot_weights = buffers_.slot_weights;
    call.slots = config_.experts_per_token;
    call.shared = weights.gate_up != nullptr ? buffers_.dense_out : nullptr;
    call.shared_scale = config_.shared == SharedExperts::kAverage ? 0.5f : 1.0f;
  }
  call.rows = chunk.plan.tokens;
  call.hidden = config_.hidden;
  call.norm = NormOf(last ? weights_->final_norm() : weights_->layers()[layer + 1].norm);
  BATON_RETURN_IF_ERROR(LaunchCombine(call, stream_));
  return timer_.Mark(Stage::kCombine);
}

absl::Status PrefillEngine::RunHead(const Chunk& chunk) {
  const int rows = static_cast<int>(chunk.plan.sample_rows.size());
  if (rows == 0) return absl::OkStatus();
  GatherCall gather;
  gather.in = buffers_.normed;
  gather.rows = chunk.device.sample_rows;
  gather.out = buffers_.head_rows;
  gather.count = rows;
  gather.hidden = config_.hidden;
  BATON_RETURN_IF_ERROR(LaunchGather(gather, stream_));
  BATON_RETURN_IF_ERROR(
      Multiply({buffers_.head_rows, &buffers_.head_rows_map, weights_->head(), &buffers_.head_map,
                buffers_.logits, rows, config_.vocab, config_.hidden, true}));
  SampleCall sample;
  sample.logits = buffers_.logits;
  sample.rows = rows;
  sample.vocab = config_.vocab;
  sample.logit_scale = config_.logit_scale;
  sample.row_params = chunk.device.sample_params;
  sample.partials = buffers_.partials;
  sample.sampled = buffers_.sampled;
  BATON_RETURN_IF_ERROR(LaunchSample(sample, stream_));
  return timer_.Mark(Stage::kHead);
}

}  // namespace baton::prefill
