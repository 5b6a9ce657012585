#include "common/chat/value_compare.h"

#include <algorithm>

#include "common/chat/python_text.h"
#include "common/chat/value_dict.h"
#include "common/check.h"

namespace baton {
namespace {

std::partial_ordering CompareNumbers(const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    const TemplateInt a = left.AsInt(), b = right.AsInt();
    return a < b   ? std::partial_ordering::less
           : a > b ? std::partial_ordering::greater
                   : std::partial_ordering::equivalent;
  }
  // 64 bits of mantissa hold every integer a JSON document can carry.
  const auto wide = [](const Value& v) {
    return v.is_float() ? static_cast<long double>(v.floating())
                        : static_cast<long double>(v.AsInt());
  };
  return wide(left) <=> wide(right);
}

absl::StatusOr<bool> ItemsEqual(RenderState& state, const std::vector<Value>& left,
                                const std::vector<Value>& right) {
  if (left.size() != right.size()) return false;
  for (size_t i = 0; i < left.size(); ++i) {
    if (left[i].IsSame(right[i])) continue;
    BATON_ASSIGN_OR_RETURN(const bool equal, ValuesEqual(state, left[i], right[i]));
    if (!equal) return false;
  }
  return true;
}

absl::StatusOr<bool> DictsEqual(RenderState& state, const ValueDict& left, const ValueDict& right) {
  if (left.size() != right.size()) return false;
  for (const auto& [key, value] : left.entries()) {
    const Value* other = right.Find(key);
    if (other == nullptr) return false;
    if (value.IsSame(*other)) continue;
    BATON_ASSIGN_OR_RETURN(const bool equal, ValuesEqual(state, value, *other));
    if (!equal) return false;
  }
  return true;
}

absl::StatusOr<std::partial_ordering> CompareItems(RenderState& state,
                                                   const std::vector<Value>& left,
                                                   const std::vector<Value>& right) {
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (left[i].IsSame(right[i])) continue;
    BATON_ASSIGN_OR_RETURN(const bool equal, ValuesEqual(state, left[i], right[i]));
    if (!equal) return CompareValues(state, left[i], right[i]);
  }
  return std::partial_ordering(left.size() <=> right.size());
}

absl::StatusOr<bool> ContainsItem(RenderState& state, const std::vector<Value>& items,
                                  const Value& item) {
  for (const Value& candidate : items) {
    BATON_RETURN_IF_ERROR(state.ChargeSteps(1));
    if (candidate.IsSame(item)) return true;
    BATON_ASSIGN_OR_RETURN(const bool equal, ValuesEqual(state, candidate, item));
    if (equal) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<bool> ValuesEqual(RenderState& state, const Value& left, const Value& right) {
  BATON_RETURN_IF_ERROR(state.ChargeSteps(1));
  if (left.is_number() && right.is_number()) {
    return CompareNumbers(left, right) == std::partial_ordering::equivalent;
  }
  if (left.is_string() && right.is_string()) {
    const size_t bytes = std::min(left.text().size(), right.text().size());
    BATON_RETURN_IF_ERROR(state.ChargeSteps(static_cast<int64_t>(bytes / 64)));
    return left.text() == right.text();
  }
  if (left.is_undefined() && right.is_undefined()) return true;
  if (left.IsSame(right)) return true;
  if (left.is_dict() && right.is_dict()) return DictsEqual(state, left.dict(), right.dict());
  if (left.is_sequence() && right.is_sequence()) {
    const SequenceData& a = left.sequence();
    const SequenceData& b = right.sequence();
    const bool by_items =
        a.kind == b.kind && (left.is_list_or_tuple() || a.kind == SequenceKind::kRange);
    if (by_items) return ItemsEqual(state, a.items, b.items);
  }
  return false;
}

absl::StatusOr<std::partial_ordering> CompareValues(RenderState& state, const Value& left,
                                                    const Value& right) {
  BATON_RETURN_IF_ERROR(state.ChargeSteps(1));
  if (left.is_number() && right.is_number()) return CompareNumbers(left, right);
  if (left.is_string() && right.is_string()) {
    const size_t bytes = std::min(left.text().size(), right.text().size());
    BATON_RETURN_IF_ERROR(state.ChargeSteps(static_cast<int64_t>(bytes / 64)));
    // UTF-8 orders by byte as Python orders by code point.
    return std::partial_ordering(left.text().compare(right.text()) <=> 0);
  }
  if (left.is_list_or_tuple() && right.is_list_or_tuple() &&
      left.sequence().kind == right.sequence().kind) {
    return CompareItems(state, left.sequence().items, right.sequence().items);
  }
  if (left.is_undefined()) return TemplateError(left.undefined_reason());
  if (right.is_undefined()) return TemplateError(right.undefined_reason());
  return TemplateError("values of types ", left.TypeName(), " and ", right.TypeName(),
                       " have no order");
}

absl::StatusOr<bool> ContainsValue(RenderState& state, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      return TemplateError("'in' a string wants a string, found ", item.TypeName());
    }
    BATON_RETURN_IF_ERROR(
        state.ChargeSteps(1 + static_cast<int64_t>(container.text().size() / 64)));
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.is_dict() || container.is_sequence_of(SequenceKind::kKeys)) {
    if (!ValueDict::HashKey(item)) {
      return TemplateError("a value of type ", item.TypeName(), " cannot be a key");
    }
    if (container.is_dict()) return container.dict().Find(item) != nullptr;
  }
  if (container.is_undefined()) return false;
  if (container.is_sequence_of(SequenceKind::kIterator)) {
    BATON_ASSIGN_OR_RETURN(const std::vector<Value> items, IterateValue(state, container));
    return ContainsItem(state, items, item);
  }
  if (container.is_sequence()) return ContainsItem(state, container.sequence().items, item);
  return TemplateError("'in' wants a container, found ", container.TypeName());
}

absl::StatusOr<std::vector<Value>> IterateValue(RenderState& state, const Value& value) {
  std::vector<Value> items;
  if (value.is_undefined()) return items;
  if (value.is_sequence()) {
    SequenceData& sequence = value.sequence();
    BATON_RETURN_IF_ERROR(state.ChargeElements(static_cast<int64_t>(sequence.items.size())));
    if (sequence.kind != SequenceKind::kIterator) return sequence.items;
    items.assign(sequence.items.begin() + static_cast<ptrdiff_t>(sequence.cursor),
                 sequence.items.end());
    sequence.cursor = sequence.items.size();
    return items;
  }
  if (value.is_dict()) {
    BATON_RETURN_IF_ERROR(state.ChargeElements(static_cast<int64_t>(value.dict().size())));
    for (const auto& entry : value.dict().entries()) items.push_back(entry.first);
    return items;
  }
  if (value.is_string()) {
    const std::string& text = value.text();
    BATON_RETURN_IF_ERROR(state.ChargeElements(2 * static_cast<int64_t>(text.size())));
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      NextCodePoint(text, &at);
      items.push_back(Value::String(text.substr(begin, at - begin)));
    }
    return items;
  }
  return TemplateError("a value of type ", value.TypeName(), " cannot be iterated over");
}

}  // namespace baton
