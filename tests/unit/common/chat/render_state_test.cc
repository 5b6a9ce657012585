#include "common/chat/render_state.h"

#include <gtest/gtest.h>
#include <cstdint>
#include <string>

#include "tests/unit/common/chat/render_text.h"

namespace baton {
namespace {

TEST(RenderStateTest, SpendsItsBudget) {
  RenderState state({.max_steps = 10, .max_value_bytes = 1000});
  EXPECT_TRUE(state.ChargeSteps(10).ok());
  EXPECT_EQ(state.ChargeSteps(1).code(), absl::StatusCode::kResourceExhausted);
  RenderState bytes({.max_value_bytes = 1000});
  EXPECT_TRUE(bytes.ChargeBytes(1000).ok());
  EXPECT_FALSE(bytes.ChargeBytes(1).ok());
  EXPECT_FALSE(bytes.ChargeElements(INT64_MAX).ok());
}

TEST(RenderStateTest, NestedLoopsEndByTheBudget) {
  const std::string text = RenderText(
      "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}x"
      "{% endfor %}{% endfor %}{% endfor %}");
  EXPECT_NE(text.find("RESOURCE_EXHAUSTED"), std::string::npos) << text.substr(0, 200);
}

TEST(RenderStateTest, GrowthIsBounded) {
  for (const char* source :
       {"{% set n = namespace(s='x') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor "
        "%}",
        "{% set n = namespace(l=[1]) %}{% for i in range(99) %}{% set n.l = n.l + n.l %}{% endfor "
        "%}",
        "{{ 'x' * 10000000000 }}", "{{ 'x' | indent(10000000000) }}", "{{ 'x'.zfill(10 ** 20) }}",
        "{% set n = namespace(l=[]) %}{% for i in range(100) %}{% set n.l = [n.l, n.l] %}{% endfor "
        "%}"
        "{{ n.l }}",
        "{{ 2 ** 2 ** 20 ~ ('ab' * 5000000).replace('', 'x' * 100000) }}"}) {
    const std::string text = RenderText(source);
    EXPECT_NE(text.find("EXHAUSTED"), std::string::npos) << source << text.substr(0, 200);
  }
}

TEST(RenderStateTest, OutputIsBounded) {
  EXPECT_NE(
      RenderText("{% for i in range(100) %}0123456789{% endfor %}", "{}", {.max_output_bytes = 500})
          .find("bytes of output"),
      std::string::npos);
}

}  // namespace
}  // namespace baton
