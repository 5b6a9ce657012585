#include "common/chat/value_dict.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ValueDictTest, KeepsTheOrderAndTheFirstKey) {
  ValueDict dict;
  EXPECT_TRUE(dict.Set(Value::Int(1), Value::String("a")));
  EXPECT_TRUE(dict.Set(Value::String("x"), Value::String("b")));
  EXPECT_TRUE(dict.Set(Value::Bool(true), Value::String("c")));
  ASSERT_EQ(dict.size(), 2u);
  EXPECT_TRUE(dict.entries()[0].first.is_int());
  EXPECT_EQ(dict.Find(Value::Float(1.0))->text(), "c");
  EXPECT_EQ(dict.Find("x")->text(), "b");
}

TEST(ValueDictTest, RefusesKeysWithoutHash) {
  ValueDict dict;
  EXPECT_FALSE(dict.Set(Value::List({}), Value::None()));
  EXPECT_FALSE(dict.Set(Value::Tuple({Value::List({})}), Value::None()));
  EXPECT_TRUE(dict.Set(Value::Tuple({Value::Int(1), Value::String("a")}), Value::None()));
  EXPECT_NE(dict.Find(Value::Tuple({Value::Int(1), Value::String("a")})), nullptr);
  EXPECT_EQ(dict.Find(Value::Tuple({Value::Int(1)})), nullptr);
}

}  // namespace
}  // namespace baton
