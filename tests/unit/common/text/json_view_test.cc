#include "common/text/json_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/common/text/tokenizer_fixture.h"

namespace baton {
namespace {

using testing::HasSubstr;

TEST(JsonViewTest, RefusalsSayPathWantedAndFound) {
  const nlohmann::json json = {{"a", {1, "x", {{"b", true}}}}};
  const JsonView root(json, "file");
  const auto elements = root.Member("a")->Elements();
  ASSERT_TRUE(elements.ok());
  EXPECT_EQ((*elements)[1].AsBool().status().message(),
            "file.a[1]: wanted true or false, found \"x\"");
  EXPECT_EQ((*elements)[2].Member("b")->AsString().status().message(),
            "file.a[2].b: wanted a string, found true");
  EXPECT_EQ(root.AllowKeys({"b"}).message(), "file: wanted only the keys b, found \"a\"");
  EXPECT_EQ((*elements)[0].Member("b").status().message(), "file.a[0]: wanted an object, found 1");
}

TEST(JsonViewTest, AbsentMembersAreNull) {
  const nlohmann::json json = {{"b", nullptr}};
  const JsonView root(json, "file");
  EXPECT_TRUE(root.Member("absent")->is_null());
  EXPECT_TRUE(*root.BoolOr("absent", true));
  EXPECT_TRUE(*root.BoolOr("b", true));
  EXPECT_FALSE(root.StringMember("absent").ok());
}

TEST(JsonViewTest, IntegersOutOfRangeAreRefused) {
  const nlohmann::json json = {0, 7, -1, 8, 18446744073709551615u, 1.0, "1"};
  const auto elements = JsonView(json, "file").Elements();
  int accepted = 0;
  for (const JsonView& element : *elements) accepted += element.AsInteger(0, 7).ok();
  EXPECT_EQ(accepted, 2);
}

TEST(JsonViewTest, LongAndBrokenValuesAreShownShortened) {
  const nlohmann::json json = std::string(100000, 'x') + "\xFF";
  const std::string message(JsonView(json, "file").AsBool().status().message());
  EXPECT_LT(message.size(), 200u);
}

TEST(ReadJsonFileTest, SaysWhatIsWrongWithTheFile) {
  const ModelDir dir;
  dir.Write("bad.json", "{\"a\": [1,}");
  dir.Write("good.json", "[1]");
  EXPECT_EQ(ReadJsonFile(dir.path() + "/none.json", 100).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadJsonFile(dir.path(), 100).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadJsonFile(dir.path() + "/bad.json", 100).status().message()),
              HasSubstr("column 10"));
  EXPECT_THAT(std::string(ReadJsonFile(dir.path() + "/good.json", 2).status().message()),
              HasSubstr("wanted at most 2 bytes, found 3"));
  dir.Write("deep.json", std::string(200, '[') + std::string(200, ']'));
  EXPECT_THAT(std::string(ReadJsonFile(dir.path() + "/deep.json", 1000).status().message()),
              HasSubstr("deep.json: wanted JSON of at most 100 levels"));
  EXPECT_EQ(*ReadJsonFile(dir.path() + "/good.json", 3), nlohmann::json::array({1}));
}

}  // namespace
}  // namespace baton
