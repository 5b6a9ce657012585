#include "common/chat/loop_object.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(LoopObjectTest, KnowsItsPlace) {
  EXPECT_EQ(RenderText("{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}"
                       "{{ loop.revindex0 }}{{ loop.length }}{{ loop.first }}{{ loop.last }};"
                       "{% endfor %}"),
            "10323TrueFalse;21213FalseFalse;32103FalseTrue;");
}

TEST(LoopObjectTest, LooksAtNeighbours) {
  EXPECT_EQ(RenderText("{% for x in 'ab' %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};"
                       "{% endfor %}"),
            "<a>b;a<b>;");
}

TEST(LoopObjectTest, CyclesAndNoticesChanges) {
  EXPECT_EQ(RenderText("{% for x in [1, 1, 2] %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }}"
                       "{% endfor %}"),
            "aTruebFalseaTrue");
}

TEST(LoopObjectTest, RecursesWhereMarked) {
  EXPECT_EQ(RenderText("{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}"
                       "({{ loop(x) }}){% else %}{{ x }}:{{ loop.depth }}{% endif %}{% endfor %}"),
            "1:1(2:2(3:3))");
  EXPECT_NE(RenderText("{% for x in 'a' %}{{ loop('b') }}{% endfor %}").find("recursive"),
            std::string::npos);
}

}  // namespace
}  // namespace baton
