// CpuBackend: the Backend whose device is the CPU's threads. It is the definition of correct for
// the others. Immutable; runners hold a pointer to it and must not outlive it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "kernels/backend.h"
#include "kernels/cpu/cpu_model.h"
#include "kernels/models/checkpoint.h"

namespace baton {

struct CpuBackendOptions {
  CpuMode mode = CpuMode::kBfloat16;
  int threads = 0;                       // 0 = all cores.
  std::string instruction_set = "auto";  // See SelectInnerLoops.
  std::optional<uint64_t> shuffle_seed;  // Tests: see InterpreterOptions.
};

class CpuBackend : public Backend {
 public:
  // `checkpoint` outlives the backend. InvalidArgument or FailedPrecondition for an instruction set
  // that is unknown or that this processor lacks, or for a bad number of threads.
  static absl::StatusOr<std::unique_ptr<CpuBackend>> Make(const Checkpoint& checkpoint,
                                                          const CpuBackendOptions& options);

  const ModelConfig& config() const override { return model_.config(); }
  std::string name() const override { return "cpu"; }
  std::string device_uuid() const override;
  uint64_t weights_fingerprint() const override { return model_.weights().Fingerprint(); }
  KvLayout MakeKvLayout(uint32_t full_pages, uint32_t window_pages) const override;
  absl::StatusOr<std::unique_ptr<DecodeRunner>> MakeDecodeRunner(
      const DecodeRunnerOptions& options) override;
  absl::StatusOr<std::unique_ptr<PrefillRunner>> MakePrefillRunner(
      const PrefillRunnerOptions& options) override;

  const CpuModel& model() const { return model_; }
  const CpuBackendOptions& options() const { return options_; }  // `threads` resolved.

 private:
  CpuBackend(const Checkpoint& checkpoint, const CpuBackendOptions& options,
             const InnerLoops& loops);

  const CpuBackendOptions options_;
  const CpuModel model_;
};

}  // namespace baton
