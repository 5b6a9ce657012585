#include "common/chat/value.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ValueTest, HasPythonsTruth) {
  EXPECT_FALSE(Value().Truthy());
  EXPECT_FALSE(Value::None().Truthy());
  EXPECT_FALSE(Value::Int(0).Truthy());
  EXPECT_FALSE(Value::String("").Truthy());
  EXPECT_FALSE(Value::List({}).Truthy());
  EXPECT_TRUE(Value::Iterator({}).Truthy());
  EXPECT_TRUE(Value::List({Value()}).Truthy());
}

TEST(ValueTest, CountsCodePoints) {
  EXPECT_EQ(Value::String("é🙂").string().code_point_count, 2u);
}

TEST(ValueTest, KnowsItsDepth) {
  EXPECT_EQ(Value::Int(1).depth(), 0);
  EXPECT_EQ(Value::List({Value::Tuple({Value::Int(1)})}).depth(), 2);
}

TEST(ValueTest, NamesItsType) {
  EXPECT_EQ(Value::None().TypeName(), "NoneType");
  EXPECT_EQ(Value::Tuple({}).TypeName(), "tuple");
  EXPECT_EQ(Value::String("x", true).TypeName(), "Markup");
}

}  // namespace
}  // namespace baton
