#include "services/router/model_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ModelFactsTest, NorthNano) {
  const auto facts = LoadModelFacts(std::string(BATON_SOURCE_DIR) + "/deploy/models/north-nano");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->model_type, "cohere2_moe");
  EXPECT_EQ(facts->vocab_size, 4096u);
  EXPECT_EQ(facts->max_positions, 4096u);
  EXPECT_THAT(facts->eos_ids, ElementsAre(5, 3));
}

TEST(ModelFactsTest, EosIdsAreOneAListOrNone) {
  const std::string head = R"({"vocab_size": 9, "max_position_embeddings": 8, "eos_token_id": )";
  EXPECT_THAT(ParseModelFacts(head + "4}", "")->eos_ids, ElementsAre(4));
  EXPECT_THAT(ParseModelFacts(head + "[4, 5, 4]}", R"({"eos_token_id": 5})")->eos_ids,
              ElementsAre(5, 4));
  EXPECT_THAT(ParseModelFacts(head + "null}", "{}")->eos_ids, ElementsAre());
  EXPECT_THAT(ParseModelFacts(head + "[9, -1, 8]}", R"({"eos_token_id": 255001})")->eos_ids,
              ElementsAre(8));
  EXPECT_THAT(ParseModelFacts(head + "8.5}", "").status().message(),
              HasSubstr("eos_token_id: wanted ids, found 8.5"));
}

TEST(ModelFactsTest, ErrorsNameFileAndKey) {
  EXPECT_THAT(ParseModelFacts("[]", "").status().message(), HasSubstr("config.json"));
  EXPECT_THAT(ParseModelFacts("{}", "").status().message(), HasSubstr("vocab_size"));
  EXPECT_THAT(ParseModelFacts(R"({"vocab_size": -1})", "").status().message(), HasSubstr("-1"));
  EXPECT_THAT(ParseModelFacts(std::string(200, '['), "").status().message(),
              HasSubstr("config.json: wanted JSON of at most 100 levels"));
  EXPECT_TRUE(absl::IsNotFound(LoadModelFacts("/nowhere").status()));
}

}  // namespace
}  // namespace baton
