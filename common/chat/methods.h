// Methods of Python's str, dict, list and tuple that templates may call.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/chat/argument_binder.h"
#include "common/chat/render_state.h"
#include "common/chat/value.h"

namespace baton {

// What a method gets: `self` has the type that the method belongs to.
struct MethodCall {
  RenderState& state;
  const Value& self;
  BoundArguments arguments;
};

struct MethodEntry {
  std::string_view name;
  std::vector<std::string_view> parameters;  // as BindArguments
  size_t required_count;
  absl::StatusOr<Value> (*apply)(const MethodCall& call);
};

std::span<const MethodEntry> StringMethods();
std::span<const MethodEntry> DictMethods();
std::span<const MethodEntry> ListMethods();  // of tuples too

// The method bound to `self`. Nothing: Python has none of that name. Undefined: the immutable
// sandbox withholds it (list.append ...). Unimplemented: Python has it, this interpreter does not.
absl::StatusOr<std::optional<Value>> FindMethod(const Value& self, std::string_view name);

// Whether Python has a method of that name on a built-in type that nothing here provides.
bool IsUnsupportedMethod(std::string_view name);

}  // namespace baton
