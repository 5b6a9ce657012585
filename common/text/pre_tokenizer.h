// Cuts text into the pre-tokens that BPE sees one by one: a chain of Splits, then ByteLevel.
// Immutable.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/text/json_view.h"
#include "common/text/split_stage.h"

namespace baton {

class PreTokenizer {
 public:
  // Reads the `pre_tokenizer` object: ByteLevel, or a Sequence of Splits that ends in ByteLevel.
  static absl::StatusOr<PreTokenizer> Parse(const JsonView& pre_tokenizer);

  // Calls `sink` with the bytes of each pre-token of `text` (valid UTF-8), left to right. Each
  // stage sees each piece of the stage before alone. The views die with the call.
  absl::Status Split(std::string_view text,
                     absl::FunctionRef<void(std::string_view piece)> sink) const;

 private:
  PreTokenizer() = default;
  absl::Status Add(const JsonView& stage, bool is_last, int depth);
  absl::Status AddByteLevel(const JsonView& byte_level, bool is_last);

  std::vector<SplitStage> splits_;
  std::optional<SplitStage> byte_level_split_;  // When ByteLevel's use_regex is true.
  bool add_prefix_space_ = false;
};

}  // namespace baton
