#include "common/chat/methods.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(StringMethodsTest, StripSplitAndJoin) {
  EXPECT_EQ(Print("' x '.strip() ~ 'xxa'.lstrip('x') ~ 'a\\n'.rstrip('\\n')"), "xaa");
  EXPECT_EQ(Print("'a,b,c'.split(',', 1) ~ 'a b'.split() ~ 'a,b'.rsplit(',')"),
            "['a', 'b,c']['a', 'b']['a', 'b']");
  EXPECT_EQ(Print("'-'.join(['a', 'b'])"), "a-b");
  EXPECT_NE(Print("'-'.join([1])").find("INVALID_ARGUMENT"), std::string::npos);
  EXPECT_NE(Print("'a'.split('')").find("INVALID_ARGUMENT"), std::string::npos);
}

TEST(StringMethodsTest, CountCodePoints) {
  EXPECT_EQ(
      Print("'é🙂x'.find('x') ~ 'ééé'.rfind('é') ~ 'éé'.find('é', 1) ~ 'a'.find('z')"),
      "221-1");
  EXPECT_EQ(Print("'é'.center(3, '*') ~ 'é'.rjust(2) ~ '-5'.zfill(4)"), "*é* é-005");
}

TEST(StringMethodsTest, TestAffixes) {
  EXPECT_EQ(Print("'abc'.startswith('ab') ~ 'abc'.endswith(('x', 'c')) ~ 'abc'.startswith('b', 1)"),
            "TrueTrueTrue");
  EXPECT_EQ(Print("'abc'.removeprefix('a') ~ 'abc'.removesuffix('c')"), "bcab");
}

TEST(StringMethodsTest, ReplaceAndPartition) {
  EXPECT_EQ(Print("'aaa'.replace('a', 'b', 2) ~ 'a-b'.partition('-')"), "bba('a', '-', 'b')");
}

}  // namespace
}  // namespace baton
