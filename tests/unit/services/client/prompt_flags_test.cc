#include "services/client/prompt_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fixtures/temporary_directory.h"

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
  EXPECT_FALSE(Apply({"--request-id=\xff"}, &request).ok());
}

TEST(PromptFlagsTest, ATimeoutIsNeverRoundedToNone) {
  const auto timeout = [](const std::string& text) {
    const CommandSpec spec{.name = "test", .flags = ConnectionFlags()};
    return ReadConnection(*CommandLine::Parse(spec, {"--timeout=" + text}));
  };
  EXPECT_EQ(timeout("1.5")->timeout.count(), 1500);
  EXPECT_EQ(timeout("0")->timeout.count(), 0);
  EXPECT_EQ(timeout("0.0001")->timeout.count(), 1);
  EXPECT_FALSE(timeout("-1").ok());
  EXPECT_FALSE(timeout("soon").ok());
}

TEST(PromptFlagsTest, ARouterIsAHostAndAPort) {
  const CommandSpec spec{.name = "test", .flags = ConnectionFlags()};
  EXPECT_EQ(ReadConnection(*CommandLine::Parse(spec, {"--router=h:1"}))->address, "h:1");
  for (const char* wrong : {"--router=", "--router=localhost"}) {
    EXPECT_THAT(std::string(ReadConnection(*CommandLine::Parse(spec, {wrong})).status().message()),
                testing::HasSubstr("--router: wanted host:port"));
  }
}

TEST(PromptFlagsTest, SaysWhereATextIsNotUtf8) {
  EXPECT_TRUE(CheckUtf8("--prompt", "h\xc3\xa9").ok());
  EXPECT_EQ(CheckUtf8("--prompt", "h\xc3\xa9\xff").message(),
            "--prompt: wanted UTF-8, found an ill-formed byte at offset 3");
}

TEST(PromptFlagsTest, ReadsFilesAndNamesMissingOnes) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("text");
  WriteFileBytes(path, "line\n");
  EXPECT_EQ(*ReadTextFile(path), "line\n");
  WriteFileBytes(path, "");
  EXPECT_EQ(*ReadTextFile(path), "");
  EXPECT_EQ(ReadTextFile(directory.path()).status().message(), "cannot read " + directory.path());
  EXPECT_THAT(std::string(ReadTextFile("/nowhere").status().message()),
              testing::HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace baton
