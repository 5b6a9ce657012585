// Python's dict: keeps the order of insertion; keys of any hashable value, with 1 == 1.0 == True.
// Filled once, then only read. Owned by the Values that share it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/chat/value.h"

namespace baton {

class ValueDict {
 public:
  using Entry = std::pair<Value, Value>;

  // Adds or, as Python does, replaces the value and keeps the first key. False: the key is not
  // hashable (a list or a dict).
  bool Set(Value key, Value value);
  void Set(std::string_view key, Value value);

  // Null when absent or not hashable.
  const Value* Find(const Value& key) const;
  const Value* Find(std::string_view key) const;

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

  // Equal keys have equal strings; nothing for what Python cannot hash.
  static std::optional<std::string> HashKey(const Value& key);

 private:
  void SetHashed(std::string hash_key, Value key, Value value);

  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;  // HashKey -> position in entries_
  int depth_ = 1;
};

}  // namespace baton
