// Attributes, subscripts and slices as Jinja's sandbox resolves them.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/chat/render_state.h"
#include "common/chat/value.h"

namespace baton {

// object.name: a method first, then the key of a dict; undefined when there is neither.
// InvalidArgument on an undefined object; Unimplemented for a Python attribute not provided here.
absl::StatusOr<Value> GetAttribute(RenderState& state, const Value& object, std::string_view name);

// object[key]: the element first, then, for a string, the attribute.
absl::StatusOr<Value> GetItem(RenderState& state, const Value& object, const Value& key);

struct SliceBounds {
  Value start = Value::None(), stop = Value::None(), step = Value::None();
};
// object[start:stop:step] of strings (by code point), lists, tuples and ranges.
absl::StatusOr<Value> SliceValue(RenderState& state, const Value& object,
                                 const SliceBounds& bounds);

}  // namespace baton
