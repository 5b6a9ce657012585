#include "common/chat/unicode_case.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(UnicodeCaseTest, MapsFully) {
  EXPECT_EQ(UpperText("straße ŉ ﬁ"), "STRASSE ʼN FI");
  EXPECT_EQ(LowerText("İÀ"), "i̇à");
  EXPECT_EQ(TitleText("ǆabc it's"), "ǅabc It'S");
  EXPECT_EQ(CapitalizeText("éCOLE"), "École");
  EXPECT_EQ(SwapCaseText("aBc"), "AbC");
}

TEST(UnicodeCaseTest, FindsTheFinalSigma) { EXPECT_EQ(LowerText("ΟΔΟΣ ΑΣ. ΣΑ"), "οδος ας. σα"); }

TEST(UnicodeCaseTest, Classifies) {
  EXPECT_TRUE(TextIs(TextClass::kAlpha, "aé"));
  EXPECT_FALSE(TextIs(TextClass::kAlpha, "a1"));
  EXPECT_TRUE(TextIs(TextClass::kDigit, "12"));
  EXPECT_FALSE(TextIs(TextClass::kDigit, ""));
  EXPECT_TRUE(TextIs(TextClass::kSpace, " \n"));
  EXPECT_TRUE(TextIs(TextClass::kUpper, "AB1"));
  EXPECT_FALSE(TextIs(TextClass::kUpper, "1"));
  EXPECT_TRUE(TextIs(TextClass::kTitle, "Ab Cd"));
}

}  // namespace
}  // namespace baton
