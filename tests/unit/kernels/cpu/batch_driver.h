// BatchDriver: many sequences through one backend's prefill and decode in one arena, with rows that
// join and leave when the test says so. One thread.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "common/check.h"
#include "kernels/backend.h"
#include "kernels/check/sequence_runner.h"

namespace baton {

// What a sequence got: tokens and the bits of their logprobs.
using Emitted = std::vector<std::pair<TokenId, float>>;

struct BatchSequence {
  std::vector<TokenId> prompt;
  int new_tokens = 1;
  SamplingParams sampling;
  std::vector<TokenId> stop_ids;
};

class BatchDriver {
 public:
  static constexpr int kMaxTokens = 192;

  BatchDriver(Backend& backend, int max_rows, int chunk_tokens) : chunk_tokens_(chunk_tokens) {
    full_pages_ = FullPagesFor(kMaxTokens);
    window_pages_ = WindowPagesFor(kMaxTokens, backend.config().window_keys, chunk_tokens);
    layout_ = backend.MakeKvLayout(full_pages_ * max_rows, window_pages_ * max_rows);
    memory_ = std::make_unique<HostKvMemory>(layout_.total_bytes());
    auto prefill = backend.MakePrefillRunner({.max_chunk_tokens = chunk_tokens});
    auto decode = backend.MakeDecodeRunner({.max_rows = max_rows,
                                            .layout = layout_,
                                            .kv_base = memory_->base(),
                                            .max_context_tokens = kMaxTokens});
    BATON_CHECK(prefill.ok() && decode.ok());
    prefill_ = std::move(*prefill);
    decode_ = std::move(*decode);
  }

  DecodeRunner& decode() { return *decode_; }

  // The pages of a slot, each slot its own, in an order that is not the identity.
  KvPageTable Pages(int slot) const {
    KvPageTable pages;
    for (uint32_t i = 0; i < full_pages_; ++i) {
      pages.full.push_back(slot * full_pages_ + (i + 1) % full_pages_);
    }
    for (uint32_t i = 0; i < window_pages_; ++i) {
      pages.window.push_back(slot * window_pages_ + (i + 1) % window_pages_);
    }
    return pages;
  }

  // Prefills the sequence for `slot` and puts it among the next step's joins.
  void Add(int slot, const BatchSequence& sequence) {
    const KvPageTable pages = Pages(slot);
    std::optional<SampledToken> first;
    const absl::Span<const TokenId> prompt = sequence.prompt;
    for (size_t begin = 0; begin < prompt.size(); begin += chunk_tokens_) {
      auto token = prefill_->RunChunk({.tokens = prompt.subspan(begin, chunk_tokens_),
                                       .begin = static_cast<int>(begin),
                                       .pages = &pages,
                                       .kv_base = memory_->base(),
                                       .layout = &layout_,
                                       .sample = begin + chunk_tokens_ >= prompt.size(),
                                       .sampling = sequence.sampling});
      BATON_CHECK(token.ok());
      first = *token;
    }
    emitted_[slot] = {{first->token, first->logprob}};
    if (sequence.new_tokens == 1) return;
    next_.joins.push_back({.slot = slot,
                           .row_id = static_cast<uint64_t>(slot) + 1000,
                           .token = first->token,
                           .position = static_cast<int>(prompt.size()),
                           .max_new_tokens = sequence.new_tokens - 1,
                           .pages = pages,
                           .sampling = sequence.sampling,
                           .stop_ids = sequence.stop_ids});
  }

  void Leave(int slot) { next_.leaves.push_back(slot); }

  StepOutput Step() {
    BATON_CHECK(decode_->Submit(next_).ok());
    next_ = {};
    auto output = decode_->Await();
    BATON_CHECK(output.ok());
    for (const RowResult& row : output->rows) {
      emitted_[row.slot].push_back({row.sampled.token, row.sampled.logprob});
    }
    return *output;
  }

  const Emitted& emitted(int slot) const { return emitted_.at(slot); }

 private:
  const size_t chunk_tokens_;
  uint32_t full_pages_ = 0;
  uint32_t window_pages_ = 0;
  KvLayout layout_;
  std::unique_ptr<HostKvMemory> memory_;
  std::unique_ptr<PrefillRunner> prefill_;
  std::unique_ptr<DecodeRunner> decode_;
  StepInput next_;
  std::map<int, Emitted> emitted_;
};

// The sequence alone, one chunk.
inline Emitted RunAlone(Backend& backend, const BatchSequence& sequence, int chunk_tokens = 128) {
  BatchDriver driver(backend, 1, chunk_tokens);
  driver.Add(0, sequence);
  for (int step = 1; step < sequence.new_tokens; ++step) driver.Step();
  return driver.emitted(0);
}

}  // namespace baton
