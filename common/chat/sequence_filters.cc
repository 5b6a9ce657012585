#include <algorithm>
#include <utility>

#include "common/chat/filters.h"
#include "common/chat/python_text.h"
#include "common/chat/unicode_case.h"
#include "common/chat/value_compare.h"
#include "common/chat/value_dict.h"
#include "common/check.h"

namespace baton {
namespace {

absl::StatusOr<Value> Length(const FilterCall& call) {
  const Value& input = call.input;
  size_t size = 0;
  if (input.is_string()) {
    size = input.string().code_point_count;
  } else if (input.is_dict()) {
    size = input.dict().size();
  } else if (input.is_sequence() && !input.is_sequence_of(SequenceKind::kIterator)) {
    size = input.sequence().items.size();
  } else if (!input.is_undefined()) {
    return TemplateError("a value of type ", input.TypeName(), " has no length");
  }
  return Value::Int(static_cast<TemplateInt>(size));
}

absl::StatusOr<Value> Default(const FilterCall& call) {
  const bool replaces =
      call.input.is_undefined() || (FlagArgument(call.arguments[1], false) && !call.input.Truthy());
  return replaces ? call.arguments[0].value_or(Value::String("")) : call.input;
}

absl::StatusOr<Value> First(const FilterCall& call) {
  if (call.input.is_sequence_of(SequenceKind::kIterator)) {
    SequenceData& items = call.input.sequence();
    if (items.cursor < items.items.size()) return items.items[items.cursor++];
    return Value::Undefined("the sequence is empty");
  }
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> items, IterateValue(call.state, call.input));
  return items.empty() ? Value::Undefined("the sequence is empty") : items.front();
}

absl::StatusOr<Value> Last(const FilterCall& call) {
  if (call.input.is_sequence_of(SequenceKind::kIterator)) {
    return TemplateError("last does not take a generator");
  }
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> items, IterateValue(call.state, call.input));
  return items.empty() ? Value::Undefined("the sequence is empty") : items.back();
}

absl::StatusOr<Value> List(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, IterateValue(call.state, call.input));
  return Value::List(std::move(items));
}

absl::StatusOr<Value> Reverse(const FilterCall& call) {
  if (call.input.is_string()) {
    BATON_RETURN_IF_ERROR(call.state.ChargeBytes(static_cast<int64_t>(call.input.text().size())));
    std::u32string code_points = DecodeText(call.input.text());
    std::reverse(code_points.begin(), code_points.end());
    return Value::String(EncodeText(code_points), call.input.string().is_markup);
  }
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, IterateValue(call.state, call.input));
  std::reverse(items.begin(), items.end());
  return call.input.is_sequence_of(SequenceKind::kIterator) ? Value::List(std::move(items))
                                                            : Value::Iterator(std::move(items));
}

absl::StatusOr<Value> Items(const FilterCall& call) {
  if (call.input.is_undefined()) return Value::Iterator({});
  if (!call.input.is_dict()) {
    return TemplateError("items wants a dict, found ", call.input.TypeName());
  }
  const ValueDict& dict = call.input.dict();
  BATON_RETURN_IF_ERROR(call.state.ChargeElements(3 * static_cast<int64_t>(dict.size())));
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries()) items.push_back(Value::Tuple({key, value}));
  return Value::Iterator(std::move(items));
}

// What sort, unique, min and max compare: the item, or what its attribute holds, strings in lower
// case unless case matters.
absl::StatusOr<Value> ComparedKey(const FilterCall& call, const Value& item,
                                  const std::optional<Value>& attribute, bool case_sensitive) {
  Value key = item;
  if (attribute && !attribute->is_none()) {
    BATON_ASSIGN_OR_RETURN(key, AttributeByPath(call.state, std::move(key), *attribute));
  }
  if (case_sensitive || !key.is_string()) return key;
  BATON_RETURN_IF_ERROR(call.state.ChargeBytes(static_cast<int64_t>(key.text().size())));
  return Value::String(LowerText(key.text()));
}

struct KeyedItem {
  std::vector<Value> keys;
  Value item;
};

absl::Status SortByKeys(RenderState& state, bool reverse, std::vector<KeyedItem>* items) {
  absl::Status failed;
  const auto less = [&](const KeyedItem& a, const KeyedItem& b) {
    const KeyedItem& left = reverse ? b : a;
    const KeyedItem& right = reverse ? a : b;
    for (size_t i = 0; i < left.keys.size() && failed.ok(); ++i) {
      const auto equal = ValuesEqual(state, left.keys[i], right.keys[i]);
      if (equal.ok() && *equal) continue;
      const auto order = CompareValues(state, left.keys[i], right.keys[i]);
      if (!equal.ok()) failed = equal.status();
      if (!order.ok()) failed = order.status();
      return order.ok() && *order < 0;
    }
    return false;
  };
  std::stable_sort(items->begin(), items->end(), less);
  return failed;
}

absl::StatusOr<Value> Sort(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, IterateValue(call.state, call.input));
  const bool case_sensitive = FlagArgument(call.arguments[1], false);
  // Several attributes, separated by commas, compare one after the other.
  std::vector<std::optional<Value>> attributes = {call.arguments[2]};
  if (call.arguments[2] && call.arguments[2]->is_string()) {
    attributes.clear();
    for (std::string& part : SplitText(call.arguments[2]->text(), ",", -1)) {
      attributes.emplace_back(Value::String(std::move(part)));
    }
  }
  std::vector<KeyedItem> keyed;
  for (Value& item : items) {
    KeyedItem entry;
    for (const auto& attribute : attributes) {
      BATON_ASSIGN_OR_RETURN(Value key, ComparedKey(call, item, attribute, case_sensitive));
      entry.keys.push_back(std::move(key));
    }
    entry.item = std::move(item);
    keyed.push_back(std::move(entry));
  }
  BATON_RETURN_IF_ERROR(SortByKeys(call.state, FlagArgument(call.arguments[0], false), &keyed));
  for (size_t i = 0; i < keyed.size(); ++i) items[i] = std::move(keyed[i].item);
  return Value::List(std::move(items));
}

absl::StatusOr<Value> DictSort(const FilterCall& call) {
  if (!call.input.is_dict()) {
    return TemplateError("dictsort wants a dict, found ", call.input.TypeName());
  }
  const bool case_sensitive = FlagArgument(call.arguments[0], false);
  BATON_ASSIGN_OR_RETURN(const auto by, TextArgument(call.arguments[1]));
  if (by && *by != "key" && *by != "value") {
    return TemplateError("dictsort sorts by key or value, found ", *by);
  }
  std::vector<KeyedItem> keyed;
  for (const auto& [key, value] : call.input.dict().entries()) {
    BATON_RETURN_IF_ERROR(call.state.ChargeElements(4));
    BATON_ASSIGN_OR_RETURN(Value compared, ComparedKey(call, by == "value" ? value : key,
                                                       std::nullopt, case_sensitive));
    keyed.push_back({{std::move(compared)}, Value::Tuple({key, value})});
  }
  BATON_RETURN_IF_ERROR(SortByKeys(call.state, FlagArgument(call.arguments[2], false), &keyed));
  std::vector<Value> items;
  for (KeyedItem& entry : keyed) items.push_back(std::move(entry.item));
  return Value::List(std::move(items));
}

absl::StatusOr<Value> Unique(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, IterateValue(call.state, call.input));
  ValueDict seen;
  std::vector<Value> kept;
  for (Value& item : items) {
    BATON_ASSIGN_OR_RETURN(Value key, ComparedKey(call, item, call.arguments[1],
                                                  FlagArgument(call.arguments[0], false)));
    const size_t count = seen.size();
    if (!seen.Set(key, Value::None())) {
      return TemplateError("unique: a value of type ", key.TypeName(), " cannot be hashed");
    }
    if (seen.size() > count) kept.push_back(std::move(item));
  }
  return Value::Iterator(std::move(kept));
}

template <bool largest>
absl::StatusOr<Value> Extreme(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> items, IterateValue(call.state, call.input));
  if (items.empty()) return Value::Undefined("the sequence is empty");
  const bool case_sensitive = FlagArgument(call.arguments[0], false);
  const Value* best = &items[0];
  BATON_ASSIGN_OR_RETURN(Value best_key,
                         ComparedKey(call, items[0], call.arguments[1], case_sensitive));
  for (size_t i = 1; i < items.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(Value key,
                           ComparedKey(call, items[i], call.arguments[1], case_sensitive));
    BATON_ASSIGN_OR_RETURN(const auto order, CompareValues(call.state, key, best_key));
    if (largest ? order > 0 : order < 0) {
      best = &items[i];
      best_key = std::move(key);
    }
  }
  return *best;
}

absl::StatusOr<Value> Batch(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(const TemplateInt width, IntArgument(call.arguments[0], 1));
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> items, IterateValue(call.state, call.input));
  std::vector<Value> batches, batch;
  for (const Value& item : items) {
    if (static_cast<TemplateInt>(batch.size()) == width) {
      batches.push_back(Value::List(std::exchange(batch, {})));
    }
    batch.push_back(item);
  }
  if (batch.empty()) return Value::Iterator(std::move(batches));
  const bool fills = call.arguments[1] && !call.arguments[1]->is_none();
  if (fills && static_cast<TemplateInt>(batch.size()) < width) {
    constexpr TemplateInt kFar = TemplateInt{1} << 40;
    BATON_RETURN_IF_ERROR(call.state.ChargeElements(static_cast<int64_t>(std::min(width, kFar))));
    batch.resize(static_cast<size_t>(width), *call.arguments[1]);
  }
  batches.push_back(Value::List(std::move(batch)));
  return Value::Iterator(std::move(batches));
}

}  // namespace

std::span<const FilterEntry> SequenceFilters() {
  static const auto* const kFilters = new std::vector<FilterEntry>{
      {"length", {}, 0, Length},
      {"count", {}, 0, Length},
      {"default", {"default_value", "boolean"}, 0, Default},
      {"d", {"default_value", "boolean"}, 0, Default},
      {"first", {}, 0, First},
      {"last", {}, 0, Last},
      {"list", {}, 0, List},
      {"reverse", {}, 0, Reverse},
      {"items", {}, 0, Items},
      {"sort", {"reverse", "case_sensitive", "attribute"}, 0, Sort},
      {"dictsort", {"case_sensitive", "by", "reverse"}, 0, DictSort},
      {"unique", {"case_sensitive", "attribute"}, 0, Unique},
      {"min", {"case_sensitive", "attribute"}, 0, Extreme<false>},
      {"max", {"case_sensitive", "attribute"}, 0, Extreme<true>},
      {"batch", {"linecount", "fill_with"}, 1, Batch},
  };
  return *kFilters;
}

}  // namespace baton
