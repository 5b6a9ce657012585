#include "services/client/conversation.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ConversationTest, IsAJsonArrayOfMessages) {
  Conversation conversation;
  conversation.AddSystem("be brief");
  conversation.AddUser("a \"quoted\" question");
  conversation.AddAnswer("<|END_THINKING|><|START_TEXT|>yes<|END_TEXT|>");
  EXPECT_EQ(conversation.ToJson(), R"([{"role":"system","content":"be brief"},)"
                                   R"({"role":"user","content":"a \"quoted\" question"},)"
                                   R"({"role":"assistant","content":"yes"}])");
  conversation.DropLast();
  EXPECT_EQ(conversation.message_count(), 2u);
  conversation.Clear();
  EXPECT_EQ(conversation.ToJson(), "[]");
}

TEST(ConversationTest, VisibleTextHasNoThinkingAndNoSpecialTokens) {
  EXPECT_EQ(Conversation::VisibleText("plain"), "plain");
  EXPECT_EQ(Conversation::VisibleText("hm<|END_THINKING|>a<|X|>b"), "ab");
  EXPECT_EQ(Conversation::VisibleText("1 <| 2"), "1 <| 2");
  EXPECT_EQ(Conversation::VisibleText(""), "");
  EXPECT_EQ(Conversation::VisibleText("let y = f <| x |> g"), "let y = f <| x |> g");  // F#.
  EXPECT_EQ(Conversation::VisibleText("a <||> b"), "a <||> b");
}

}  // namespace
}  // namespace baton
