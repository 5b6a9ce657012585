#include "common/chat/argument_binder.h"

#include <algorithm>

#include "common/chat/render_state.h"

namespace baton {

absl::StatusOr<BoundArguments> BindArguments(std::string_view callee,
                                             const std::vector<std::string_view>& parameters,
                                             size_t required_count,
                                             const CallArguments& arguments) {
  BoundArguments bound(parameters.size());
  if (arguments.positional.size() > parameters.size()) {
    return TemplateError("'", callee, "' takes at most ", parameters.size(), " arguments, found ",
                         arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.keywords) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) {
      return TemplateError("'", callee, "' takes no keyword argument '", name, "'");
    }
    std::optional<Value>& slot = bound[static_cast<size_t>(found - parameters.begin())];
    if (slot) return TemplateError("'", callee, "' is given '", name, "' twice");
    slot = value;
  }
  for (size_t i = 0; i < required_count; ++i) {
    if (!bound[i]) return TemplateError("'", callee, "' lacks its argument ", i + 1);
  }
  return bound;
}

absl::StatusOr<TemplateInt> IntArgument(const std::optional<Value>& argument,
                                        TemplateInt fallback) {
  if (!argument) return fallback;
  if (!argument->is_integral()) {
    return TemplateError("wanted an integer argument, found ", argument->TypeName());
  }
  return argument->AsInt();
}

absl::StatusOr<std::optional<std::string_view>> TextArgument(const std::optional<Value>& argument) {
  if (!argument || argument->is_none()) return std::nullopt;
  if (!argument->is_string()) {
    return TemplateError("wanted a string argument, found ", argument->TypeName());
  }
  return argument->text();
}

}  // namespace baton
