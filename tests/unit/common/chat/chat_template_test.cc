#include "common/chat/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/fixtures/temporary_directory.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(ChatTemplateTest, RendersTheOraclesTexts) {
  const std::string root = BATON_SOURCE_DIR;
  const auto chat_template = ChatTemplate::Load(root + "/deploy/models/north-nano");
  ASSERT_TRUE(chat_template.ok()) << chat_template.status();
  std::ifstream file(root + "/tests/fixtures/oracle/north-nano.chat.json");
  const Json cases = Json::parse(file);
  ASSERT_FALSE(cases.empty());
  for (const Json& chat : cases) {
    Json context = {{"messages", chat["messages"]},
                    {"tools", chat["tools"]},
                    {"add_generation_prompt", true},
                    {"bos_token", "<BOS_TOKEN>"}};
    context.update(chat["kwargs"]);
    const auto text = (*chat_template)->Render(context);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, chat["text"].get<std::string>());
  }
}

TEST(ChatTemplateTest, LoadsTheFileBeforeTheConfig) {
  const TemporaryDirectory directory;
  const std::string path = directory.path();
  EXPECT_EQ(ChatTemplate::Load(path).status().code(), absl::StatusCode::kNotFound);
  WriteFile(path + "/tokenizer_config.json", R"({"model_max_length": 5})");
  EXPECT_EQ(ChatTemplate::Load(path).status().code(), absl::StatusCode::kNotFound);
  WriteFile(path + "/tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(*(*ChatTemplate::Load(path))->Render(Json::object()), "config");
  WriteFile(path + "/tokenizer_config.json",
            R"({"chat_template": [{"name": "rag", "template": "r"},)"
            R"({"name": "default", "template": "d"}]})");
  EXPECT_EQ(*(*ChatTemplate::Load(path))->Render(Json::object()), "d");
  WriteFile(path + "/chat_template.jinja", "file");
  EXPECT_EQ(*(*ChatTemplate::Load(path))->Render(Json::object()), "file");
  WriteFile(path + "/chat_template.jinja", "\n{{ x | urlize }}");
  const auto refused = ChatTemplate::Load(path).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(std::string(refused.message()).find("chat_template.jinja: line 2"), std::string::npos);
}

TEST(ChatTemplateTest, RefusesBadConfigs) {
  const TemporaryDirectory directory;
  const std::string path = directory.path();
  for (const char* config : {"[", "[]", R"({"chat_template": 5})"}) {
    WriteFile(path + "/tokenizer_config.json", config);
    EXPECT_EQ(ChatTemplate::Load(path).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(ChatTemplateTest, RefusesBadInput) {
  EXPECT_EQ(ChatTemplate::Parse("\xff").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ChatTemplate::Parse("abc", {.max_source_bytes = 2}).status().code(),
            absl::StatusCode::kResourceExhausted);
  const auto chat_template = ChatTemplate::Parse("{{ x }}");
  EXPECT_FALSE((*chat_template)->Render(Json::array()).ok());
  EXPECT_FALSE((*chat_template)->Render(Json{{"x", "\xff"}}).ok());
}

TEST(ChatTemplateTest, ThreadsShareOneTemplate) {
  const auto chat_template = ChatTemplate::Parse(
      "{% set l = [1, 'a', {'k': 2}] %}{% for i in range(50) %}{{ l }}{{ x }}{% endfor %}");
  ASSERT_TRUE(chat_template.ok());
  std::vector<std::string> texts(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < texts.size(); ++t) {
    threads.emplace_back([&, t] { texts[t] = *(*chat_template)->Render(Json{{"x", 7}}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
  EXPECT_EQ(texts[0].size(), 50 * std::string("[1, 'a', {'k': 2}]7").size());
}

}  // namespace
}  // namespace baton
