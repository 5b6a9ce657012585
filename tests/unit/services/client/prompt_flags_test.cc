#include "services/client/prompt_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

namespace baton {
namespace {

using testing::ElementsAre;

absl::Status Apply(std::vector<std::string> arguments, v1::GenerateRequest* request) {
  const CommandSpec spec{.name = "test", .flags = SamplingFlags()};
  return ApplySampling(*CommandLine::Parse(spec, arguments), request);
}

TEST(PromptFlagsTest, SamplingFlagsReachTheRequest) {
  v1::GenerateRequest request;
  ASSERT_TRUE(Apply({"--max-tokens=5", "--temperature=0.5", "--seed=18446744073709551615",
                     "--stop-ids=1,2", "--ignore-eos", "--request-id=r"},
                    &request)
                  .ok());
  EXPECT_EQ(request.sampling().max_tokens(), 5u);
  EXPECT_EQ(request.sampling().temperature(), 0.5f);
  EXPECT_EQ(request.sampling().seed(), UINT64_MAX);
  EXPECT_THAT(request.sampling().stop_token_ids(), ElementsAre(1, 2));
  EXPECT_TRUE(request.sampling().ignore_eos());
  EXPECT_EQ(request.request_id(), "r");
}

TEST(PromptFlagsTest, AnUnsetSeedStaysUnset) {
  v1::GenerateRequest request;
  ASSERT_TRUE(Apply({}, &request).ok());
  EXPECT_FALSE(request.sampling().has_seed());
}

TEST(PromptFlagsTest, BadValuesAreRefused) {
  v1::GenerateRequest request;
  EXPECT_FALSE(Apply({"--temperature=101"}, &request).ok());
  EXPECT_FALSE(Apply({"--max-tokens=-1"}, &request).ok());
  EXPECT_FALSE(Apply({"--seed=-1"}, &request).ok());
  EXPECT_FALSE(Apply({"--stop-ids=1,x"}, &request).ok());
}

TEST(PromptFlagsTest, ATimeoutIsNeverRoundedToNone) {
  const auto timeout = [](const std::string& text) {
    const CommandSpec spec{.name = "test", .flags = ConnectionFlags()};
    return ReadTimeout(*CommandLine::Parse(spec, {"--timeout=" + text}));
  };
  EXPECT_EQ(timeout("1.5")->count(), 1500);
  EXPECT_EQ(timeout("0")->count(), 0);
  EXPECT_EQ(timeout("0.0001")->count(), 1);
  EXPECT_FALSE(timeout("-1").ok());
  EXPECT_FALSE(timeout("soon").ok());
}

TEST(PromptFlagsTest, SaysWhereATextIsNotUtf8) {
  EXPECT_TRUE(CheckUtf8("--prompt", "h\xc3\xa9").ok());
  EXPECT_EQ(CheckUtf8("--prompt", "h\xc3\xa9\xff").message(),
            "--prompt: wanted UTF-8, found an ill-formed byte at offset 3");
}

TEST(PromptFlagsTest, ReadsFilesAndNamesMissingOnes) {
  const std::string path = testing::TempDir() + "/prompt_flags_test.txt";
  std::FILE* file = std::fopen(path.c_str(), "w");
  std::fputs("line\n", file);
  std::fclose(file);
  EXPECT_EQ(*ReadTextFile(path), "line\n");
  EXPECT_THAT(std::string(ReadTextFile("/nowhere").status().message()),
              testing::HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace baton
