// Translates the regular expressions of tokenizer.json, which Hugging Face runs through Oniguruma,
// into PCRE2 patterns that match the same text. Pure; used at load only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

// A look-ahead `(?=(?:D{n})*\b)`: only whole groups of n digits follow, then a word boundary. Run
// by the engine it costs the rest of the digit run at every digit, so the pattern asks a callout
// instead, which answers from a table of the run (see Regex).
struct DigitGroupLookahead {
  std::string digit;  // PCRE2 pattern of one D.
  int group_size = 0;
};

struct SplitPattern {
  std::string pcre2;                            // For PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE.
  std::vector<DigitGroupLookahead> lookaheads;  // [i] is asked for by callout i.
};

// PCRE2 pattern of Oniguruma's \b (its word characters differ from PCRE2's).
std::string WordBoundaryPattern();

// PCRE2 class of the Rust `regex` crate's \w, which decides an added token's single_word.
std::string RustWordPattern();

// The pattern that matches `text` itself.
std::string EscapeLiteral(std::string_view text);

// InvalidArgument for what is outside the subset: back references, conditionals, inline flags other
// than (?i:...), nested or intersected classes, \P in a class, unknown properties, and unbounded
// repetition inside a look-around (which would make splitting quadratic).
absl::StatusOr<SplitPattern> TranslateSplitPattern(std::string_view oniguruma);

}  // namespace baton
