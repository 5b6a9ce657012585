#include "common/text/split_pattern.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(SplitPatternTest, DigitGroupLookaheadBecomesACallout) {
  const auto pattern = TranslateSplitPattern("\\d{1,3}(?=(?:\\d{3})*\\b)");
  ASSERT_TRUE(pattern.ok()) << pattern.status();
  EXPECT_TRUE(pattern->pcre2.ends_with("{1,3}(?C0)")) << pattern->pcre2;
  ASSERT_EQ(pattern->lookaheads.size(), 1u);
  EXPECT_EQ(pattern->lookaheads[0].group_size, 3);
}

TEST(SplitPatternTest, RefusesWhatItCannotTranslateFaithfully) {
  for (const char* pattern :
       {"(a",       "a)",        "[a",         "[]",           "[[a]]",  "[a&&b]",     "\\h",
        "\\R",      "\\1",       "(?<n>a)",    "(?i)a",        "(?m:a)", "(*ACCEPT)",  "a{3}+",
        "a{2,1}",   "a{1,2000}", "a{",         "{x}",          "a**",    "\\p{Greek}", "\\p{Cn}",
        "[\\P{L}]", "[\\W]",     "[\\b]",      "\\x{D800}",    "\\xE9",  "\\u12",      "\\p",
        "\\",       "(?=a*)",    "(?!(?:a+))", "(?<=\\d{3,})", "a*?+"}) {
    const auto translated = TranslateSplitPattern(pattern);
    EXPECT_FALSE(translated.ok()) << pattern << " became " << translated->pcre2;
    EXPECT_THAT(std::string(translated.status().message()), testing::HasSubstr("wanted"))
        << pattern;
  }
}

TEST(SplitPatternTest, LiteralsAreEscaped) { EXPECT_EQ(EscapeLiteral("a.b\\Q é"), "a\\.b\\\\Q é"); }

}  // namespace
}  // namespace baton
