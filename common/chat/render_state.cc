#include "common/chat/render_state.h"
#include "common/chat/concat.h"

namespace baton {
namespace {

constexpr int64_t kBytesPerStep = 32;
// What a Value costs in a container, allocations rounded up.
constexpr int64_t kElementBytes = 64;

absl::Status Exhausted(std::string_view what, int64_t limit) {
  return absl::ResourceExhaustedError(
      Concat("the chat template takes more than ", limit, " ", what));
}

}  // namespace

RenderState::~RenderState() {
  for (const auto& release : releases_) release();
}

absl::Status RenderState::ChargeSteps(int64_t count) {
  steps_ += count;
  if (steps_ > limits_.max_steps) return Exhausted("steps", limits_.max_steps);
  return absl::OkStatus();
}

absl::Status RenderState::ChargeBytes(int64_t count) {
  // Compared before adding: `count` may be as large as the type allows.
  if (count > limits_.max_value_bytes - value_bytes_) {
    return Exhausted("bytes of values", limits_.max_value_bytes);
  }
  value_bytes_ += count;
  return ChargeSteps(count / kBytesPerStep);
}

absl::Status RenderState::ChargeElements(int64_t count) {
  if (count > limits_.max_value_bytes) {
    return Exhausted("bytes of values", limits_.max_value_bytes);
  }
  if (absl::Status status = ChargeSteps(count); !status.ok()) return status;
  return ChargeBytes(count * kElementBytes);
}

absl::Status RenderState::ChargeOutput(int64_t bytes) {
  output_bytes_ += bytes;
  if (output_bytes_ > limits_.max_output_bytes) {
    return Exhausted("bytes of output", limits_.max_output_bytes);
  }
  return ChargeSteps(bytes / kBytesPerStep);
}

absl::Status RenderState::Enter() {
  if (++depth_ > limits_.max_depth) return Exhausted("nested levels", limits_.max_depth);
  return absl::OkStatus();
}

}  // namespace baton
