#include "kernels/models/json_object.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/json_nesting.h"
#include "kernels/models/quoted.h"

namespace baton {
namespace {

using Json = nlohmann::json;

// A value as a message shows it: short, one line.
std::string Shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return absl::StrCat("an array of ", value.size());
  if (value.is_string()) return Quoted(value.get_ref<const std::string&>());
  return value.dump();
}

std::string WantRange(JsonObject::IntRange range) {
  return absl::StrCat("an integer in ", range.min, "..", range.max);
}

}  // namespace

absl::StatusOr<JsonObject> JsonObject::Parse(std::string_view text, std::string name,
                                             uint64_t max_bytes) {
  if (text.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": want at most ", max_bytes, " bytes, found ", text.size()));
  }
  // The parser takes a zero byte for the end of its input.
  if (text.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": holds a zero byte"));
  }
  BATON_RETURN_IF_ERROR(CheckJsonNesting(text, name));
  std::vector<std::set<std::string>> open_objects;
  std::string twice;
  const auto note_keys = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == Json::parse_event_t::object_end) open_objects.pop_back();
    if (event == Json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!open_objects.back().insert(key).second) twice = key;
    }
    return true;
  };
  Json parsed = Json::parse(text.begin(), text.end(), note_keys, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || !parsed.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": not a JSON object"));
  }
  if (!twice.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": key ", Quoted(twice), " is there twice"));
  }
  return JsonObject(std::move(parsed), std::move(name));
}

const Json* JsonObject::Value(const std::string& key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

bool JsonObject::IsIntWithin(const Json& value, IntRange range) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    return number <= INT64_MAX && static_cast<int64_t>(number) >= range.min &&
           static_cast<int64_t>(number) <= range.max;
  }
  if (!value.is_number_integer()) return false;
  const int64_t number = value.get<int64_t>();
  return number >= range.min && number <= range.max;
}

int JsonObject::Int(const std::string& key, IntRange range) {
  if (!Has(key)) {
    Refuse(key, WantRange(range));
    return 0;
  }
  return IntOr(key, 0, range);
}

std::string JsonObject::String(const std::string& key) {
  if (!Has(key)) Refuse(key, "a string");
  return StringOr(key, "");
}

int JsonObject::IntOr(const std::string& key, int fallback, IntRange range) {
  const Json* value = Value(key);
  if (value == nullptr) return fallback;
  if (!IsIntWithin(*value, range)) {
    Refuse(key, WantRange(range));
    return fallback;
  }
  return value->get<int>();
}

bool JsonObject::BoolOr(const std::string& key, bool fallback) {
  const Json* value = Value(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) {
    Refuse(key, "true or false");
    return fallback;
  }
  return value->get<bool>();
}

double JsonObject::NumberOr(const std::string& key, double fallback) {
  const Json* value = Value(key);
  if (value == nullptr) return fallback;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    Refuse(key, "a finite number");
    return fallback;
  }
  return value->get<double>();
}

std::string JsonObject::StringOr(const std::string& key, std::string fallback) {
  const Json* value = Value(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) {
    Refuse(key, "a string");
    return fallback;
  }
  return value->get<std::string>();
}

std::vector<std::string> JsonObject::Strings(const std::string& key) {
  const Json* value = Value(key);
  if (value == nullptr) return {};
  std::vector<std::string> strings;
  if (value->is_array()) {
    for (const Json& element : *value) {
      if (element.is_string()) strings.push_back(element.get<std::string>());
    }
  }
  if (!value->is_array() || strings.size() != value->size()) Refuse(key, "an array of strings");
  return strings;
}

std::vector<int> JsonObject::Ints(const std::string& key, IntRange range) {
  const Json* value = Value(key);
  if (value == nullptr) return {};
  std::vector<int> numbers;
  const Json elements = value->is_array() ? *value : Json::array({*value});
  for (const Json& element : elements) {
    if (!IsIntWithin(element, range)) {
      RefuseWith(absl::StrCat("key ", Quoted(key), ": want ", WantRange(range),
                              " or an array of them, found ", Shown(element)));
      return {};
    }
    numbers.push_back(element.get<int>());
  }
  return numbers;
}

JsonObject JsonObject::Object(const std::string& key) {
  const Json* value = Value(key);
  if (value != nullptr && !value->is_object()) Refuse(key, "an object");
  const bool usable = value != nullptr && value->is_object();
  return JsonObject(usable ? *value : Json::object(), absl::StrCat(name_, ": ", key));
}

void JsonObject::Refuse(const std::string& key, const std::string& wanted) {
  const Json* value = Value(key);
  RefuseWith(absl::StrCat("key ", Quoted(key), ": want ", wanted, ", found ",
                          value == nullptr ? "none" : Shown(*value)));
}

void JsonObject::RefuseWith(const std::string& message) {
  if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(name_, ": ", message));
}

void JsonObject::Adopt(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

}  // namespace baton
