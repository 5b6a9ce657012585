#include "common/chat/filters.h"

#include <gtest/gtest.h>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(FiltersTest, AreFoundByName) {
  EXPECT_NE(FindFilter("tojson"), nullptr);
  EXPECT_NE(FindFilter("selectattr"), nullptr);
  EXPECT_EQ(FindFilter("urlize"), nullptr);
}

TEST(FiltersTest, BindTheirArguments) {
  RenderState state{ChatTemplateLimits()};
  const auto text = ApplyFilter(state, "default", Value(), {{Value::String("d")}, {}});
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->text(), "d");
  EXPECT_FALSE(ApplyFilter(state, "upper", Value(), {{Value::Int(1)}, {}}).ok());
  EXPECT_FALSE(ApplyFilter(state, "nope", Value(), {}).ok());
}

TEST(FiltersTest, FollowDottedPaths) {
  EXPECT_EQ(Print("[{'a': {'b': [5, 6]}}] | map(attribute='a.b.1') | list"), "[6]");
}

}  // namespace
}  // namespace baton
