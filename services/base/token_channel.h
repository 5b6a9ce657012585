// The channel of one request from an engine's thread to a gRPC stream. Bounded by the request's
// max_tokens, so a slow client costs a few bytes per token and never stalls the engine. Shared by
// the engine (writer) and the RPC (reader), whichever lives longer.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/generation.h"

namespace baton {

// How a request ended: sent with its last tokens.
struct StreamEnd {
  absl::Status status;  // Not OK: the request failed and `finish` is kError or kCancelled.
  FinishReason finish = FinishReason::kNone;
  uint32_t prompt_tokens = 0;
  uint32_t completion_tokens = 0;
  double queue_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
};

class TokenChannel {
 public:
  // `on_ready` runs on the writer's thread when tokens or the end arrive after a Take that left
  // nothing; it must be quick and must not call back into the stream.
  TokenChannel(size_t capacity, std::function<void()> on_ready);

  // Writer. More than `capacity` tokens, or any after the end, is a bug of the engine. The last
  // token waits for the end, so that they are read together however quick the reader is.
  void Push(const SampledToken& token, bool last = false);
  void Finish(StreamEnd end);

  struct Batch {
    std::vector<SampledToken> tokens;  // Since the last Take.
    bool ended = false;                // `end` is set; nothing follows.
    StreamEnd end;
  };
  // Reader.
  Batch Take();

 private:
  const size_t capacity_;
  const std::function<void()> on_ready_;
  std::mutex mutex_;  // Guards all below.
  std::vector<SampledToken> tokens_;
  std::optional<SampledToken> last_;
  size_t pushed_count_ = 0;
  bool ended_ = false;
  bool notified_ = false;
  StreamEnd end_;
};

}  // namespace baton
