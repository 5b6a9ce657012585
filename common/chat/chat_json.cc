#include "common/chat/chat_json.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// Builds the value that the parser's events describe.
class ChatJsonBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(int64_t value) override { return Add(value); }
  bool number_unsigned(uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string& text) override {
    if (text.find_first_of(".eE") != std::string::npos) return Add(value);
    return Add(Json::binary({text.begin(), text.end()}));
  }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(Json::binary_t& value) override { return Add(Json::binary(std::move(value))); }
  bool start_object(size_t /*count*/) override { return Open(Json::object()); }
  bool start_array(size_t /*count*/) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const Json::exception& /*error*/) override {
    return false;
  }

  Json Take() { return std::move(root_); }

 private:
  // Puts `value` where the document is.
  Json& Place(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_object()) return parent[key_] = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }

  bool Add(Json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(Json container) {
    open_.push_back(&Place(std::move(container)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::string key_;
  std::vector<Json*> open_;  // The containers around the next value; only the last one grows.
};

}  // namespace

Json ParseChatJson(std::string_view text) {
  ChatJsonBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return Json(Json::value_t::discarded);
  return builder.Take();
}

}  // namespace baton
