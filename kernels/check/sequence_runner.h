// SequenceRunner: one sequence at a time through a backend's prefill and decode, with an arena of
// its own: generation without services. For checks, tests and benchmarks. One thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"

namespace baton {

// Zeroed host memory for an arena.
class HostKvMemory : public KvMemory {
 public:
  explicit HostKvMemory(uint64_t size_bytes) : bytes_(size_bytes) {}
  void* base() const override { return const_cast<std::byte*>(bytes_.data()); }
  uint64_t size_bytes() const override { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

struct SequenceRunnerOptions {
  int max_tokens = 0;      // Longest prompt plus continuation; 0 = the model's max_positions.
  int chunk_tokens = 512;  // Of the prefill.
  std::function<absl::StatusOr<std::unique_ptr<KvMemory>>(uint64_t size_bytes)> make_kv_memory;
};

struct GeneratedSequence {
  std::vector<SampledToken> tokens;
  std::vector<float> prompt_logits;  // [vocab] at the prompt's last position.
};

class SequenceRunner {
 public:
  // The backend outlives the runner.
  static absl::StatusOr<std::unique_ptr<SequenceRunner>> Make(Backend& backend,
                                                              const SequenceRunnerOptions& options);

  // `count` tokens after the prompt, whatever they are (no stop ids). Internal: a step's logits
  // were not finite.
  absl::StatusOr<GeneratedSequence> Generate(absl::Span<const TokenId> prompt, int count,
                                             const SamplingParams& sampling = {});

 private:
  SequenceRunner() = default;

  SequenceRunnerOptions options_;
  KvLayout layout_;
  KvPageTable pages_;
  std::unique_ptr<KvMemory> memory_;
  std::unique_ptr<PrefillRunner> prefill_;
  std::unique_ptr<DecodeRunner> decode_;
};

}  // namespace baton
