#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "common/chat/filters.h"
#include "common/chat/number_text.h"
#include "common/chat/value_arithmetic.h"
#include "common/chat/value_compare.h"
#include "common/check.h"

namespace baton {
namespace {

// float(value); nothing where Python raises TypeError or ValueError.
std::optional<double> ToFloat(const Value& value) {
  if (value.is_number()) return value.AsDouble();
  return value.is_string() ? ParsePythonFloat(value.text()) : std::nullopt;
}

absl::StatusOr<Value> Int(const FilterCall& call) {
  const Value& input = call.input;
  const Value fallback = call.arguments[0].value_or(Value::Int(0));
  BATON_ASSIGN_OR_RETURN(const TemplateInt base, IntArgument(call.arguments[1], 10));
  if (input.is_undefined()) return TemplateError(input.undefined_reason());
  if (input.is_integral()) return Value::Int(input.AsInt());
  if (input.is_string() && base != 1 && base >= 0 && base <= 36) {
    if (const auto parsed = ParsePythonInt(input.text(), static_cast<int>(base))) {
      return Value::Int(*parsed);
    }
  }
  const std::optional<double> number = ToFloat(input);
  if (!number || std::isnan(*number)) return fallback;
  if (input.is_float() && std::isinf(*number)) {
    return TemplateError("infinity has no integer value");
  }
  if (std::isinf(*number)) return fallback;
  const std::optional<TemplateInt> truncated = TruncateToInt(*number);
  if (!truncated) {
    return absl::UnimplementedError("an integer of more than 128 bits is not supported");
  }
  return Value::Int(*truncated);
}

absl::StatusOr<Value> Float(const FilterCall& call) {
  if (call.input.is_undefined()) return TemplateError(call.input.undefined_reason());
  const std::optional<double> number = ToFloat(call.input);
  if (number) return Value::Float(*number);
  return call.arguments[0].value_or(Value::Float(0));
}

absl::StatusOr<Value> Abs(const FilterCall& call) {
  if (call.input.is_float()) return Value::Float(std::abs(call.input.floating()));
  if (call.input.is_integral() && call.input.AsInt() >= 0) return Value::Int(call.input.AsInt());
  return UnaryArithmetic("-", call.input);
}

// round(value, digits): exact on the binary value, halves to even, as printf rounds.
double RoundToDigits(double value, int digits) {
  if (!std::isfinite(value) || digits > 20 + 308) return value;
  if (digits < 0) {
    const double scale = std::pow(10.0, -digits);
    return std::isinf(scale) ? 0.0 * value : std::nearbyint(value / scale) * scale;
  }
  std::vector<char> buffer(700);
  std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value);
  return std::strtod(buffer.data(), nullptr);
}

// round(int, digits) for digits < 0: halves to even.
absl::StatusOr<Value> RoundInt(TemplateInt value, TemplateInt digits) {
  if (digits >= 0) return Value::Int(value);
  if (digits < -37) return Value::Int(0);
  TemplateInt scale = 1;
  for (; digits < 0; ++digits) scale *= 10;
  TemplateInt quotient = value / scale, remainder = value % scale;
  if (remainder < 0) {
    remainder += scale;
    --quotient;
  }
  const bool up =
      remainder > scale - remainder || (remainder == scale - remainder && (quotient & 1) != 0);
  return Value::Int((quotient + (up ? 1 : 0)) * scale);
}

absl::StatusOr<Value> Round(const FilterCall& call) {
  BATON_ASSIGN_OR_RETURN(const TemplateInt digits, IntArgument(call.arguments[0], 0));
  std::string_view method = "common";
  if (call.arguments[1]) {
    if (!call.arguments[1]->is_string()) return TemplateError("round: the method is no string");
    method = call.arguments[1]->text();
  }
  if (method != "common" && method != "ceil" && method != "floor") {
    return TemplateError("round: the method is common, ceil or floor, found ", method);
  }
  if (!call.input.is_number()) {
    return TemplateError("round wants a number, found ", call.input.TypeName());
  }
  const int places = static_cast<int>(digits > 400 ? 400 : digits < -400 ? -400 : digits);
  if (method == "common") {
    if (call.input.is_integral()) return RoundInt(call.input.AsInt(), digits);
    return Value::Float(RoundToDigits(call.input.floating(), places));
  }
  const double scale = std::pow(10.0, places);
  const double scaled = call.input.AsDouble() * scale;
  if (!std::isfinite(scaled)) return TemplateError("round: the number is not finite");
  const double rounded = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  // Python's ceil and floor give an integer, which has no negative zero.
  return Value::Float((rounded == 0 ? 0.0 : rounded) / scale);
}

absl::StatusOr<Value> Sum(const FilterCall& call) {
  Value total = call.arguments[1].value_or(Value::Int(0));
  if (total.is_string()) return TemplateError("sum does not take strings");
  BATON_ASSIGN_OR_RETURN(const std::vector<Value> items, IterateValue(call.state, call.input));
  const bool by_attribute = call.arguments[0] && !call.arguments[0]->is_none();
  for (Value item : items) {
    if (by_attribute) {
      BATON_ASSIGN_OR_RETURN(item,
                             AttributeByPath(call.state, std::move(item), *call.arguments[0]));
    }
    BATON_ASSIGN_OR_RETURN(total, Arithmetic(call.state, "+", total, item));
  }
  return total;
}

}  // namespace

std::span<const FilterEntry> NumberFilters() {
  static const auto* const kFilters = new std::vector<FilterEntry>{
      {"int", {"default", "base"}, 0, Int},
      {"float", {"default"}, 0, Float},
      {"abs", {}, 0, Abs},
      {"round", {"precision", "method"}, 0, Round},
      {"sum", {"attribute", "start"}, 0, Sum},
  };
  return *kFilters;
}

}  // namespace baton
