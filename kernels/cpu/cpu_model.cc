#include "kernels/cpu/cpu_model.h"

#include <cmath>

#include "common/check.h"

namespace baton {
namespace {

std::vector<float> ToFloats(const TensorView& tensor) {
  std::vector<float> values(tensor.ElementCount());
  CopyToFloat(tensor, 0, tensor.ElementCount(), values.data());
  return values;
}

}  // namespace

CpuModel::CpuModel(const Checkpoint& checkpoint, CpuMode mode, const InnerLoops& loops)
    : config_(checkpoint.config()), weights_(checkpoint.weights()), mode_(mode), loops_(loops) {
  for (const LayerWeights& layer : weights_.layers) norms_.push_back(ToFloats(layer.norm));
  norms_.push_back(ToFloats(weights_.final_norm));
  for (int i = 0; i < config_.head_dim / 2; ++i) {
    inverse_frequencies_.push_back(
        1.0f / static_cast<float>(std::pow(config_.rope_theta, 2.0 * i / config_.head_dim)));
  }
}

// Hugging Face transformers modeling_cohere2_moe: Cohere2MoeRMSNorm casts to the model's dtype
// before it multiplies by the weight; Cohere2MoeLayerNorm after.
void CpuModel::Normalize(int layer, const float* x, float* normed) const {
  const int hidden = config_.hidden;
  const float* weights = norm_weights(layer);
  float mean = 0;
  if (config_.norm == NormKind::kLayerNorm) {
    for (int i = 0; i < hidden; ++i) mean += x[i];
    mean /= static_cast<float>(hidden);
  }
  for (int i = 0; i < hidden; ++i) normed[i] = x[i] - mean;
  float square_sum = 0;
  float* sum = &square_sum;
  const float* values = normed;
  loops_.dot_f32({.weights = normed,
                  .out_count = 1,
                  .columns = hidden,
                  .inputs = &values,
                  .row_count = 1,
                  .outputs = &sum});
  const float scale =
      1.0f / std::sqrt(square_sum / static_cast<float>(hidden) + config_.norm_epsilon);
  if (config_.norm == NormKind::kRmsNorm) {
    for (int i = 0; i < hidden; ++i) normed[i] = Round(weights[i] * Round(normed[i] * scale));
  } else {
    for (int i = 0; i < hidden; ++i) normed[i] = Round(weights[i] * (normed[i] * scale));
  }
}

void CpuModel::Rotations(int position, float* cosines, float* sines) const {
  for (size_t i = 0; i < inverse_frequencies_.size(); ++i) {
    const float angle = static_cast<float>(position) * inverse_frequencies_[i];
    cosines[i] = Round(std::cos(angle));
    sines[i] = Round(std::sin(angle));
  }
}

void CpuModel::Multiply(const Product& product) const {
  BATON_CHECK(product.inputs.size() == product.outputs.size());
  const int64_t columns = product.matrix.RowElementCount();
  const auto* bytes = static_cast<const std::byte*>(product.matrix.data);
  const DotBlock block{
      .weights = bytes + product.first * columns * DTypeBytes(product.matrix.dtype),
      .out_count = static_cast<int>(product.count),
      .columns = static_cast<int>(columns),
      .inputs = product.inputs.data(),
      .row_count = static_cast<int>(product.inputs.size()),
      .outputs = product.outputs.data()};
  switch (product.matrix.dtype) {
    case DType::kBf16:
      return loops_.dot_bf16(block);
    case DType::kF16:
      return loops_.dot_f16(block);
    case DType::kF32:
      return loops_.dot_f32(block);
  }
}

}  // namespace baton
