#include "common/chat/namespace_object.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(NamespaceObjectTest, KeepsWhatLoopsSet) {
  EXPECT_EQ(RenderText("{% set n = namespace(x=0) %}{% for i in range(4) %}{% set n.x = n.x + i %}"
                       "{% endfor %}{{ n.x }}{{ n }}"),
            "6<Namespace {'x': 6}>");
}

TEST(NamespaceObjectTest, MayHoldItself) {
  EXPECT_EQ(RenderText("{% set n = namespace() %}{% set n.me = n %}{{ n.me.me.me is defined }}"),
            "True");
  EXPECT_NE(RenderText("{% set n = namespace() %}{% set n.me = n %}{{ n }}").find("EXHAUSTED"),
            std::string::npos);
}

TEST(NamespaceObjectTest, LongChainsAreReleased) {
  EXPECT_EQ(RenderText("{% set n = namespace(x=none) %}{% for i in range(50000) %}"
                       "{% set m = namespace(x=n.x) %}{% set n.x = m %}{% endfor %}ok"),
            "ok");
}

TEST(NamespaceObjectTest, NothingElseCanBeAssignedTo) {
  EXPECT_NE(RenderText("{% set d.x = 1 %}", R"({"d": {}})").find("no namespace"),
            std::string::npos);
}

}  // namespace
}  // namespace baton
