#include "common/text/utf8.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

std::string Lossy(std::string_view bytes) {
  std::string out;
  EXPECT_EQ(AppendUtf8Lossy(bytes, /*at_end=*/true, out), bytes.size());
  return out;
}

TEST(Utf8Test, EveryCodePointSurvives) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(c, text);
    ASSERT_EQ(FindInvalidUtf8(text), std::string_view::npos);
    size_t offset = 0;
    ASSERT_TRUE(NextCodePoint(text, offset) == c);
    ASSERT_EQ(offset, text.size());
    ASSERT_EQ(PreviousCodePointStart("x" + text, text.size() + 1), 1u);
  }
}

TEST(Utf8Test, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8("abc\x80"), 3u);
  EXPECT_EQ(FindInvalidUtf8("\xC0\xAF"), 0u);          // Overlong.
  EXPECT_EQ(FindInvalidUtf8("a\xE0\x80\x80"), 1u);     // Overlong.
  EXPECT_EQ(FindInvalidUtf8("\xED\xA0\x80"), 0u);      // Surrogate.
  EXPECT_EQ(FindInvalidUtf8("\xF4\x90\x80\x80"), 0u);  // Above U+10FFFF.
  EXPECT_EQ(FindInvalidUtf8("\xC3\xA9\xE2\x82"), 2u);  // Cut off.
  EXPECT_EQ(FindInvalidUtf8(std::string_view("\0z", 2)), std::string_view::npos);
}

// Wanted values as Rust's String::from_utf8_lossy documents them.
TEST(Utf8Test, ReplacesEachMaximalIllFormedPartOnce) {
  EXPECT_EQ(Lossy("a\xF0\x90\x80z"), "a\uFFFDz");
  EXPECT_EQ(Lossy("\xF0\x80\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(Lossy("\xE2\x82"), "\uFFFD");
  EXPECT_EQ(Lossy("\xE2\xE2\x82\xAC"), "\uFFFD\u20AC");
}

TEST(Utf8Test, KeepsATailThatMoreBytesCouldComplete) {
  std::string out;
  EXPECT_EQ(AppendUtf8Lossy("a\xE2\x82", /*at_end=*/false, out), 1u);
  EXPECT_EQ(out, "a");
  out.clear();
  EXPECT_EQ(AppendUtf8Lossy("\xE2\x28", /*at_end=*/false, out), 2u);
  EXPECT_EQ(out, "\uFFFD(");
}

TEST(Utf8Test, WhiteSpaceIsTheUnicodeProperty) {
  int count = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) count += IsWhiteSpace(c);
  EXPECT_EQ(count, 25);
  EXPECT_FALSE(IsWhiteSpace(0x180E));
  EXPECT_FALSE(IsWhiteSpace(0x200B));
}

}  // namespace
}  // namespace baton
