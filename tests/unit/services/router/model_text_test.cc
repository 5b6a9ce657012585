#include "services/router/model_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::HasSubstr;

class ModelTextTest : public testing::Test {
 protected:
  std::string Refusal(const ChatInput& chat) {
    const auto rendered = text_->RenderChat(chat);
    EXPECT_TRUE(absl::IsInvalidArgument(rendered.status())) << rendered.status();
    return std::string(rendered.status().message());
  }

  std::unique_ptr<ModelText> text_ =
      *ModelText::Load(std::string(BATON_SOURCE_DIR) + "/deploy/models/north-nano");
};

TEST_F(ModelTextTest, RendersWithTheModelsOwnTemplate) {
  const auto rendered =
      text_->RenderChat({.messages_json = R"([{"role": "user", "content": "Hi"}])"});
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_EQ(*rendered,
            "<BOS_TOKEN><|START_OF_TURN_TOKEN|><|USER_TOKEN|><|START_TEXT|>Hi<|END_TEXT|>"
            "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|><|START_THINKING|>");
}

TEST_F(ModelTextTest, ToolsAndVariablesReachTheTemplate) {
  const ChatInput chat{
      .messages_json = R"([{"role": "user", "content": "Hi"}])",
      .tools_json = R"([{"type": "function", "function": {"name": "get_time", "description": "d",
                                                         "parameters": {}}}])",
      .template_kwargs_json = R"({"reasoning_effort": "none"})"};
  const auto rendered = text_->RenderChat(chat);
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_THAT(*rendered, HasSubstr("get_time"));
  EXPECT_THAT(*rendered, testing::EndsWith("<|END_THINKING|>"));
}

TEST_F(ModelTextTest, IntegersBeyond64BitsKeepTheirDigits) {
  const auto rendered =
      text_->RenderChat({.messages_json = R"([{"role": "assistant", "content": "", "tool_calls": [
           {"id": "0", "type": "function",
            "function": {"name": "f", "arguments": {"n": 18446744073709551616}}}]}])"});
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_THAT(*rendered, HasSubstr(R"("parameters": {"n": 18446744073709551616})"));
}

// Walking such a value would use up the stack.
TEST_F(ModelTextTest, JsonThatNestsDeeplyIsRefused) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  const std::string messages = R"([{"role": "user", "content": "Hi"}])";
  const std::string wanted = "wanted JSON of at most 100 levels";
  EXPECT_THAT(Refusal({.messages_json = R"([{"role": "user", "content": )" + deep + "}]"}),
              HasSubstr("chat.messages_json: " + wanted));
  EXPECT_THAT(Refusal({.messages_json = messages, .tools_json = deep}),
              HasSubstr("chat.tools_json: " + wanted));
  EXPECT_THAT(Refusal({.messages_json = messages, .template_kwargs_json = "{\"a\": " + deep + "}"}),
              HasSubstr("chat.template_kwargs_json: " + wanted));
}

TEST_F(ModelTextTest, JsonOfTheWrongShapeIsRefused) {
  EXPECT_THAT(Refusal({.messages_json = "{"}), HasSubstr("not JSON"));
  EXPECT_THAT(Refusal({.messages_json = "{}"}), HasSubstr("wanted a JSON array, found object"));
  EXPECT_THAT(Refusal({.messages_json = "[]"}), HasSubstr("at least 1 message"));
  EXPECT_THAT(Refusal({.messages_json = R"([{"content": "x"}])"}), HasSubstr("[0]"));
  const std::string messages = R"([{"role": "user", "content": "Hi"}])";
  EXPECT_THAT(Refusal({.messages_json = messages, .tools_json = "{}"}), HasSubstr("tools_json"));
  EXPECT_THAT(Refusal({.messages_json = messages, .template_kwargs_json = "[]"}),
              HasSubstr("template_kwargs_json"));
  EXPECT_THAT(Refusal({.messages_json = messages, .template_kwargs_json = R"({"messages": []})"}),
              HasSubstr("wanted no \"messages\""));
}

}  // namespace
}  // namespace baton
