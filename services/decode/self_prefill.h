// SelfPrefill: prompts computed in the decode process itself, one after the other, in chunks. The
// decode engine calls it between steps, so decode pauses for as long as a prompt takes.
//
// Owner: the decode engine; its thread only.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "services/decode/sequence.h"

namespace baton {

struct SelfPrefillOptions {
  std::unique_ptr<PrefillRunner> runner;  // Chunks no longer than the arena's rings allow.
  void* kv_base = nullptr;                // The arena.
  KvLayout layout;
};

class SelfPrefill {
 public:
  explicit SelfPrefill(SelfPrefillOptions options) : options_(std::move(options)) {}

  // `sequence` holds its pages, and stays until its prompt is done or it is removed.
  void Add(const Sequence* sequence) { waiting_.push_back(sequence); }
  // Without effect on a sequence that is not there.
  void Remove(const Sequence* sequence);

  size_t count() const { return waiting_.size(); }
  // Chunks of the oldest prompt are done, and some are left.
  bool started() const { return done_tokens_ > 0; }
  // The sequence that RunChunk works on; null: none.
  const Sequence* head() const { return waiting_.empty() ? nullptr : waiting_.front(); }
  // Computes the next chunk of the oldest prompt. With the last one: its first token, and the
  // sequence is out. After an error the sequence is out.
  absl::StatusOr<std::optional<SampledToken>> RunChunk();

 private:
  const SelfPrefillOptions options_;
  std::deque<const Sequence*> waiting_;  // Oldest first.
  size_t done_tokens_ = 0;               // Of the oldest.
};

}  // namespace baton
