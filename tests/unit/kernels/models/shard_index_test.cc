#include "kernels/models/shard_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ShardIndex, ListsEachFileOnceAndEachTensor) {
  const auto index = ParseShardIndex(
      R"({"metadata": {"total_size": 8},
          "weight_map": {"c": "2.safetensors", "a": "1.safetensors", "b": "2.safetensors"}})",
      "i.json");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_THAT(index->files, ElementsAre("1.safetensors", "2.safetensors"));
  EXPECT_EQ(index->file_of.size(), 3u);
  EXPECT_EQ(index->file_of.at("a"), 0);
  EXPECT_EQ(index->file_of.at("c"), 1);
}

TEST(ShardIndex, RefusesEachMalformedIndex) {
  const struct {
    std::string text;
    const char* error;
  } cases[] = {
      {"", "not a JSON object"},
      {"[]", "not a JSON object"},
      {"{}", "\"weight_map\""},
      {R"({"weight_map": []})", "\"weight_map\""},
      {R"({"weight_map": {}})", "\"weight_map\""},
      {R"({"weight_map": {"a": 1}})", "tensor \"a\""},
      {R"({"weight_map": {"a": null}})", "tensor \"a\""},
      {R"({"weight_map": {"a": ""}})", "tensor \"a\""},
      {R"({"weight_map": {"a": "1.bin"}})", "found \"1.bin\""},
      {R"({"weight_map": {"a": "../1.safetensors"}})", "found \"../1.safetensors\""},
      {R"({"weight_map": {"a": "/1.safetensors"}})", "found \"/1.safetensors\""},
      {R"({"weight_map": {"a": "1.safetensors", "a": "2.safetensors"}})", "\"a\" is there twice"},
      {"{\"weight_map\": {\"a\": \"" + std::string(300, 'x') + ".safetensors\"}}", "tensor \"a\""},
  };
  for (const auto& test_case : cases) {
    const auto index = ParseShardIndex(test_case.text, "i.json");
    ASSERT_FALSE(index.ok()) << test_case.text;
    EXPECT_THAT(std::string(index.status().message()),
                AllOf(HasSubstr("i.json"), HasSubstr(test_case.error)))
        << test_case.text;
  }
}

}  // namespace
}  // namespace baton
