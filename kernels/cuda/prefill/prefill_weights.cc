#include "kernels/cuda/prefill/prefill_weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cuda/prefill/random_fill.h"
#include "kernels/cuda/prefill/weight_uploader.h"

namespace baton::prefill {
namespace {

constexpr int kUploaders = 8;  // Threads that copy from the mapped files.

// Element counts of a layer's matrices.
struct LayerShape {
  int64_t hidden = 0;
  int64_t query_width = 0;
  int64_t qkv_router_rows = 0;
  int64_t width = 0;
  int64_t experts = 0;
  int64_t expert_width = 0;
};

LayerShape ShapeOf(const ModelConfig& config, int layer) {
  const LayerConfig& layer_config = config.layers[layer];
  LayerShape shape;
  shape.hidden = config.hidden;
  shape.query_width = int64_t{config.query_heads} * config.head_dim;
  shape.qkv_router_rows = shape.query_width + 2 * int64_t{config.kv_heads} * config.head_dim;
  if (layer_config.dense) {
    shape.width = layer_config.ffn_width;
  } else {
    shape.width = config.shared == SharedExperts::kNone ? 0 : config.shared_width;
    shape.experts = config.expert_count;
    shape.expert_width = config.expert_width;
    shape.qkv_router_rows += config.expert_count;
  }
  return shape;
}

absl::Status CheckShape(const LayerShape& shape, int layer) {
  if (shape.hidden % 8 == 0 && shape.query_width % 8 == 0 && shape.qkv_router_rows % 8 == 0 &&
      shape.width % 8 == 0 && shape.expert_width % 8 == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "layer ", layer, ": hidden ", shape.hidden, ", query width ", shape.query_width,
      ", projection rows ", shape.qkv_router_rows, ", feed-forward widths ", shape.width, " and ",
      shape.expert_width, "; the GPU prefill wants multiples of 8"));
}

// gate and up rows in alternating groups of 8.
absl::Status AppendGateUp(WeightUploader& uploader, const TensorView& gate, const TensorView& up) {
  for (int64_t row = 0; row < gate.shape[0]; row += 8) {
    BATON_RETURN_IF_ERROR(uploader.Append(gate, row, 8));
    BATON_RETURN_IF_ERROR(uploader.Append(up, row, 8));
  }
  return absl::OkStatus();
}

absl::Status UploadLayer(WeightUploader& uploader, const LayerWeights& from,
                         const PrefillLayerWeights& to) {
  BATON_RETURN_IF_ERROR(uploader.Begin(to.norm));
  BATON_RETURN_IF_ERROR(uploader.Append(from.norm));
  BATON_RETURN_IF_ERROR(uploader.Begin(to.qkv_router));
  for (const TensorView* part : {&from.q, &from.k, &from.v}) {
    BATON_RETURN_IF_ERROR(uploader.Append(*part));
  }
  if (!from.router.empty()) BATON_RETURN_IF_ERROR(uploader.Append(from.router));
  BATON_RETURN_IF_ERROR(uploader.Begin(to.o));
  BATON_RETURN_IF_ERROR(uploader.Append(from.o));
  if (to.gate_up != nullptr) {
    BATON_RETURN_IF_ERROR(uploader.Begin(to.gate_up));
    BATON_RETURN_IF_ERROR(AppendGateUp(uploader, from.gate, from.up));
    BATON_RETURN_IF_ERROR(uploader.Begin(to.down));
    BATON_RETURN_IF_ERROR(uploader.Append(from.down));
  }
  if (to.experts_gate_up == nullptr) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(uploader.Begin(to.experts_gate_up));
  for (const ExpertWeights& expert : from.experts) {
    BATON_RETURN_IF_ERROR(AppendGateUp(uploader, expert.gate, expert.up));
  }
  BATON_RETURN_IF_ERROR(uploader.Begin(to.experts_down));
  for (const ExpertWeights& expert : from.experts) {
    BATON_RETURN_IF_ERROR(uploader.Append(expert.down));
  }
  return absl::OkStatus();
}

// What lies outside the layers.
struct Ends {
  const __nv_bfloat16* embedding = nullptr;
  const __nv_bfloat16* final_norm = nullptr;
  const __nv_bfloat16* head = nullptr;  // Null: tied.
};

absl::Status UploadEnds(WeightUploader& uploader, const WeightSet& from, const Ends& to) {
  BATON_RETURN_IF_ERROR(uploader.Begin(to.embedding));
  BATON_RETURN_IF_ERROR(uploader.Append(from.embedding));
  BATON_RETURN_IF_ERROR(uploader.Begin(to.final_norm));
  BATON_RETURN_IF_ERROR(uploader.Append(from.final_norm));
  if (to.head == nullptr) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(uploader.Begin(to.head));
  return uploader.Append(from.head);
}

// Runs upload(uploader, part) for parts 0 to count - 1 on several threads, each with an uploader of
// its own: one thread copies no faster than a quarter of what the bus takes.
template <typename Upload>
absl::Status UploadInParallel(int count, Upload upload) {
  std::atomic<int> next{0};
  std::vector<absl::Status> results(std::min(count, kUploaders));
  const auto run = [&]() -> absl::Status {
    BATON_ASSIGN_OR_RETURN(std::unique_ptr<WeightUploader> uploader, WeightUploader::Create());
    for (int part = next++; part < count; part = next++) {
      BATON_RETURN_IF_ERROR(upload(*uploader, part));
    }
    return uploader->Finish();
  };
  std::vector<std::thread> threads;
  for (absl::Status& result : results) {
    threads.emplace_back([&result, &run] { result = run(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) BATON_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

// Visits every matrix of a layer as (field, elements, inputs of one output).
template <typename Visit>
void ForEachMatrix(PrefillLayerWeights& layer, const LayerShape& shape, Visit visit) {
  visit(layer.norm, shape.hidden, int64_t{0});
  visit(layer.qkv_router, shape.qkv_router_rows * shape.hidden, shape.hidden);
  visit(layer.o, shape.hidden * shape.query_width, shape.query_width);
  if (shape.width > 0) {
    visit(layer.gate_up, 2 * shape.width * shape.hidden, shape.hidden);
    visit(layer.down, shape.hidden * shape.width, shape.width);
  }
  if (shape.experts > 0) {
    visit(layer.experts_gate_up, shape.experts * 2 * shape.expert_width * shape.hidden,
          shape.hidden);
    visit(layer.experts_down, shape.experts * shape.hidden * shape.expert_width,
          shape.expert_width);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrefillWeights>> PrefillWeights::Allocate(
    const ModelConfig& config) {
  std::unique_ptr<PrefillWeights> result(new PrefillWeights());
  BufferPlan plan;
  const uint64_t vocabulary_bytes = uint64_t(config.vocab) * config.hidden * 2;
  const uint64_t embedding = plan.Add(vocabulary_bytes);
  const uint64_t final_norm = plan.Add(config.hidden * 2);
  const uint64_t head = config.tied_head ? embedding : plan.Add(vocabulary_bytes);
  result->layers_.resize(config.layer_count);
  std::vector<uint64_t> offsets;
  for (int l = 0; l < config.layer_count; ++l) {
    const LayerShape shape = ShapeOf(config, l);
    BATON_RETURN_IF_ERROR(CheckShape(shape, l));
    result->layers_[l].qkv_router_rows = static_cast<int>(shape.qkv_router_rows);
    result->layers_[l].width = static_cast<int>(shape.width);
    ForEachMatrix(result->layers_[l], shape, [&](const __nv_bfloat16*&, int64_t elements, int64_t) {
      offsets.push_back(plan.Add(elements * 2));
    });
  }
  BATON_ASSIGN_OR_RETURN(result->memory_, DeviceMemory::Allocate(plan.size_bytes()));
  result->embedding_ = result->memory_.As<__nv_bfloat16>(embedding);
  result->final_norm_ = result->memory_.As<__nv_bfloat16>(final_norm);
  result->head_ = result->memory_.As<__nv_bfloat16>(head);
  size_t next = 0;
  for (int l = 0; l < config.layer_count; ++l) {
    ForEachMatrix(result->layers_[l], ShapeOf(config, l),
                  [&](const __nv_bfloat16*& field, int64_t, int64_t) {
                    field = result->memory_.As<__nv_bfloat16>(offsets[next++]);
                  });
  }
  return result;
}

absl::StatusOr<std::unique_ptr<PrefillWeights>> PrefillWeights::Upload(const ModelConfig& config,
                                                                       const WeightSet& weights) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<PrefillWeights> result, Allocate(config));
  const Ends ends{.embedding = result->embedding_,
                  .final_norm = result->final_norm_,
                  .head = config.tied_head ? nullptr : result->head_};
  BATON_RETURN_IF_ERROR(
      UploadInParallel(config.layer_count + 1, [&](WeightUploader& uploader, int part) {
        if (part == 0) return UploadEnds(uploader, weights, ends);
        return UploadLayer(uploader, weights.layers[part - 1], result->layers_[part - 1]);
      }));
  return result;
}

absl::StatusOr<std::unique_ptr<PrefillWeights>> PrefillWeights::Synthetic(const ModelConfig& config,
                                                                          uint64_t seed) {
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<PrefillWeights> result, Allocate(config));
  absl::Status status;
  uint64_t stream = seed;
  const auto fill = [&](const __nv_bfloat16* target, int64_t elements, int64_t inputs) {
    if (!status.ok()) return;
    __nv_bfloat16* writable = const_cast<__nv_bfloat16*>(target);
    status = inputs == 0 ? FillConstant(writable, elements, 1.0f)
                         : FillUniform(writable, elements, std::sqrt(3.0f / inputs), ++stream);
  };
  fill(result->embedding_, int64_t{config.vocab} * config.hidden, config.hidden);
  fill(result->final_norm_, config.hidden, 0);
  if (!config.tied_head) {
    fill(result->head_, int64_t{config.vocab} * config.hidden, config.hidden);
  }
  for (int l = 0; l < config.layer_count; ++l) {
    ForEachMatrix(result->layers_[l], ShapeOf(config, l), fill);
  }
  BATON_RETURN_IF_ERROR(status);
  return result;
}

ModelConfig NorthMiniCodeConfig() {
  ModelConfig config;
  config.model_type = "cohere2_moe";
  config.hidden = 2048;
  config.layer_count = 49;
  config.query_heads = 32;
  config.kv_heads = 4;
  config.head_dim = 128;
  config.vocab = 262144;
  for (int l = 0; l < config.layer_count; ++l) {
    LayerConfig layer;
    layer.sliding = l % 4 != 0;
    layer.rope = layer.sliding || l == 0;
    layer.dense = l == 0;
    layer.ffn_width = l == 0 ? 3072 : 768;
    config.layers.push_back(layer);
  }
  config.expert_count = 128;
  config.experts_per_token = 8;
  config.expert_width = 768;
  config.router = RouterKind::kSigmoid;
  config.norm = NormKind::kRmsNorm;
  config.norm_epsilon = 1e-6f;
  config.rope_theta = 50000;
  config.max_positions = 500000;
  config.window_keys = 4096;
  return config;
}

}  // namespace baton::prefill
