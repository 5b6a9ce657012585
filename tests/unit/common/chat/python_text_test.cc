#include "common/chat/python_text.h"

#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace baton {
namespace {

using Texts = std::vector<std::string>;

TEST(PythonTextTest, SplitsAsPython) {
  EXPECT_EQ(SplitText("a,b,,c", ",", -1), (Texts{"a", "b", "", "c"}));
  EXPECT_EQ(SplitText("a,b,c", ",", 1), (Texts{"a", "b,c"}));
  EXPECT_EQ(SplitTextFromRight("a,b,c", ",", 1), (Texts{"a,b", "c"}));
  EXPECT_EQ(SplitAtSpace(" a  b c ", -1), (Texts{"a", "b", "c"}));
  EXPECT_EQ(SplitAtSpace(" a  b c ", 1), (Texts{"a", "b c "}));
  EXPECT_EQ(SplitAtSpaceFromRight(" a  b c ", 1), (Texts{" a  b", "c"}));
  EXPECT_EQ(SplitLines("a\r\nb\n\nc", false), (Texts{"a", "b", "", "c"}));
  EXPECT_EQ(SplitLines("a\n", true), (Texts{"a\n"}));
}

TEST(PythonTextTest, StripsByCodePoint) {
  EXPECT_EQ(StripText("\u3000 x\u00a0", StripSides::kBoth), "x");
  EXPECT_EQ(StripText("éxé", StripSides::kLeft, "é"), "xé");
  EXPECT_EQ(StripText("éxè", StripSides::kRight, "é"), "éxè");
}

TEST(PythonTextTest, ReplacesAndCounts) {
  EXPECT_EQ(ReplaceText("banana", "an", "o", 1), "boana");
  EXPECT_EQ(ReplaceText("aé", "", "-", -1), "-a-é-");
  EXPECT_EQ(CountText("banana", "an"), 2u);
  EXPECT_EQ(CountText("aé", ""), 3u);
}

TEST(PythonTextTest, ChecksUtf8) {
  EXPECT_TRUE(IsValidUtf8("é🙂"));
  EXPECT_FALSE(IsValidUtf8("\xff"));
  EXPECT_FALSE(IsValidUtf8("\xed\xa0\x80"));
  EXPECT_EQ(EncodeText(DecodeText("é🙂")), "é🙂");
  EXPECT_EQ(ByteOffset("é🙂x", 2), 6u);
}

TEST(PythonTextTest, EscapesHtml) {
  EXPECT_EQ(EscapeHtml("<a & 'b' \"c\">"), "&lt;a &amp; &#39;b&#39; &#34;c&#34;&gt;");
}

}  // namespace
}  // namespace baton
