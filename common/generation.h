// What a client may ask of generation and what comes back: the domain twins of the messages in
// proto/. Plain values; no thread owns them.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace baton {

using TokenId = int32_t;

// Of requests: lower ones are greedy. Neighbouring float32 logits are further apart than noise
// there, so that the highest is drawn anyway, until quotients overflow.
inline constexpr float kLeastTemperature = 1e-12f;

// How tokens are chosen from logits.
struct SamplingParams {
  // 0 is greedy (ties go to the lowest id). Above 0: Gumbel-max over logits / temperature, which
  // draws from softmax(logits / temperature). Range [0, 100].
  float temperature = 0.0f;
  // Key of the counter-based generator (Philox4x32-10, counter = {token id / 4, position, 0, 0},
  // lane = token id % 4), so that a draw depends on the seed, the position and the token id alone,
  // never on the batch.
  uint64_t seed = 0;
};

enum class FinishReason : uint8_t { kNone = 0, kStop, kLength, kCancelled, kError };

// One sampled token. `logprob` is the natural-log probability under softmax(logits), before
// temperature.
struct SampledToken {
  TokenId token = -1;
  float logprob = 0.0f;

  // False: the logits were not finite, and `token` is none.
  bool valid() const { return token >= 0 && std::isfinite(logprob); }
};

}  // namespace baton
