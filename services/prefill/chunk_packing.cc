#include "services/prefill/chunk_packing.h"

#include <algorithm>
#include <numeric>

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

// In order of arrival, or the shortest first: they save most for what they hold up.
std::vector<size_t> InOrder(absl::Span<const PackCandidate> waiting, bool shortest_first) {
  std::vector<size_t> order(waiting.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (shortest_first) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return waiting[a].stretch.tokens < waiting[b].stretch.tokens;
    });
  }
  return order;
}

// Each one's seconds in a chunk of its own.
std::vector<double> SecondsAlone(absl::Span<const PackCandidate> waiting,
                                 const ChunkSeconds& seconds) {
  std::vector<double> alone;
  for (const PackCandidate& candidate : waiting) {
    alone.push_back(seconds({&candidate.stretch, 1}));
  }
  return alone;
}

// Of those that wait, without the riders so far, beside `index`.
Joining Neighbours(size_t index, const std::vector<bool>& rides, const std::vector<double>& alone) {
  Joining joining{.alone_seconds = alone[index]};
  for (size_t i = 0; i < rides.size(); ++i) {
    if (rides[i] || i == index) continue;
    joining.ahead_count += i < index;
    joining.ahead_seconds += i < index ? alone[i] : 0;
    joining.behind_count += i > index;
  }
  return joining;
}

}  // namespace

std::vector<size_t> ChooseRiders(const PromptStretch& head, absl::Span<const PackCandidate> waiting,
                                 const PackLimits& limits, const ChunkSeconds& seconds) {
  std::vector<PromptStretch> chunk = {head};
  int64_t tokens = head.tokens;
  double now = seconds(chunk);
  const bool known = now > 0;
  const std::vector<double> alone =
      known ? SecondsAlone(waiting, seconds) : std::vector<double>(waiting.size());
  std::vector<bool> rides(waiting.size());
  for (const size_t index : InOrder(waiting, known)) {
    const PromptStretch& stretch = waiting[index].stretch;
    if (static_cast<int>(chunk.size()) >= limits.prompts) break;
    if (!waiting[index].may_ride || tokens + stretch.tokens > limits.tokens) continue;
    chunk.push_back(stretch);
    const double with = known ? seconds(chunk) : 0;
    Joining joining = Neighbours(index, rides, alone);
    joining.delay_seconds = with - now;
    joining.aboard_count = chunk.size() - 1;
    if (known && !Saves(joining)) {
      chunk.pop_back();
      continue;
    }
    rides[index] = true;
    tokens += stretch.tokens;
    now = with;
  }
  std::vector<size_t> riders;
  for (size_t i = 0; i < rides.size(); ++i) {
    if (rides[i]) riders.push_back(i);
  }
  return riders;
}

}  // namespace baton
