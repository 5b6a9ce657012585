// The budget of one rendering: steps, bytes, depth; and what must be released at its end. Owned by
// ChatTemplate::Render on its thread; everything that works on values charges it.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/chat/chat_template_limits.h"
#include "common/chat/concat.h"

namespace baton {

// An error of the template or of what it was given, as opposed to a spent budget.
template <typename... Parts>
absl::Status TemplateError(const Parts&... parts) {
  return absl::InvalidArgumentError(Concat(parts...));
}

class RenderState {
 public:
  explicit RenderState(const ChatTemplateLimits& limits) : limits_(limits) {}
  RenderState(const RenderState&) = delete;
  RenderState& operator=(const RenderState&) = delete;
  ~RenderState();

  // ResourceExhausted once the sum passes the limit.
  absl::Status ChargeSteps(int64_t count);
  // Bytes of new values; charges steps too. Call before the allocation.
  absl::Status ChargeBytes(int64_t count);
  // `count` new elements of a container.
  absl::Status ChargeElements(int64_t count);
  absl::Status ChargeOutput(int64_t bytes);

  absl::Status Enter();  // one level deeper; pair with Leave() also after an error
  void Leave() { --depth_; }

  // Namespaces and captured scopes can form cycles: `release` empties one at the end of rendering.
  void AtEnd(std::function<void()> release) { releases_.push_back(std::move(release)); }

  // The line of the innermost construct that failed; 0 before that.
  int error_line() const { return error_line_; }
  void NoteErrorLine(int line) {
    if (error_line_ == 0) error_line_ = line;
  }
  // raise_exception() was called: its message is the template's own and is passed on as it is.
  bool raised() const { return raised_; }
  void NoteRaised() { raised_ = true; }

 private:
  const ChatTemplateLimits limits_;
  int64_t steps_ = 0;
  int64_t value_bytes_ = 0;
  int64_t output_bytes_ = 0;
  int depth_ = 0;
  int error_line_ = 0;
  bool raised_ = false;
  std::vector<std::function<void()>> releases_;
};

// Enter() and Leave() by scope; ask status() first.
class DepthGuard {
 public:
  explicit DepthGuard(RenderState& state) : state_(state), status_(state.Enter()) {}
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  ~DepthGuard() { state_.Leave(); }
  const absl::Status& status() const { return status_; }

 private:
  RenderState& state_;
  absl::Status status_;
};

}  // namespace baton
