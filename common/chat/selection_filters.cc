#include <optional>
#include <utility>

#include "common/chat/filters.h"
#include "common/chat/value_compare.h"
#include "common/chat/value_tests.h"
#include "common/check.h"

namespace baton {
namespace {

// map(attribute=..., default=...).
absl::StatusOr<Value> MapAttribute(const FilterCall& call, const std::vector<Value>& items) {
  Value attribute, fallback = Value::None();
  for (const auto& [name, value] : call.all.keywords) {
    if (name == "attribute") {
      attribute = value;
    } else if (name == "default") {
      fallback = value;
    } else {
      return TemplateError("map takes no keyword argument '", name, "'");
    }
  }
  std::vector<Value> mapped;
  for (const Value& item : items) {
    BATON_ASSIGN_OR_RETURN(Value value, AttributeByPath(call.state, item, attribute, &fallback));
    mapped.push_back(std::move(value));
  }
  return Value::Iterator(std::move(mapped));
}

bool HasKeyword(const CallArguments& arguments, std::string_view name) {
  for (const auto& keyword : arguments.keywords) {
    if (keyword.first == name) return true;
  }
  return false;
}

// Arguments after the first `count`.
CallArguments Rest(const CallArguments& arguments, size_t count) {
  CallArguments rest;
  rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(count),
                         arguments.positional.end());
  rest.keywords = arguments.keywords;
  return rest;
}

absl::StatusOr<Value> Map(const FilterCall& call) {
  if (!call.input.Truthy()) return Value::Iterator({});
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> items, IterateValue(call.state, call.input));
  if (call.all.positional.empty()) {
    if (HasKeyword(call.all, "attribute")) return MapAttribute(call, items);
    return TemplateError("map wants the name of a filter or attribute=");
  }
  const Value& name = call.all.positional[0];
  if (!name.is_string()) return TemplateError("map: the filter's name is no string");
  const CallArguments rest = Rest(call.all, 1);
  std::vector<Value> mapped;
  for (const Value& item : items) {
    BATON_ASSIGN_OR_RETURN(Value value, ApplyFilter(call.state, name.text(), item, rest));
    mapped.push_back(std::move(value));
  }
  return Value::Iterator(std::move(mapped));
}

// by_attribute: the first argument names what is tested. wanted: the outcome that keeps an item.
template <bool by_attribute, bool wanted>
absl::StatusOr<Value> Select(const FilterCall& call) {
  if (!call.input.Truthy()) return Value::Iterator({});
  const size_t offset = by_attribute ? 1 : 0;
  const std::vector<Value>& given = call.all.positional;
  if (given.size() < offset) return TemplateError("the filter lacks the attribute's name");
  const bool has_test = given.size() > offset;
  if (has_test && !given[offset].is_string()) return TemplateError("the test's name is no string");
  const CallArguments rest = Rest(call.all, has_test ? offset + 1 : offset);
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> items, IterateValue(call.state, call.input));
  std::vector<Value> kept;
  for (const Value& item : items) {
    Value tested = item;
    if (by_attribute) {
      BATON_ASSIGN_OR_RETURN(tested, AttributeByPath(call.state, item, given[0]));
    }
    bool outcome = tested.Truthy();
    if (has_test) {
      BATON_ASSIGN_OR_RETURN(outcome,
                             ApplyValueTest(call.state, given[offset].text(), tested, rest));
    }
    if (outcome == wanted) kept.push_back(item);
  }
  return Value::Iterator(std::move(kept));
}

}  // namespace

std::span<const FilterEntry> SelectionFilters() {
  static const auto* const kFilters = new std::vector<FilterEntry>{
      {"map", {"*"}, 0, Map},
      {"select", {"*"}, 0, Select<false, true>},
      {"reject", {"*"}, 0, Select<false, false>},
      {"selectattr", {"*"}, 0, Select<true, true>},
      {"rejectattr", {"*"}, 0, Select<true, false>},
  };
  return *kFilters;
}

}  // namespace baton
