// SyntheticModel: a random checkpoint in a temporary directory, opened. For tests of the CPU
// backend.
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "common/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/models/checkpoint.h"
#include "tests/fixtures/synthetic_checkpoint.h"
#include "tests/fixtures/temporary_directory.h"

namespace baton {

class SyntheticModel {
 public:
  explicit SyntheticModel(const ModelConfig& config = SyntheticConfig(), DType dtype = DType::kBf16)
      : SyntheticModel(config, SyntheticTensors(config, {.dtype = dtype})) {}
  SyntheticModel(const ModelConfig& config, const std::vector<RawTensor>& tensors) {
    WriteCheckpointFiles(directory_.path(), config, tensors);
    auto opened = Checkpoint::Open(directory_.path());
    if (!opened.ok()) std::fprintf(stderr, "%s\n", opened.status().ToString().c_str());
    BATON_CHECK(opened.ok());
    checkpoint_ = std::move(*opened);
  }

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const ModelConfig& config() const { return checkpoint_->config(); }

  std::unique_ptr<CpuBackend> MakeBackend(const CpuBackendOptions& options) const {
    auto backend = CpuBackend::Make(*checkpoint_, options);
    BATON_CHECK(backend.ok());
    return std::move(*backend);
  }

 private:
  TemporaryDirectory directory_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

// SyntheticConfig with a head of its own, in float32; the embedding of `token` begins with what is
// not a number.
inline SyntheticModel ModelWithNanEmbedding(int token) {
  ModelConfig config = SyntheticConfig();
  config.tied_head = false;
  std::vector<RawTensor> tensors = SyntheticTensors(config, {.dtype = DType::kF32});
  for (RawTensor& tensor : tensors) {
    if (tensor.name != "model.embed_tokens.weight") continue;
    const float nan = NAN;
    std::memcpy(tensor.bytes.data() + token * config.hidden * sizeof nan, &nan, sizeof nan);
  }
  return SyntheticModel(config, tensors);
}

// SyntheticConfig with a shared expert and LayerNorm.
inline ModelConfig SharedExpertConfig() {
  ModelConfig config = SyntheticConfig();
  config.shared = SharedExperts::kAverage;
  config.shared_width = 16;
  config.norm = NormKind::kLayerNorm;
  config.norm_epsilon = 1e-5f;
  config.router = RouterKind::kSoftmax;
  return config;
}

}  // namespace baton
