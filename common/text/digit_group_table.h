// Answers the look-ahead `(?=(?:D{n})*\b)` for every position of one text in linear time: a run of
// digits is walked once and all its positions are answered together. Lives for one search.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace baton {

class DigitGroupTable {
 public:
  using Question = absl::FunctionRef<absl::StatusOr<bool>(size_t offset)>;

  // `text` is valid UTF-8 and must outlive the table. 2 <= group_size <= 9.
  DigitGroupTable(std::string_view text, int group_size) : text_(text), group_size_(group_size) {}

  // Does the text from `offset` hold whole groups of digits and then a word boundary? A digit must
  // be a word character, so that no boundary lies inside a run. `is_digit` and `is_boundary` are
  // asked once a position at most over the table's life.
  absl::StatusOr<bool> Holds(size_t offset, Question is_digit, Question is_boundary);

  // Questions asked so far.
  int64_t question_count() const { return question_count_; }

 private:
  // What is known of a position: nothing, no boundary ends its run, or the number of digits from it
  // to the end of the run modulo group_size.
  enum : int8_t { kUnknown = -2, kNoBoundary = -1 };

  std::string_view text_;
  int group_size_;
  std::vector<int8_t> known_;  // [text bytes + 1], allocated at the first question.
  int64_t question_count_ = 0;
};

}  // namespace baton
