// Equality, order and membership as Python defines them.
#pragma once

#include <compare>
#include <optional>

#include "absl/status/statusor.h"
#include "common/chat/render_state.h"
#include "common/chat/value.h"

namespace baton {

// ==. Values of unlike types are unequal. ResourceExhausted by `state`'s budget.
absl::StatusOr<bool> ValuesEqual(RenderState& state, const Value& left, const Value& right);

// <, >, <= and >= follow from it. InvalidArgument for values Python cannot order; unordered for
// NaN.
absl::StatusOr<std::partial_ordering> CompareValues(RenderState& state, const Value& left,
                                                    const Value& right);

// item in container. InvalidArgument where Python raises TypeError.
absl::StatusOr<bool> ContainsValue(RenderState& state, const Value& container, const Value& item);

// What a for loop would see: elements, characters, keys. Spends an iterator. InvalidArgument when
// the value is not iterable.
absl::StatusOr<std::vector<Value>> IterateValue(RenderState& state, const Value& value);

}  // namespace baton
