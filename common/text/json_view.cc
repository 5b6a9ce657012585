#include "common/text/json_view.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/json_nesting.h"
#include "common/text/absl_view.h"

namespace baton {
namespace {

constexpr size_t kMaxFoundLength = 80;

// Short description of `value`; containers by size, so that a huge one is never printed.
std::string Describe(const nlohmann::json& value) {
  if (value.is_object()) return absl::StrCat("an object of ", value.size(), " members");
  if (value.is_array()) return absl::StrCat("an array of ", value.size(), " elements");
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxFoundLength) text = text.substr(0, kMaxFoundLength) + "...";
  return text;
}

void AppendView(std::string* out, std::string_view text) { out->append(text); }

const nlohmann::json& NullJson() {
  static const nlohmann::json null;
  return null;
}

}  // namespace

absl::Status JsonView::Refuse(std::string_view wanted) const {
  return absl::InvalidArgumentError(
      absl::StrCat(path_, ": wanted ", AbslView(wanted), ", found ", Describe(*value_)));
}

absl::StatusOr<JsonView> JsonView::Member(std::string_view key) const {
  if (!value_->is_object()) return Refuse("an object");
  const auto found = value_->find(std::string(key));
  return JsonView(found == value_->end() ? NullJson() : *found,
                  absl::StrCat(path_, ".", AbslView(key)));
}

absl::StatusOr<std::vector<JsonView>> JsonView::Elements() const {
  if (!value_->is_array()) return Refuse("an array");
  std::vector<JsonView> elements;
  elements.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    elements.emplace_back((*value_)[i], absl::StrCat(path_, "[", i, "]"));
  }
  return elements;
}

absl::Status JsonView::AllowKeys(std::initializer_list<std::string_view> known) const {
  if (!value_->is_object()) return Refuse("an object");
  for (const auto& [key, unused] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": wanted only the keys ",
                                                     absl::StrJoin(known, ", ", AppendView),
                                                     ", found ", Describe(nlohmann::json(key))));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> JsonView::AsString() const {
  if (!value_->is_string()) return Refuse("a string");
  return value_->get_ref<const std::string&>();
}

absl::StatusOr<bool> JsonView::AsBool() const {
  if (!value_->is_boolean()) return Refuse("true or false");
  return value_->get<bool>();
}

absl::StatusOr<int64_t> JsonView::AsInteger(int64_t low, int64_t high) const {
  // The parser keeps whole numbers above int64 as unsigned; those are out of any range used here.
  if (value_->is_number_integer()) {
    const bool fits = !value_->is_number_unsigned() ||
                      value_->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX);
    if (fits && value_->get<int64_t>() >= low && value_->get<int64_t>() <= high) {
      return value_->get<int64_t>();
    }
  }
  return Refuse(absl::StrCat("a whole number from ", low, " to ", high));
}

absl::StatusOr<bool> JsonView::BoolOr(std::string_view key, bool fallback) const {
  BATON_ASSIGN_OR_RETURN(const JsonView member, Member(key));
  if (member.is_null()) return fallback;
  return member.AsBool();
}

absl::StatusOr<std::string> JsonView::StringMember(std::string_view key) const {
  BATON_ASSIGN_OR_RETURN(const JsonView member, Member(key));
  return member.AsString();
}

absl::StatusOr<nlohmann::json> ReadJsonFile(const std::string& path, int64_t max_bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::error_code error;
  if (!file || !std::filesystem::is_regular_file(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": wanted a readable file, found ",
                                            errno != 0 ? std::strerror(errno) : "none"));
  }
  const int64_t byte_count = file.tellg();
  if (byte_count < 0 || byte_count > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": wanted at most ", max_bytes, " bytes, found ", byte_count));
  }
  std::string text(static_cast<size_t>(byte_count), '\0');
  file.seekg(0);
  if (!file.read(text.data(), byte_count)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": wanted ", byte_count, " bytes, found ", file.gcount()));
  }
  BATON_RETURN_IF_ERROR(CheckJsonNesting(text, path));
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& parse_error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": wanted JSON, found ", parse_error.what()));
  }
}

}  // namespace baton
