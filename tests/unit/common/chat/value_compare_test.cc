#include "common/chat/value_compare.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(ValueCompareTest, ComparesAcrossNumberTypes) {
  EXPECT_EQ(Print("[1 == 1.0, 1 == true, '1' == 1, [1] == [1.0], (1,) == [1], none == false]"),
            "[True, True, False, True, False, False]");
  EXPECT_EQ(Print("{'a': 1, 'b': 2} == {'b': 2, 'a': 1}"), "True");
}

TEST(ValueCompareTest, OrdersWhatPythonOrders) {
  EXPECT_EQ(Print("['a' < 'b', 'é' > 'z', [1, 2] < [1, 3], 1 < 1.5, true < 2]"),
            "[True, True, True, True, True]");
  EXPECT_NE(Print("1 < 'a'").find("no order"), std::string::npos);
  EXPECT_NE(Print("none < none").find("no order"), std::string::npos);
}

TEST(ValueCompareTest, FindsMembers) {
  EXPECT_EQ(Print("['a' in 'cab', 1 in [1.0], 'k' in {'k': 1}, 3 not in range(3), 'x' in y]"),
            "[True, True, True, True, False]");
  EXPECT_NE(Print("1 in 'a'").find("INVALID_ARGUMENT"), std::string::npos);
  EXPECT_NE(Print("1 in 5").find("INVALID_ARGUMENT"), std::string::npos);
}

}  // namespace
}  // namespace baton
