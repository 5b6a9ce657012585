#include "common/chat/value_dict.h"
#include "common/chat/concat.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace baton {
namespace {

std::string IntegerKey(TemplateInt value) {
  std::string key = "i";
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return key;
}

std::string FloatKey(double value) {
  // 2^100 is far outside what an integer here is compared with exactly, and inside its type.
  if (std::floor(value) == value && std::abs(value) < 1e30) {
    return IntegerKey(static_cast<TemplateInt>(value));
  }
  std::string key = "f";
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return key;
}

std::optional<std::string> TupleKey(const SequenceData& tuple) {
  std::string key = "(";
  for (const Value& item : tuple.items) {
    const std::optional<std::string> part = ValueDict::HashKey(item);
    if (!part) return std::nullopt;
    Append(&key, part->size(), ":", *part);
  }
  return key;
}

}  // namespace

std::optional<std::string> ValueDict::HashKey(const Value& key) {
  if (key.is_string()) return "s" + key.text();
  if (key.is_integral()) return IntegerKey(key.AsInt());
  if (key.is_float()) return FloatKey(key.floating());
  if (key.is_none()) return "n";
  if (key.is_undefined()) return "u";
  if (key.is_object()) return Concat("o", reinterpret_cast<uintptr_t>(&key.object()));
  if (key.is_sequence_of(SequenceKind::kTuple)) return TupleKey(key.sequence());
  if (key.is_sequence_of(SequenceKind::kIterator)) {
    return Concat("o", reinterpret_cast<uintptr_t>(&key.sequence()));
  }
  return std::nullopt;
}

bool ValueDict::Set(Value key, Value value) {
  std::optional<std::string> hash_key = HashKey(key);
  if (!hash_key) return false;
  SetHashed(*std::move(hash_key), std::move(key), std::move(value));
  return true;
}

void ValueDict::Set(std::string_view key, Value value) {
  SetHashed(Concat("s", key), Value::String(std::string(key)), std::move(value));
}

void ValueDict::SetHashed(std::string hash_key, Value key, Value value) {
  depth_ = std::max({depth_, 1 + key.depth(), 1 + value.depth()});
  const auto [found, inserted] = index_.try_emplace(std::move(hash_key), entries_.size());
  if (inserted) {
    entries_.emplace_back(std::move(key), std::move(value));
  } else {
    entries_[found->second].second = std::move(value);
  }
}

const Value* ValueDict::Find(const Value& key) const {
  const std::optional<std::string> hash_key = HashKey(key);
  if (!hash_key) return nullptr;
  const auto found = index_.find(*hash_key);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const Value* ValueDict::Find(std::string_view key) const {
  const auto found = index_.find(Concat("s", key));
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

}  // namespace baton
