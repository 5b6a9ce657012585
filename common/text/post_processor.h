// The post-processor of tokenizer.json, for single texts: the special tokens around them.
// Immutable.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/generation.h"
#include "common/text/json_view.h"

namespace baton {

class PostProcessor {
 public:
  // Reads the `post_processor` value: null, TemplateProcessing, ByteLevel (which moves offsets
  // only) or a Sequence of them. `is_token` says whether an id exists.
  static absl::StatusOr<PostProcessor> Parse(const JsonView& post_processor,
                                             const std::function<bool(TokenId)>& is_token);

  // Special tokens before and after the text.
  const std::vector<TokenId>& prefix() const { return prefix_; }
  const std::vector<TokenId>& suffix() const { return suffix_; }

 private:
  PostProcessor() = default;
  absl::Status Add(const JsonView& processor, const std::function<bool(TokenId)>& is_token,
                   int depth);
  absl::Status AddTemplate(const JsonView& processor, const std::function<bool(TokenId)>& is_token);

  std::vector<TokenId> prefix_;
  std::vector<TokenId> suffix_;
};

}  // namespace baton
