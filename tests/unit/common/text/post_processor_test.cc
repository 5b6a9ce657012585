#include "common/text/post_processor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

nlohmann::json Template() {
  return nlohmann::json::parse(R"({
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "B", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "E", "type_id": 0}}],
    "pair": [],
    "special_tokens": {"B": {"id": "B", "ids": [2], "tokens": ["B"]},
                       "E": {"id": "E", "ids": [3, 4], "tokens": ["E", "F"]}}})");
}

absl::StatusOr<PostProcessor> Parse(const nlohmann::json& json) {
  return PostProcessor::Parse(JsonView(json, "post"), [](TokenId id) { return id < 10; });
}

TEST(PostProcessorTest, TemplatePutsTokensAroundTheText) {
  const auto post = Parse(Template());
  ASSERT_TRUE(post.ok()) << post.status();
  EXPECT_THAT(post->prefix(), ElementsAre(2));
  EXPECT_THAT(post->suffix(), ElementsAre(3, 4));
}

TEST(PostProcessorTest, NullAndByteLevelAddNothing) {
  for (const nlohmann::json& json :
       {nlohmann::json(), nlohmann::json{{"type", "ByteLevel"}, {"trim_offsets", false}}}) {
    const auto post = Parse(json);
    ASSERT_TRUE(post.ok()) << post.status();
    EXPECT_THAT(post->prefix(), IsEmpty());
    EXPECT_THAT(post->suffix(), IsEmpty());
  }
}

TEST(PostProcessorTest, LaterTemplatesOfASequenceWrapEarlierOnes) {
  nlohmann::json outer = Template();
  outer["special_tokens"]["B"]["ids"] = nlohmann::json::array({7});
  const auto post =
      Parse({{"type", "Sequence"}, {"processors", nlohmann::json::array({Template(), outer})}});
  ASSERT_TRUE(post.ok()) << post.status();
  EXPECT_THAT(post->prefix(), ElementsAre(7, 2));
  EXPECT_THAT(post->suffix(), ElementsAre(3, 4, 3, 4));
}

TEST(PostProcessorTest, RefusesWithPathWantedAndFound) {
  const auto refusal = [](const nlohmann::json& json) {
    return std::string(Parse(json).status().message());
  };
  EXPECT_THAT(refusal({{"type", "RobertaProcessing"}}), HasSubstr("post.type: wanted Template"));
  nlohmann::json json = Template();
  json["special_tokens"]["E"]["ids"] = nlohmann::json::array({3, 99});
  EXPECT_THAT(refusal(json), HasSubstr("post.special_tokens.E.ids[1]: wanted the id of a token"));
  json = Template();
  json["single"].push_back(json["single"][1]);
  EXPECT_THAT(refusal(json), HasSubstr("wanted the sequence A once"));
  json["single"] = nlohmann::json::array();
  EXPECT_THAT(refusal(json), HasSubstr("post.single: wanted the sequence A once"));
}

}  // namespace
}  // namespace baton
