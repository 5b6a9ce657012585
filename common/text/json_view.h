// A JSON value that knows where it stands in its file, so that every refusal can say path, wanted
// and found. A view: the parsed document must outlive it. Immutable.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

class JsonView {
 public:
  JsonView(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& path() const { return path_; }
  bool is_null() const { return value_->is_null(); }

  // "PATH: wanted WANTED, found <this value, shortened>".
  absl::Status Refuse(std::string_view wanted) const;

  // The member `key` of this object; a null view when it is absent. Refuses when not an object.
  absl::StatusOr<JsonView> Member(std::string_view key) const;
  // The elements of this array.
  absl::StatusOr<std::vector<JsonView>> Elements() const;
  // Refuses unless this is an object whose keys are all in `known`.
  absl::Status AllowKeys(std::initializer_list<std::string_view> known) const;

  absl::StatusOr<std::string> AsString() const;
  absl::StatusOr<bool> AsBool() const;
  // A whole number in [low, high].
  absl::StatusOr<int64_t> AsInteger(int64_t low, int64_t high) const;

  // Members with a value for absence (and for null).
  absl::StatusOr<bool> BoolOr(std::string_view key, bool fallback) const;
  absl::StatusOr<std::string> StringMember(std::string_view key) const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

// Reads and parses a file of at most `max_bytes`. Errors: NotFound, InvalidArgument with file and
// place.
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path, int64_t max_bytes);

}  // namespace baton
