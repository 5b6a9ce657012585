// CpuModel: what every op needs to know about the loaded model: config, weights, arithmetic mode
// and inner loops. Immutable after construction; any thread may read it. The Checkpoint outlives
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "common/bfloat16.h"
#include "kernels/cpu/inner_loops.h"
#include "kernels/models/checkpoint.h"
#include "kernels/models/model_config.h"
#include "kernels/models/weight_set.h"

namespace baton {

enum class CpuMode {
  kBfloat16,  // Activations and K/V are rounded where Hugging Face's bfloat16 model rounds them.
  kFloat32,   // Nothing is rounded: the reference.
};

// Weights keep the precision of the checkpoint in both modes.
class CpuModel {
 public:
  CpuModel(const Checkpoint& checkpoint, CpuMode mode, const InnerLoops& loops);

  const ModelConfig& config() const { return config_; }
  const WeightSet& weights() const { return weights_; }
  CpuMode mode() const { return mode_; }
  const InnerLoops& loops() const { return loops_; }

  // The input-norm weights of layer l as float [hidden]; of layer `layer_count`, the final norm's.
  const float* norm_weights(int layer) const { return norms_[layer].data(); }

  // A value as the mode keeps it between ops.
  float Round(float value) const {
    return mode_ == CpuMode::kBfloat16 ? RoundToBf16(value) : value;
  }

  // normed [hidden] = norm(x [hidden]) with the weights of `layer`.
  void Normalize(int layer, const float* x, float* normed) const;

  // cosines and sines [head_dim / 2] of `position`, rounded as the mode does.
  void Rotations(int position, float* cosines, float* sines) const;

  // outputs[r][i] = dot(row first + i of matrix, inputs[r]) for i < count; not rounded.
  struct Product {
    const TensorView& matrix;
    int64_t first = 0;
    int64_t count = 0;
    const std::vector<const float*>& inputs;
    const std::vector<float*>& outputs;
  };
  void Multiply(const Product& product) const;

 private:
  const ModelConfig& config_;
  const WeightSet& weights_;
  const CpuMode mode_;
  const InnerLoops& loops_;
  std::vector<std::vector<float>> norms_;
  std::vector<float> inverse_frequencies_;  // [head_dim / 2]
};

}  // namespace baton
