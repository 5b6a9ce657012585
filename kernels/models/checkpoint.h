// Checkpoint: a Hugging Face model directory opened for serving. Owns the mappings of its weight
// files; the views of weights() live as long as it does. Immutable once open, so any thread may
// read it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/models/model_config.h"
#include "kernels/models/safetensors_file.h"
#include "kernels/models/weight_set.h"

namespace baton {

struct CheckpointOptions {
  // Keys a sliding layer sees, the current one included, instead of the config's sliding_window.
  std::optional<int> window_keys;
  // Asks the kernel to start reading the files into its page cache.
  bool read_ahead = true;
};

class Checkpoint {
 public:
  // Opens model_dir: config.json, generation_config.json if there is one, and model.safetensors or
  // the shards that model.safetensors.index.json names. A head in the files that differs from the
  // embedding is the model's even if the config ties them: config().tied_head is false then, as
  // with Hugging Face. Everything that could fail later is checked here (but a file truncated
  // afterwards by somebody else raises SIGBUS on access). Errors name the file, the tensor or key,
  // what was wanted and what was found.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& model_dir,
                                                          const CheckpointOptions& options = {});

  const ModelConfig& config() const { return config_; }
  const WeightSet& weights() const { return weights_; }

 private:
  Checkpoint() = default;

  ModelConfig config_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  WeightSet weights_;
};

}  // namespace baton
