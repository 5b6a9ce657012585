#include "services/prefill/chunk_packing.h"

namespace baton {
namespace {

// What one more prompt in a chunk changes.
struct Joining {
  double delay_seconds = 0;  // The chunk takes so much longer.
  double alone_seconds = 0;  // It would take in a chunk of its own.
  size_t aboard_count = 0;   // In the chunk by now.
  size_t ahead_count = 0;    // Wait before it.
  double ahead_seconds = 0;  // Theirs, in chunks of their own.
  size_t behind_count = 0;   // Wait after it.
};

// Of the sum of waiting times.
bool Saves(const Joining& joining) {
  const double held_up =
      joining.delay_seconds * static_cast<double>(joining.aboard_count + joining.ahead_count);
  const double gain = joining.alone_seconds - joining.delay_seconds;
  return gain * static_cast<double>(1 + joining.behind_count) + joining.ahead_seconds >= held_up;
}

}  // namespace

std::vector<size_t> ChooseRiders(const PromptStretch& head, absl::Span<const PackCandidate> waiting,
                                 const PackLimits& limits, const ChunkSeconds& seconds) {
  std::vector<size_t> riders;
  std::vector<PromptStretch> chunk = {head};
  int64_t tokens = head.tokens;
  double now = seconds(chunk);
  const bool known = now > 0;
  Joining joining;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (static_cast<int>(chunk.size()) >= limits.prompts || tokens >= limits.tokens) break;
    const PromptStretch& stretch = waiting[i].stretch;
    joining.alone_seconds = known ? seconds({&stretch, 1}) : 0;
    if (waiting[i].may_ride && tokens + stretch.tokens <= limits.tokens) {
      chunk.push_back(stretch);
      const double with = known ? seconds(chunk) : 0;
      joining.delay_seconds = with - now;
      joining.aboard_count = chunk.size() - 1;
      joining.behind_count = waiting.size() - i - 1;
      if (!known || Saves(joining)) {
        riders.push_back(i);
        tokens += stretch.tokens;
        now = with;
        continue;
      }
      chunk.pop_back();
    }
    ++joining.ahead_count;
    joining.ahead_seconds += joining.alone_seconds;
  }
  return riders;
}

}  // namespace baton
