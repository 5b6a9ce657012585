#include "common/text/unicode_additions.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(UnicodeAdditionsTest, NewLettersAreListedUnderTheirCategory) {
  EXPECT_NE(UnicodeAdditions("Lo").find("\\x{31350}-\\x{323af}"), std::string_view::npos);
  EXPECT_NE(UnicodeAdditions("Lu").find("\\x{1c89}"), std::string_view::npos);
  EXPECT_EQ(UnicodeAdditions("Lu").find("\\x{1c8a}"), std::string_view::npos);
}

TEST(UnicodeAdditionsTest, CategoriesWithoutNewsAndUnknownOnesAreEmpty) {
  EXPECT_TRUE(UnicodeAdditions("Lt").empty());
  EXPECT_TRUE(UnicodeAdditions("Xx").empty());
}

}  // namespace
}  // namespace baton
