#include "common/text/digit_group_table.h"

#include "common/check.h"
#include "common/text/utf8.h"

namespace baton {

absl::StatusOr<bool> DigitGroupTable::Holds(size_t offset, Question is_digit,
                                            Question is_boundary) {
  if (known_.empty()) known_.assign(text_.size() + 1, kUnknown);
  size_t end = offset;
  while (end < text_.size() && known_[end] == kUnknown) {
    ++question_count_;
    BATON_ASSIGN_OR_RETURN(const bool digit, is_digit(end));
    if (!digit) break;
    NextCodePoint(text_, end);
  }
  if (known_[end] == kUnknown) {
    ++question_count_;
    BATON_ASSIGN_OR_RETURN(const bool boundary, is_boundary(end));
    known_[end] = boundary ? int8_t{0} : int8_t{kNoBoundary};
  }
  while (end > offset) {
    const int8_t after = known_[end];
    end = PreviousCodePointStart(text_, end);
    known_[end] = after == kNoBoundary ? after : static_cast<int8_t>((after + 1) % group_size_);
  }
  return known_[offset] == 0;
}

}  // namespace baton
