#include "common/chat/supported_constructs.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(SupportedConstructsTest, RefusesAtStartWithLineAndName) {
  EXPECT_EQ(RenderText("\n\n{{ x | urlize }}"),
            "UNIMPLEMENTED: line 3: filter 'urlize' is not supported");
  EXPECT_EQ(RenderText("{% if false %}{{ x is foo }}{% endif %}"),
            "UNIMPLEMENTED: line 1: test 'foo' is not supported");
  EXPECT_EQ(RenderText("{{ x.encode('utf-8') }}"),
            "UNIMPLEMENTED: line 1: method 'encode' is not supported");
  EXPECT_EQ(RenderText("{{ lipsum() }}"),
            "UNIMPLEMENTED: line 1: function 'lipsum' is not supported");
}

TEST(SupportedConstructsTest, LooksIntoMapAndSelect) {
  EXPECT_NE(RenderText("{{ [] | map('urlize') }}").find("filter 'urlize'"), std::string::npos);
  EXPECT_NE(RenderText("{{ [] | select('foo') }}").find("test 'foo'"), std::string::npos);
  EXPECT_NE(RenderText("{{ [] | selectattr('a', 'foo') }}").find("test 'foo'"), std::string::npos);
}

}  // namespace
}  // namespace baton
