// CudaBackend: the Backend whose device is one GPU (sm_90). Weights go to the device when a role
// first needs them: a process that only decodes never holds prefill's copy, nor the other way
// round. Used by its owner's thread alone; runners hold what they need of it and must not outlive
// it. This header needs no CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/models/checkpoint.h"
#include "kernels/task_graph/task_graph.h"

namespace baton::prefill {
class PrefillWeights;
}

namespace baton::cuda {

class PackedWeights;

struct CudaBackendOptions {
  bool decode_only = false;   // MakePrefillRunner refuses.
  bool prefill_only = false;  // MakeDecodeRunner refuses; decode's geometry limits do not apply.
};

class CudaBackend : public Backend {
 public:
  // `checkpoint` outlives the backend. Uses device 0 of the process (CUDA_VISIBLE_DEVICES chooses).
  // FailedPrecondition: no such device, or a geometry that the kernels cannot run (which number).
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Make(const Checkpoint& checkpoint,
                                                           const CudaBackendOptions& options);
  ~CudaBackend() override;

  const ModelConfig& config() const override { return checkpoint_.config(); }
  std::string name() const override { return "cuda"; }
  std::string device_uuid() const override { return device_uuid_; }
  uint64_t weights_fingerprint() const override { return checkpoint_.weights().Fingerprint(); }
  // Up to there a prompt's rate rises with the chunk (tests/bench/RESULTS.md).
  int default_chunk_tokens() const override { return 8192; }
  KvLayout MakeKvLayout(uint32_t full_pages, uint32_t window_pages) const override;
  absl::StatusOr<uint64_t> AvailableKvBytes(uint64_t margin_bytes) override;
  absl::StatusOr<std::unique_ptr<DecodeRunner>> MakeDecodeRunner(
      const DecodeRunnerOptions& options) override;
  absl::StatusOr<std::unique_ptr<PrefillRunner>> MakePrefillRunner(
      const PrefillRunnerOptions& options) override;

 private:
  CudaBackend(const Checkpoint& checkpoint, const CudaBackendOptions& options);
  absl::Status LoadDecodeWeights();
  absl::Status LoadPrefillWeights();

  const Checkpoint& checkpoint_;
  const CudaBackendOptions options_;
  std::string device_uuid_;
  std::unique_ptr<TaskGraph> graph_;                                // Null if prefill_only.
  std::unique_ptr<PackedWeights> decode_weights_;                   // Null until first used.
  std::shared_ptr<const prefill::PrefillWeights> prefill_weights_;  // Likewise.
};

}  // namespace baton::cuda
