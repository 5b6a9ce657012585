// Conversation: the messages of one chat as JSON, and how an answer's text becomes a message. Pure.
#pragma once

#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

namespace baton {

class Conversation {
 public:
  void AddSystem(std::string_view content) { Add("system", content); }
  void AddUser(std::string_view content) { Add("user", content); }
  // `text` is the raw answer with its special tokens.
  void AddAnswer(std::string_view text) { Add("assistant", VisibleText(text)); }
  // Takes the last message back, e.g. a question whose answer failed.
  void DropLast() { messages_.erase(messages_.size() - 1); }
  void Clear() { messages_ = nlohmann::ordered_json::array(); }

  std::string ToJson() const { return messages_.dump(); }
  size_t message_count() const { return messages_.size(); }

  // What of an answer is meant to be read: without a thinking part and without special tokens
  // (<|...|>).
  static std::string VisibleText(std::string_view text);

 private:
  void Add(std::string_view role, std::string_view content) {
    messages_.push_back({{"role", role}, {"content", content}});
  }

  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

}  // namespace baton
