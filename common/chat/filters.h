// Jinja's filters, by name.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/chat/argument_binder.h"
#include "common/chat/render_state.h"
#include "common/chat/value.h"

namespace baton {

struct FilterCall {
  RenderState& state;
  const Value& input;
  BoundArguments arguments;
  const CallArguments& all;  // as written, for filters that pass them on
};

struct FilterEntry {
  std::string_view name;
  std::vector<std::string_view> parameters;  // as BindArguments; {"*"}: any, bound by the filter
  size_t required_count;
  absl::StatusOr<Value> (*apply)(const FilterCall& call);
};

std::span<const FilterEntry> TextFilters();
std::span<const FilterEntry> NumberFilters();
std::span<const FilterEntry> SequenceFilters();
std::span<const FilterEntry> SelectionFilters();

// Null when there is none.
const FilterEntry* FindFilter(std::string_view name);

// InvalidArgument where Jinja raises; ResourceExhausted by the budget.
absl::StatusOr<Value> ApplyFilter(RenderState& state, std::string_view name, const Value& input,
                                  const CallArguments& arguments);

// The value reached from `item` through a dotted path (or an index), as attribute= arguments name
// it. `fallback`, unless null or None, stands for every undefined value on the way.
absl::StatusOr<Value> AttributeByPath(RenderState& state, Value item, const Value& path,
                                      const Value* fallback = nullptr);

}  // namespace baton
