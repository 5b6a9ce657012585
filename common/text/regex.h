// One compiled Split pattern. Immutable after Compile; any number of threads may search at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct pcre2_real_code_8;

namespace baton {

struct RegexMatch {
  size_t begin = 0;  // Bytes into the subject.
  size_t end = 0;
};

class Regex {
 public:
  // Compiles a pattern in Oniguruma's syntax (the subset of TranslateSplitPattern).
  static absl::StatusOr<std::unique_ptr<Regex>> Compile(std::string_view oniguruma);
  // Compiles a pattern that is already in PCRE2's syntax.
  static absl::StatusOr<std::unique_ptr<Regex>> CompilePcre2(const std::string& pattern);

  // Appends all successive matches in `subject` (valid UTF-8), left to right. An empty match right
  // after the previous match is passed over. ResourceExhausted when one match takes more
  // backtracking than allowed.
  absl::Status FindAll(std::string_view subject, std::vector<RegexMatch>& matches) const;

  // Does a match start exactly at `offset`? The text before `offset` is visible to look-behinds.
  absl::StatusOr<bool> MatchesAt(std::string_view subject, size_t offset) const;

 private:
  friend class RegexSearch;
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  // A callout's look-ahead: whole groups of digits, then a word boundary.
  struct DigitGroups {
    std::unique_ptr<Regex> digit;
    int group_size = 0;
  };

  Regex() = default;

  std::string pattern_;  // As given, for messages.
  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
  std::vector<DigitGroups> digit_groups_;  // By callout number.
  std::unique_ptr<Regex> word_boundary_;   // Set when there are digit groups.
};

}  // namespace baton
