#include "kernels/models/fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <string_view>

namespace baton {
namespace {

constexpr int64_t kSampleBytes = 64;
constexpr int kExpertSamples = 2;
constexpr int kSamples = 16;

// FNV-1a over bytes; integers go in as 8 little-endian bytes.
class Digest {
 public:
  void AddBytes(const std::byte* bytes, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      value_ = (value_ ^ static_cast<uint64_t>(bytes[i])) * 0x100000001b3u;
    }
  }

  void AddInt(int64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      const std::byte byte{static_cast<unsigned char>(static_cast<uint64_t>(number) >> shift)};
      AddBytes(&byte, 1);
    }
  }

  void AddText(std::string_view text) {
    AddInt(static_cast<int64_t>(text.size()));
    AddBytes(reinterpret_cast<const std::byte*>(text.data()), static_cast<int64_t>(text.size()));
  }

  // Shape, dtype and `sample_count` pieces, evenly spread from the first byte to the last.
  void AddTensor(const TensorView& tensor, int sample_count) {
    AddInt(static_cast<int64_t>(tensor.shape.size()));
    for (int64_t extent : tensor.shape) AddInt(extent);
    AddInt(static_cast<int64_t>(tensor.dtype));
    if (tensor.empty()) return;
    const int64_t sample_bytes = std::min(kSampleBytes, tensor.ByteCount());
    const int64_t last = tensor.ByteCount() - sample_bytes;
    for (int i = 0; i < sample_count; ++i) {
      const int64_t offset = last * i / (sample_count - 1);
      AddBytes(static_cast<const std::byte*>(tensor.data) + offset, sample_bytes);
    }
  }

  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

// Without the ids of special tokens, which serve text and not the computation.
void AddConfig(const ModelConfig& config, Digest& digest) {
  digest.AddText(config.model_type);
  for (int number :
       {config.hidden, config.layer_count, config.query_heads, config.kv_heads, config.head_dim,
        config.vocab, config.expert_count, config.experts_per_token, config.expert_width,
        static_cast<int>(config.router), static_cast<int>(config.norm_topk),
        static_cast<int>(config.shared), config.shared_width, static_cast<int>(config.norm),
        static_cast<int>(config.tied_head), config.max_positions, config.window_keys}) {
    digest.AddInt(number);
  }
  digest.AddInt(std::bit_cast<int32_t>(config.norm_epsilon));
  digest.AddInt(std::bit_cast<int64_t>(config.rope_theta));
  digest.AddInt(std::bit_cast<int32_t>(config.logit_scale));
  for (const LayerConfig& layer : config.layers) {
    digest.AddInt(layer.sliding);
    digest.AddInt(layer.rope);
    digest.AddInt(layer.dense);
    digest.AddInt(layer.ffn_width);
  }
}

}  // namespace

uint64_t ComputeFingerprint(const ModelConfig& config, const WeightSet& weights) {
  Digest digest;
  AddConfig(config, digest);
  for (const TensorView* tensor : {&weights.embedding, &weights.final_norm, &weights.head}) {
    digest.AddTensor(*tensor, kSamples);
  }
  for (const LayerWeights& layer : weights.layers) {
    for (const TensorView* tensor : {&layer.norm, &layer.q, &layer.k, &layer.v, &layer.o,
                                     &layer.gate, &layer.up, &layer.down, &layer.router}) {
      digest.AddTensor(*tensor, kSamples);
    }
    for (const ExpertWeights& expert : layer.experts) {
      for (const TensorView* tensor : {&expert.gate, &expert.up, &expert.down}) {
        digest.AddTensor(*tensor, kExpertSamples);
      }
    }
  }
  return digest.value();
}

}  // namespace baton
