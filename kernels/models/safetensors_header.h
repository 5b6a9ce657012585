// SafetensorsHeader: the validated table of contents of a safetensors file. Pure: works on bytes.
// Format: 8 bytes header length N (little-endian), N bytes of JSON, then the data; each tensor has
// dtype, shape and [begin, end) in the data, and the tensors tile the data without gap or overlap.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // As in the header: "BF16", "F32", "I32", …; one whose size is known.
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // Bytes from the start of the data.
  uint64_t end = 0;
};

struct SafetensorsHeader {
  static constexpr uint64_t kMaxJsonBytes = 100'000'000;  // The format's own limit.
  static constexpr size_t kMaxRank = 8;

  std::vector<SafetensorsEntry> entries;  // By `begin`.
  uint64_t data_begin = 0;                // Of the data in the file.
};

// Parses and checks the header of a file of `file_bytes` bytes of which `prefix` holds at least the
// length and the JSON (the whole file will do). InvalidArgument says what is wrong where.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view prefix,
                                                         uint64_t file_bytes);

// Bytes of one element of a safetensors dtype that fills whole bytes; 0 for an unknown one.
int64_t SafetensorsDTypeBytes(std::string_view dtype);

}  // namespace baton
