// One Split of the pre-tokenizer: a pattern and what becomes of its matches. Immutable.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/text/json_view.h"
#include "common/text/regex.h"

namespace baton {

// The five behaviours of the `tokenizers` package's SplitDelimiterBehavior.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

class SplitStage {
 public:
  // Reads a `{"type": "Split", ...}` object.
  static absl::StatusOr<SplitStage> Parse(const JsonView& split);
  // The GPT-2 split that ByteLevel makes when its use_regex is true.
  static absl::StatusOr<SplitStage> Gpt2();

  // Splits `piece` (not empty, valid UTF-8) seen alone and appends the parts, none of them empty,
  // as views into it.
  absl::Status Apply(std::string_view piece, std::vector<std::string_view>& parts) const;

 private:
  SplitStage(std::unique_ptr<Regex> regex, SplitBehavior behavior, bool invert)
      : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

  std::unique_ptr<Regex> regex_;
  SplitBehavior behavior_;
  bool invert_;  // What does not match is the delimiter.
};

}  // namespace baton
