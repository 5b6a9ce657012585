#include "kernels/models/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/models/quoted.h"

namespace baton {
namespace {

constexpr uint64_t kLengthBytes = 8;

absl::Status Invalid(std::string message) { return absl::InvalidArgumentError(std::move(message)); }

absl::Status TensorError(const SafetensorsEntry& entry, const std::string& what) {
  return Invalid(absl::StrCat("tensor ", Quoted(entry.name), ": ", what));
}

// Receives the header's JSON event by event: {name: {dtype, shape, data_offsets}, __metadata__:
// {…}}. Any event that does not fit ends the parse with error().
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<SafetensorsEntry> TakeEntries() { return std::move(entries_); }
  const std::string& error() const { return error_; }

  bool null() override { return Misplaced("null"); }
  bool boolean(bool) override { return Misplaced("a boolean"); }
  bool number_integer(number_integer_t) override { return Misplaced("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Misplaced("a fraction or a number beyond 64 bits");
  }
  bool binary(binary_t&) override { return Misplaced("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Fail(absl::StrCat("extent ", value, " of the shape is beyond 63 bits"));
      }
      if (entry_.shape.size() == SafetensorsHeader::kMaxRank) {
        return Fail(absl::StrCat("more than ", SafetensorsHeader::kMaxRank, " dimensions"));
      }
      entry_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets) {
      if (offset_count_ == 2) return Fail("data_offsets: want 2 numbers, found more");
      (offset_count_ == 0 ? entry_.begin : entry_.end) = value;
      ++offset_count_;
      return true;
    }
    return Misplaced("a number");
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kTensor || key_ != "dtype") return Misplaced("a string");
    entry_.dtype = std::move(value);
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      place_ = entry_.name == "__metadata__" ? Place::kMetadata : Place::kTensor;
    } else {
      return Misplaced("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (place_ == Place::kTop) {
      entry_ = SafetensorsEntry{.name = std::move(value)};
      has_dtype_ = has_shape_ = has_offsets_ = false;
      offset_count_ = 0;
      return true;
    }
    if (place_ == Place::kMetadata) return true;
    key_ = std::move(value);
    bool* seen = key_ == "dtype"          ? &has_dtype_
                 : key_ == "shape"        ? &has_shape_
                 : key_ == "data_offsets" ? &has_offsets_
                                          : nullptr;
    if (seen == nullptr) {
      return Fail(absl::StrCat("want dtype, shape and data_offsets, found key ", Quoted(key_)));
    }
    if (std::exchange(*seen, true)) return Fail(absl::StrCat("key ", key_, " is there twice"));
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTop) {
      place_ = Place::kEnd;
      return true;
    }
    if (place_ == Place::kTensor) {
      if (!has_dtype_ || !has_shape_ || !has_offsets_) {
        return Fail("dtype, shape or data_offsets is missing");
      }
      entries_.push_back(std::move(entry_));
    }
    place_ = Place::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return Misplaced("an array");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offset_count_ != 2) {
      return Fail(absl::StrCat("data_offsets: want 2 numbers, found ", offset_count_));
    }
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    error_ = absl::StrCat("the header is not valid JSON at its byte ", position);
    return false;
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

  bool Fail(const std::string& what) {
    error_ = absl::StrCat("tensor ", Quoted(entry_.name), ": ", what);
    return false;
  }

  bool Misplaced(const char* what) {
    if (place_ == Place::kStart) {
      error_ = absl::StrCat("the header: want a JSON object, found ", what);
      return false;
    }
    if (place_ == Place::kTop) return Fail(absl::StrCat("want an object, found ", what));
    if (place_ == Place::kMetadata) {
      return Fail(absl::StrCat("want strings only, found ", what));
    }
    return Fail(absl::StrCat("key ", key_, ": found ", what, " where it does not belong"));
  }

  std::vector<SafetensorsEntry> entries_;
  std::string error_;
  Place place_ = Place::kStart;
  SafetensorsEntry entry_;  // The one being read.
  std::string key_;         // The key being read within it.
  int offset_count_ = 0;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

absl::Status CheckNamesUnique(const std::vector<SafetensorsEntry>& entries) {
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice == names.end()) return absl::OkStatus();
  return Invalid(absl::StrCat("tensor ", Quoted(*twice), " is in the header twice"));
}

// The dtype is known, the offsets in order, the byte count what dtype and shape ask for.
absl::Status CheckEntry(const SafetensorsEntry& entry, uint64_t data_begin) {
  const int64_t element_bytes = SafetensorsDTypeBytes(entry.dtype);
  if (element_bytes == 0) {
    return TensorError(entry, absl::StrCat("unknown dtype ", Quoted(entry.dtype)));
  }
  if (entry.begin > entry.end) {
    return TensorError(entry, absl::StrCat("data_offsets ", entry.begin, ", ", entry.end,
                                           ": the begin is beyond the end"));
  }
  uint64_t wanted = static_cast<uint64_t>(element_bytes);
  for (int64_t extent : entry.shape) {
    if (__builtin_mul_overflow(wanted, static_cast<uint64_t>(extent), &wanted)) {
      return TensorError(entry, "the size of the shape is beyond 64 bits");
    }
  }
  if (entry.end - entry.begin != wanted) {
    return TensorError(
        entry, absl::StrCat("dtype and shape want ", wanted, " bytes, found data_offsets of ",
                            entry.end - entry.begin, " bytes"));
  }
  if (wanted != 0 && (data_begin + entry.begin) % static_cast<uint64_t>(element_bytes) != 0) {
    return TensorError(
        entry, absl::StrCat("want data aligned to ", element_bytes, " bytes, found it at byte ",
                            data_begin + entry.begin, " of the file"));
  }
  return absl::OkStatus();
}

// Entries sorted by offset cover all `data_bytes` bytes of data exactly once.
absl::Status CheckTiling(const std::vector<SafetensorsEntry>& entries, uint64_t data_bytes) {
  uint64_t covered = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.end > data_bytes) {
      return TensorError(entry, absl::StrCat("want data up to byte ", entry.end, ", found only ",
                                             data_bytes, " bytes of data (a truncated file?)"));
    }
    if (entry.begin < covered) {
      return TensorError(entry,
                         absl::StrCat("begins at byte ", entry.begin,
                                      " of the data, inside the tensor before it, which ends "
                                      "at byte ",
                                      covered));
    }
    if (entry.begin > covered) {
      return TensorError(entry,
                         absl::StrCat("begins at byte ", entry.begin,
                                      " of the data and leaves a hole after byte ", covered));
    }
    covered = entry.end;
  }
  if (covered != data_bytes) {
    return Invalid(
        absl::StrCat("want ", covered, " bytes of data after the header, found ", data_bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> JsonBytes(std::string_view prefix, uint64_t file_bytes) {
  if (file_bytes < kLengthBytes) {
    return Invalid(absl::StrCat("want at least the ", kLengthBytes,
                                " bytes of a header length, found ", file_bytes));
  }
  BATON_CHECK(prefix.size() >= kLengthBytes);
  uint64_t json_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    json_bytes |= uint64_t{static_cast<unsigned char>(prefix[i])} << (8 * i);
  }
  if (json_bytes > SafetensorsHeader::kMaxJsonBytes) {
    return Invalid(absl::StrCat("want a header of at most ", SafetensorsHeader::kMaxJsonBytes,
                                " bytes, found a length of ", json_bytes));
  }
  if (json_bytes > file_bytes - kLengthBytes) {
    return Invalid(absl::StrCat("want a header of ", json_bytes, " bytes, found only ",
                                file_bytes - kLengthBytes, " bytes (a truncated file?)"));
  }
  return json_bytes;
}

}  // namespace

int64_t SafetensorsDTypeBytes(std::string_view dtype) {
  constexpr std::pair<std::string_view, int64_t> kBytes[] = {
      {"BF16", 2}, {"F16", 2}, {"F32", 4},     {"F64", 8},     {"BOOL", 1},   {"U8", 1},
      {"I8", 1},   {"U16", 2}, {"I16", 2},     {"U32", 4},     {"I32", 4},    {"U64", 8},
      {"I64", 8},  {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  for (const auto& [name, bytes] : kBytes) {
    if (name == dtype) return bytes;
  }
  return 0;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view prefix,
                                                         uint64_t file_bytes) {
  BATON_ASSIGN_OR_RETURN(const uint64_t json_bytes, JsonBytes(prefix, file_bytes));
  BATON_CHECK(prefix.size() >= kLengthBytes + json_bytes);
  const std::string_view json = prefix.substr(kLengthBytes, json_bytes);
  if (json.empty() || json[0] != '{') return Invalid("the header does not begin with '{'");
  // The JSON parser takes a zero byte for the end of its input.
  if (json.find('\0') != std::string_view::npos) return Invalid("the header holds a zero byte");

  HeaderEvents events;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &events)) return Invalid(events.error());

  SafetensorsHeader header;
  header.entries = events.TakeEntries();
  header.data_begin = kLengthBytes + json_bytes;
  BATON_RETURN_IF_ERROR(CheckNamesUnique(header.entries));
  for (const SafetensorsEntry& entry : header.entries) {
    BATON_RETURN_IF_ERROR(CheckEntry(entry, header.data_begin));
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
            });
  BATON_RETURN_IF_ERROR(CheckTiling(header.entries, file_bytes - header.data_begin));
  return header;
}

}  // namespace baton
