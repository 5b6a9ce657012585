#include "common/chat/value_arithmetic.h"

#include <algorithm>
#include <cmath>

#include "common/chat/percent_format.h"
#include "common/chat/python_text.h"
#include "common/check.h"

namespace baton {
namespace {

absl::Status BadOperands(std::string_view operation, const Value& left, const Value& right) {
  if (left.is_undefined()) return TemplateError(left.undefined_reason());
  if (right.is_undefined()) return TemplateError(right.undefined_reason());
  return TemplateError("operator '", operation, "' does not take ", left.TypeName(), " and ",
                       right.TypeName());
}

absl::Status Overflow() {
  return absl::UnimplementedError("an integer of more than 128 bits is not supported");
}

absl::StatusOr<Value> IntPower(TemplateInt base, TemplateInt exponent) {
  if (exponent < 0) {
    if (base == 0) return TemplateError("0 cannot be raised to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  TemplateInt result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return Overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return Overflow();
  }
  return Value::Int(result);
}

absl::StatusOr<Value> IntArithmetic(std::string_view operation, TemplateInt a, TemplateInt b) {
  TemplateInt result = 0;
  if (operation == "+") {
    return __builtin_add_overflow(a, b, &result) ? absl::StatusOr<Value>(Overflow())
                                                 : Value::Int(result);
  }
  if (operation == "-") {
    return __builtin_sub_overflow(a, b, &result) ? absl::StatusOr<Value>(Overflow())
                                                 : Value::Int(result);
  }
  if (operation == "*") {
    return __builtin_mul_overflow(a, b, &result) ? absl::StatusOr<Value>(Overflow())
                                                 : Value::Int(result);
  }
  if (operation == "**") return IntPower(a, b);
  if (b == 0) return TemplateError("division by zero");
  if (operation == "/") {
    return Value::Float(
        static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
  }
  if (b == -1) {  // the one quotient that can overflow
    if (operation == "%") return Value::Int(0);
    return __builtin_sub_overflow(TemplateInt{0}, a, &result) ? absl::StatusOr<Value>(Overflow())
                                                              : Value::Int(result);
  }
  // C++ rounds towards zero, Python down.
  TemplateInt quotient = a / b, remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    --quotient;
    remainder += b;
  }
  return Value::Int(operation == "//" ? quotient : remainder);
}

double FloatModulo(double a, double b) {
  double remainder = std::fmod(a, b);
  if (remainder != 0) {
    if ((b < 0) != (remainder < 0)) remainder += b;
  } else {
    remainder = std::copysign(0.0, b);
  }
  return remainder;
}

double FloatFloorDivide(double a, double b) {
  const double quotient = (a - FloatModulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

absl::StatusOr<Value> FloatPower(double a, double b) {
  if (a == 0 && b < 0) return TemplateError("0.0 cannot be raised to a negative power");
  if (a < 0 && std::floor(b) != b && std::isfinite(a) && std::isfinite(b)) {
    return TemplateError(
        "a negative number to a fractional power is complex, which is not "
        "supported");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) {
    return TemplateError("the result of '**' is out of range");
  }
  return Value::Float(result);
}

absl::StatusOr<Value> FloatArithmetic(std::string_view operation, double a, double b) {
  if (operation == "+") return Value::Float(a + b);
  if (operation == "-") return Value::Float(a - b);
  if (operation == "*") return Value::Float(a * b);
  if (operation == "**") return FloatPower(a, b);
  if (b == 0) return TemplateError("division by zero");
  if (operation == "/") return Value::Float(a / b);
  return Value::Float(operation == "//" ? FloatFloorDivide(a, b) : FloatModulo(a, b));
}

absl::StatusOr<Value> AddStrings(RenderState& state, const Value& left, const Value& right) {
  const bool is_markup = left.string().is_markup || right.string().is_markup;
  const auto side = [&](const Value& value) {
    return is_markup && !value.string().is_markup ? EscapeHtml(value.text()) : value.text();
  };
  BATON_RETURN_IF_ERROR(
      state.ChargeBytes(static_cast<int64_t>(left.text().size() + right.text().size())));
  return Value::String(side(left) + side(right), is_markup);
}

absl::StatusOr<Value> AddLists(RenderState& state, const Value& left, const Value& right) {
  std::vector<Value> items = left.sequence().items;
  const std::vector<Value>& more = right.sequence().items;
  BATON_RETURN_IF_ERROR(state.ChargeElements(static_cast<int64_t>(items.size() + more.size())));
  items.insert(items.end(), more.begin(), more.end());
  return left.sequence().kind == SequenceKind::kList ? Value::List(std::move(items))
                                                     : Value::Tuple(std::move(items));
}

absl::StatusOr<Value> Repeat(RenderState& state, const Value& what, TemplateInt count) {
  constexpr TemplateInt kFar = TemplateInt{1} << 40;  // beyond every budget, safe to multiply
  const int64_t times = static_cast<int64_t>(std::clamp<TemplateInt>(count, 0, kFar));
  const int64_t size =
      static_cast<int64_t>(what.is_string() ? what.text().size() : what.sequence().items.size());
  if (size > (int64_t{1} << 20) && times > (int64_t{1} << 20)) {
    return state.ChargeBytes(INT64_MAX);
  }
  if (what.is_string()) {
    BATON_RETURN_IF_ERROR(state.ChargeBytes(size * times));
    std::string text;
    text.reserve(static_cast<size_t>(size * times));
    if (size != 0)
      for (int64_t i = 0; i < times; ++i) text += what.text();
    return Value::String(std::move(text), what.string().is_markup);
  }
  BATON_RETURN_IF_ERROR(state.ChargeElements(size * times));
  std::vector<Value> items;
  if (size != 0) {
    for (int64_t i = 0; i < times; ++i) {
      items.insert(items.end(), what.sequence().items.begin(), what.sequence().items.end());
    }
  }
  return what.sequence().kind == SequenceKind::kList ? Value::List(std::move(items))
                                                     : Value::Tuple(std::move(items));
}

}  // namespace

absl::StatusOr<Value> Arithmetic(RenderState& state, std::string_view operation, const Value& left,
                                 const Value& right) {
  if (left.is_integral() && right.is_integral()) {
    return IntArithmetic(operation, left.AsInt(), right.AsInt());
  }
  if (left.is_number() && right.is_number()) {
    return FloatArithmetic(operation, left.AsDouble(), right.AsDouble());
  }
  if (operation == "+") {
    if (left.is_string() && right.is_string()) return AddStrings(state, left, right);
    if (left.is_list_or_tuple() && right.is_list_or_tuple() &&
        left.sequence().kind == right.sequence().kind) {
      return AddLists(state, left, right);
    }
  }
  if (operation == "*") {
    const bool left_repeats = left.is_string() || left.is_list_or_tuple();
    const bool right_repeats = right.is_string() || right.is_list_or_tuple();
    if (left_repeats && right.is_integral()) return Repeat(state, left, right.AsInt());
    if (right_repeats && left.is_integral()) return Repeat(state, right, left.AsInt());
  }
  if (operation == "%" && left.is_string()) return PercentFormat(state, left, right);
  return BadOperands(operation, left, right);
}

absl::StatusOr<Value> UnaryArithmetic(std::string_view operation, const Value& operand) {
  if (operand.is_float()) {
    return Value::Float(operation == "-" ? -operand.floating() : operand.floating());
  }
  if (operand.is_integral()) {
    TemplateInt result = operand.AsInt();
    if (operation == "-" && __builtin_sub_overflow(TemplateInt{0}, result, &result)) {
      return Overflow();
    }
    return Value::Int(result);
  }
  if (operand.is_undefined()) return TemplateError(operand.undefined_reason());
  return TemplateError("unary '", operation, "' does not take ", operand.TypeName());
}

}  // namespace baton
