// JsonObject: reads the keys of a JSON object with types and ranges, for configs. The first thing
// that does not fit is kept as status(); after it every getter returns its fallback. A key whose
// value is null counts as absent. Used by one thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

class JsonObject {
 public:
  struct IntRange {
    int64_t min = 0;
    int64_t max = 0;
  };

  // Parses `text`, at most `max_bytes` of it; `name` (a file's) begins each message.
  // InvalidArgument unless it is a JSON object without a key given twice.
  static absl::StatusOr<JsonObject> Parse(std::string_view text, std::string name,
                                          uint64_t max_bytes);

  bool Has(const std::string& key) const { return Value(key) != nullptr; }

  // Required; 0 or an empty string after an error.
  int Int(const std::string& key, IntRange range);
  std::string String(const std::string& key);

  // Optional.
  int IntOr(const std::string& key, int fallback, IntRange range);
  bool BoolOr(const std::string& key, bool fallback);
  double NumberOr(const std::string& key, double fallback);  // Finite.
  std::string StringOr(const std::string& key, std::string fallback);
  std::vector<std::string> Strings(const std::string& key);       // An array; empty if absent.
  std::vector<int> Ints(const std::string& key, IntRange range);  // A number or an array of them.

  // The object at `key` as a reader of its own, named "name: key"; an empty one if absent or wrong.
  JsonObject Object(const std::string& key);

  // Keeps "name: key "key": want `wanted`, found <its value>" as the status unless there is one
  // already.
  void Refuse(const std::string& key, const std::string& wanted);
  // The same for a message of one's own.
  void RefuseWith(const std::string& message);
  // Takes over a nested reader's error.
  void Adopt(const absl::Status& status);

  const std::string& name() const { return name_; }
  const nlohmann::json& json() const { return json_; }
  const absl::Status& status() const { return status_; }

 private:
  JsonObject(nlohmann::json json, std::string name)
      : json_(std::move(json)), name_(std::move(name)) {}

  // The value at `key`; null if absent or null.
  const nlohmann::json* Value(const std::string& key) const;
  // Whether `value` is an integer within `range`.
  static bool IsIntWithin(const nlohmann::json& value, IntRange range);

  nlohmann::json json_;
  std::string name_;
  absl::Status status_;
};

}  // namespace baton
