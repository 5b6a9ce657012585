#include "services/base/incarnation.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(IncarnationTest, Is32HexDigitsAndNew) {
  const std::string first = MakeIncarnation();
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(first.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(first, MakeIncarnation());
}

}  // namespace
}  // namespace baton
