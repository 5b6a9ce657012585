// Jinja's tests (what follows `is`), by name.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/chat/render_state.h"
#include "common/chat/template_object.h"
#include "common/chat/value.h"

namespace baton {

bool IsValueTest(std::string_view name);

// InvalidArgument where Jinja raises.
absl::StatusOr<bool> ApplyValueTest(RenderState& state, std::string_view name, const Value& value,
                                    const CallArguments& arguments);

}  // namespace baton
