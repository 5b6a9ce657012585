#include "common/chat/argument_binder.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ArgumentBinderTest, BindsByPositionAndByName) {
  const CallArguments arguments{{Value::Int(1)}, {{"c", Value::Int(3)}}};
  const auto bound = BindArguments("f", {"a", "b", "c"}, 1, arguments);
  ASSERT_TRUE(bound.ok());
  EXPECT_TRUE((*bound)[0]->AsInt() == 1);
  EXPECT_FALSE((*bound)[1].has_value());
  EXPECT_TRUE((*bound)[2]->AsInt() == 3);
}

TEST(ArgumentBinderTest, RefusesWhatDoesNotFit) {
  const Value one = Value::Int(1);
  EXPECT_FALSE(BindArguments("f", {"a"}, 0, {{one, one}, {}}).ok());
  EXPECT_FALSE(BindArguments("f", {"a"}, 0, {{}, {{"b", one}}}).ok());
  EXPECT_FALSE(BindArguments("f", {"a"}, 0, {{one}, {{"a", one}}}).ok());
  EXPECT_FALSE(BindArguments("f", {"a"}, 1, {{}, {}}).ok());
  EXPECT_FALSE(BindArguments("f", {"/a"}, 0, {{}, {{"a", one}}}).ok());
}

TEST(ArgumentBinderTest, ChecksTypes) {
  EXPECT_FALSE(IntArgument(Value::String("x"), 0).ok());
  EXPECT_TRUE(*IntArgument(std::nullopt, 7) == 7);
  EXPECT_FALSE(TextArgument(Value::Int(1)).ok());
  EXPECT_FALSE(TextArgument(Value::None())->has_value());
}

}  // namespace
}  // namespace baton
