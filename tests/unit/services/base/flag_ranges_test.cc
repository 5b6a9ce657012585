#include "services/base/flag_ranges.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(FlagRanges, BothEndsBelongToTheRange) {
  EXPECT_TRUE(CheckFlagRanges({}).ok());
  EXPECT_TRUE(CheckFlagRanges({{"a", 1, 1, 4}, {"b", 4, 1, 4}}).ok());
}

TEST(FlagRanges, NamesTheFirstFlagOutside) {
  const absl::Status status =
      CheckFlagRanges({{"max_rows", 8, 1, 1024}, {"threads", -3, 0, 256}, {"b", 9, 1, 2}});
  EXPECT_EQ(status, absl::InvalidArgumentError("--threads: wanted 0 to 256, found -3"));
  EXPECT_FALSE(CheckFlagRanges({{"a", 5, 1, 4}}).ok());
}

}  // namespace
}  // namespace baton
