// The arithmetic operators as Python defines them, strings and lists included.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/chat/render_state.h"
#include "common/chat/value.h"

namespace baton {

// operation: "+", "-", "*", "/", "//", "%", "**". InvalidArgument for operands Python refuses and
// for a division by zero; Unimplemented for integers beyond 128 bits; ResourceExhausted by the
// budget.
absl::StatusOr<Value> Arithmetic(RenderState& state, std::string_view operation, const Value& left,
                                 const Value& right);
// operation: "-" or "+".
absl::StatusOr<Value> UnaryArithmetic(std::string_view operation, const Value& operand);

}  // namespace baton
