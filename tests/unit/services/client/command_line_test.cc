#include "services/client/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

CommandSpec Spec() {
  return {.name = "test",
          .summary = "tests",
          .operands = "[WORD]",
          .flags = {{"max-tokens", "N", "7", "how many"}, {"json", "", "false", "as JSON"}}};
}

TEST(CommandLineTest, TakesValuesSwitchesAndOperands) {
  const auto line = CommandLine::Parse(Spec(), {"--max-tokens=3", "a", "--json", "--", "--b"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(*line->integer("max-tokens", 0, 10), 3);
  EXPECT_TRUE(line->on("json"));
  EXPECT_THAT(line->operands(), ElementsAre("a", "--b"));
}

TEST(CommandLineTest, AcceptsUnderscoresAndSeparateValues) {
  const auto line = CommandLine::Parse(Spec(), {"--max_tokens", "4"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(*line->integer("max-tokens", 0, 10), 4);
  EXPECT_TRUE(line->given("max-tokens"));
}

TEST(CommandLineTest, DefaultsStandUntilGiven) {
  const auto line = CommandLine::Parse(Spec(), {});
  EXPECT_EQ(line->text("max-tokens"), "7");
  EXPECT_FALSE(line->given("max-tokens"));
  EXPECT_FALSE(line->on("json"));
}

TEST(CommandLineTest, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(CommandLine::Parse(Spec(), {"--max-toknes=3"}).status().message(),
              HasSubstr("did you mean --max-tokens?"));
  EXPECT_THAT(CommandLine::Parse(Spec(), {"--zzz"}).status().message(), HasSubstr("--help"));
  EXPECT_THAT(CommandLine::Parse(Spec(), {"--max-tokens"}).status().message(),
              HasSubstr("wants a N"));
  EXPECT_FALSE(CommandLine::Parse(Spec(), {"--json=false"})->on("json"));
  for (const char* wrong : {"--json=maybe", "--json=1", "--json="}) {
    EXPECT_THAT(CommandLine::Parse(Spec(), {wrong}).status().message(),
                HasSubstr("--json: wanted true, false or nothing"));
  }
  CommandSpec spec = Spec();
  spec.operands = "";
  EXPECT_THAT(CommandLine::Parse(spec, {"stray"}).status().message(), HasSubstr("\"stray\""));
}

TEST(CommandLineTest, NumbersAreChecked) {
  const auto line = CommandLine::Parse(Spec(), {"--max-tokens=11"});
  EXPECT_THAT(line->integer("max-tokens", 0, 10).status().message(),
              HasSubstr("wanted an integer from 0 to 10, found \"11\""));
  EXPECT_FALSE(CommandLine::Parse(Spec(), {"--max-tokens=x"})->unsigned_integer("max-tokens").ok());
  EXPECT_FALSE(CommandLine::Parse(Spec(), {"--max-tokens=nan"})->number("max-tokens", 0, 1).ok());
}

TEST(CommandLineTest, HelpListsEveryFlag) {
  EXPECT_TRUE(CommandLine::Parse(Spec(), {"--help"})->help());
  const std::string help = HelpText(Spec());
  EXPECT_THAT(help, HasSubstr("--max-tokens=N"));
  EXPECT_THAT(help, HasSubstr("(default 7)"));
  EXPECT_THAT(help, HasSubstr("--json "));
}

}  // namespace
}  // namespace baton
