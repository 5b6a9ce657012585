#include "common/log.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(LogTest, LinesCarryRoleAndFields) {
  testing::internal::CaptureStderr();
  InitLogging("decode", "info");
  spdlog::info("msg=\"hello\" request_id={}", 7);
  spdlog::debug("hidden");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("level=info role=decode"), std::string::npos) << text;
  EXPECT_NE(text.find("msg=\"hello\" request_id=7"), std::string::npos) << text;
  EXPECT_EQ(text.find("hidden"), std::string::npos) << text;
}

TEST(LogTest, QuotedTextStaysOneFieldOnOneLine) {
  EXPECT_EQ(LogText("plain, \xc3\xa9"), "\"plain, \xc3\xa9\"");
  EXPECT_EQ(LogText("found \"x\""), R"("found \"x\"")");
  EXPECT_EQ(LogText("a\\b\nlevel=error\t\x01\x7f"), R"("a\\b\nlevel=error\t\x01\x7f")");
}

TEST(LogTest, LongTextIsCutBetweenCharacters) {
  const std::string fits(kMaxLogTextBytes, 'x');
  EXPECT_EQ(LogText(fits), "\"" + fits + "\"");
  EXPECT_EQ(LogText(fits + "y"), "\"" + fits + "…\"");
  const std::string before = fits.substr(1);
  EXPECT_EQ(LogText(before + "\xc3\xa9"), "\"" + before + "…\"");
}

TEST(LogTest, UnknownLevelIsSaidAndTreatedAsInfo) {
  testing::internal::CaptureStderr();
  InitLogging("router", "loud");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("found=\"loud\""), std::string::npos);
}

}  // namespace
}  // namespace baton
