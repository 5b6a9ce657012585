#include "common/chat/methods.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(MethodsTest, FindsWhatTheTypeHas) {
  EXPECT_TRUE(FindMethod(Value::String("x"), "upper")->has_value());
  EXPECT_FALSE(FindMethod(Value::String("x"), "items")->has_value());
  EXPECT_FALSE(FindMethod(Value::None(), "upper")->has_value());
}

TEST(MethodsTest, WithholdsWhatChangesItsObject) {
  const auto append = FindMethod(Value::List({}), "append");
  ASSERT_TRUE(append.ok() && append->has_value());
  EXPECT_TRUE((*append)->is_undefined());
  EXPECT_NE(Print("[].append(1)").find("changes its object"), std::string::npos);
  EXPECT_EQ(Print("[].append"), "");
}

TEST(MethodsTest, SaysWhichItLacks) {
  EXPECT_EQ(FindMethod(Value::String("x"), "encode").status().code(),
            absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(IsUnsupportedMethod("encode"));
  EXPECT_FALSE(IsUnsupportedMethod("upper"));
}

}  // namespace
}  // namespace baton
