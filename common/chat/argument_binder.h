// Matches the arguments of a call with a callee's parameters as Python does.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/chat/template_object.h"

namespace baton {

// By position of the parameter; nothing where the call leaves it to the default.
using BoundArguments = std::vector<std::optional<Value>>;

// A parameter whose name starts with "/" takes no keyword. InvalidArgument: too many, unknown,
// given twice, or one of the first `required_count` missing.
absl::StatusOr<BoundArguments> BindArguments(std::string_view callee,
                                             const std::vector<std::string_view>& parameters,
                                             size_t required_count, const CallArguments& arguments);

// Typed access; the default where nothing is bound. InvalidArgument for another type.
absl::StatusOr<TemplateInt> IntArgument(const std::optional<Value>& argument, TemplateInt fallback);
// A None is like nothing.
absl::StatusOr<std::optional<std::string_view>> TextArgument(const std::optional<Value>& argument);
inline bool FlagArgument(const std::optional<Value>& argument, bool fallback) {
  return argument ? argument->Truthy() : fallback;
}

}  // namespace baton
