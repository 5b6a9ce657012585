// The optional normalizer of tokenizer.json: nothing, or Unicode NFC. Immutable.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/text/json_view.h"

namespace baton {

class Normalizer {
 public:
  // Reads the `normalizer` value: null, NFC, or a Sequence of them.
  static absl::StatusOr<Normalizer> Parse(const JsonView& normalizer);

  bool changes_text() const { return nfc_; }
  // `text` is valid UTF-8; so is the result.
  absl::StatusOr<std::string> Normalize(std::string_view text) const;

 private:
  bool nfc_ = false;
};

}  // namespace baton
