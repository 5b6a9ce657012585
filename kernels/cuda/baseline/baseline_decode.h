// The decode step as one kernel per operation, replayed as a CUDA graph: cuBLAS for the products of
// all rows, prefill's kernels for norms, residual sums and sampling, ordinary kernels for attention
// and the experts. What the megakernel is measured against; no service uses it.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/generation.h"
#include "kernels/cuda/baseline/expert_products.h"
#include "kernels/cuda/baseline/split_attention.h"
#include "kernels/cuda/baseline/step_kernels.h"
#include "kernels/cuda/prefill/cublas_library.h"
#include "kernels/cuda/prefill/device_memory.h"
#include "kernels/cuda/prefill/prefill_weights.h"
#include "kernels/cuda/prefill/row_kernels.h"
#include "kernels/kv/kv_layout.h"
#include "kernels/models/model_config.h"

namespace baton::cuda {

// One row: greedy, from `token` at `position`.
struct BaselineRow {
  TokenId token = 0;
  int position = 0;
  KvPageTable pages;
};

struct BaselineBatch {
  std::vector<BaselineRow> rows;  // 1 to 32
  KvLayout layout;
  void* kv_base = nullptr;
  int max_steps = 0;       // Pages reach that far, and history is kept for as many.
  int forced_experts = 0;  // As in DecodePoint.
};

// One batch, from its first token to max_steps. One owner thread.
class BaselineDecode {
 public:
  // FailedPrecondition: a geometry that it cannot run, or no cuBLAS. `weights` outlives the result.
  static absl::StatusOr<std::unique_ptr<BaselineDecode>> Create(
      const ModelConfig& config, const prefill::PrefillWeights& weights,
      const BaselineBatch& batch);
  ~BaselineDecode();
  BaselineDecode(const BaselineDecode&) = delete;
  BaselineDecode& operator=(const BaselineDecode&) = delete;

  // Enqueues one step on stream().
  absl::Status Step();
  cudaStream_t stream() const { return stream_; }
  // Kernels and copies of one step.
  size_t node_count() const { return node_count_; }

  // After the steps so far: what they sampled, [steps][rows].
  absl::StatusOr<std::vector<SampledToken>> ReadHistory(int steps);
  // Distinct experts a layer and step, on average over all steps so far.
  absl::StatusOr<double> ReadDistinctExperts(int steps);

 private:
  struct Buffers {
    int32_t *token_ids, *positions, *full_ring, *window_ring, *slot_rows;
    uint32_t *full_pages, *window_pages, *step;
    float *inverse_frequencies, *logits, *partial_o, *partial_ml;
    float2* rotary;
    __nv_bfloat16 *x, *normed, *qkv, *attention, *projected, *gate_up, *hidden, *dense_out,
        *expert_hidden, *expert_out;
    prefill::SampleRow* sample_rows;
    prefill::SamplePartial* partials;
    SampledToken *sampled, *history;
    ExpertLists lists;
  };
  struct Product {
    const __nv_bfloat16* in;
    const __nv_bfloat16* weights;
    void* out;
    int n, k;
    bool float_out = false;
  };

  BaselineDecode(const ModelConfig& config, const prefill::PrefillWeights& weights,
                 const BaselineBatch& batch);
  absl::Status Check() const;
  absl::Status Prepare();
  absl::Status Allocate();
  absl::Status LoadState();
  absl::Status Capture();
  absl::Status EnqueueStep();
  absl::Status EnqueueAttention(int layer);
  absl::Status EnqueueFeedForward(int layer);
  absl::Status EnqueueExperts(int layer);
  absl::Status EnqueueCombine(int layer);
  absl::Status EnqueueHead();
  absl::Status Multiply(const Product& product);
  prefill::NormCall NormOf(const __nv_bfloat16* weight) const;
  int rows() const { return static_cast<int>(batch_.rows.size()); }
  int qkv_width() const { return (config_.query_heads + 2 * config_.kv_heads) * config_.head_dim; }

  const ModelConfig config_;
  const prefill::PrefillWeights& weights_;
  const BaselineBatch batch_;
  prefill::CublasLibrary library_{};
  cublasHandle_t cublas_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  size_t node_count_ = 0;
  prefill::DeviceMemory memory_, workspace_;
  Buffers at_{};
  int full_stride_ = 1, window_stride_ = 1;
  int pages_per_split_[kKvGroupCount] = {1, 1}, max_splits_[kKvGroupCount] = {1, 1};
};

}  // namespace baton::cuda
