#include "common/chat/value_tests.h"

#include <unordered_map>

#include "common/chat/filters.h"
#include "common/chat/unicode_case.h"
#include "common/chat/value_arithmetic.h"
#include "common/chat/value_compare.h"
#include "common/chat/value_text.h"
#include "common/check.h"

namespace baton {
namespace {

using Outcome = absl::StatusOr<bool>;

struct TestEntry {
  size_t argument_count;
  // `argument` is null when the test takes none.
  Outcome (*apply)(RenderState& state, const Value& value, const Value* argument);
};

Outcome IsDefined(RenderState&, const Value& value, const Value*) { return !value.is_undefined(); }
Outcome IsUndefined(RenderState&, const Value& value, const Value*) { return value.is_undefined(); }
Outcome IsNone(RenderState&, const Value& value, const Value*) { return value.is_none(); }
Outcome IsBoolean(RenderState&, const Value& value, const Value*) { return value.is_bool(); }
Outcome IsTrue(RenderState&, const Value& value, const Value*) {
  return value.is_bool() && value.boolean();
}
Outcome IsFalse(RenderState&, const Value& value, const Value*) {
  return value.is_bool() && !value.boolean();
}
Outcome IsInteger(RenderState&, const Value& value, const Value*) { return value.is_int(); }
Outcome IsFloat(RenderState&, const Value& value, const Value*) { return value.is_float(); }
Outcome IsNumber(RenderState&, const Value& value, const Value*) { return value.is_number(); }
Outcome IsString(RenderState&, const Value& value, const Value*) { return value.is_string(); }
Outcome IsMapping(RenderState&, const Value& value, const Value*) { return value.is_dict(); }

Outcome IsSequence(RenderState&, const Value& value, const Value*) {
  // An undefined value has, formally, a length and elements.
  return value.is_string() || value.is_dict() || value.is_list_or_tuple() || value.is_undefined() ||
         value.is_sequence_of(SequenceKind::kRange);
}
Outcome IsIterable(RenderState&, const Value& value, const Value*) {
  return value.is_string() || value.is_dict() || value.is_sequence() || value.is_undefined();
}
Outcome IsCallable(RenderState&, const Value& value, const Value*) {
  return value.is_undefined() || (value.is_object() && value.object().IsCallable());
}
Outcome IsSameAs(RenderState&, const Value& value, const Value* other) {
  return value.IsSame(*other);
}

Outcome IsEqual(RenderState& state, const Value& value, const Value* other) {
  return ValuesEqual(state, value, *other);
}
Outcome IsUnequal(RenderState& state, const Value& value, const Value* other) {
  BATON_ASSIGN_OR_RETURN(const bool equal, ValuesEqual(state, value, *other));
  return !equal;
}
Outcome IsLess(RenderState& state, const Value& value, const Value* other) {
  BATON_ASSIGN_OR_RETURN(const auto order, CompareValues(state, value, *other));
  return order < 0;
}
Outcome IsLessOrEqual(RenderState& state, const Value& value, const Value* other) {
  BATON_ASSIGN_OR_RETURN(const auto order, CompareValues(state, value, *other));
  return order <= 0;
}
Outcome IsGreater(RenderState& state, const Value& value, const Value* other) {
  BATON_ASSIGN_OR_RETURN(const auto order, CompareValues(state, value, *other));
  return order > 0;
}
Outcome IsGreaterOrEqual(RenderState& state, const Value& value, const Value* other) {
  BATON_ASSIGN_OR_RETURN(const auto order, CompareValues(state, value, *other));
  return order >= 0;
}
Outcome IsIn(RenderState& state, const Value& value, const Value* container) {
  return ContainsValue(state, *container, value);
}

Outcome HasRemainder(RenderState& state, const Value& value, const Value& divisor, int remainder) {
  BATON_ASSIGN_OR_RETURN(const Value found, Arithmetic(state, "%", value, divisor));
  return ValuesEqual(state, found, Value::Int(remainder));
}
Outcome IsOdd(RenderState& state, const Value& value, const Value*) {
  return HasRemainder(state, value, Value::Int(2), 1);
}
Outcome IsEven(RenderState& state, const Value& value, const Value*) {
  return HasRemainder(state, value, Value::Int(2), 0);
}
Outcome IsDivisibleBy(RenderState& state, const Value& value, const Value* divisor) {
  return HasRemainder(state, value, *divisor, 0);
}

Outcome IsLower(RenderState& state, const Value& value, const Value*) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ValueText(state, value));
  return TextIs(TextClass::kLower, text);
}
Outcome IsUpper(RenderState& state, const Value& value, const Value*) {
  BATON_ASSIGN_OR_RETURN(const std::string text, ValueText(state, value));
  return TextIs(TextClass::kUpper, text);
}
Outcome IsEscaped(RenderState&, const Value& value, const Value*) {
  return value.is_string() && value.string().is_markup;
}
Outcome IsFilter(RenderState&, const Value& value, const Value*) {
  return value.is_string() && FindFilter(value.text()) != nullptr;
}
Outcome IsTest(RenderState&, const Value& value, const Value*) {
  return value.is_string() && IsValueTest(value.text());
}

const std::unordered_map<std::string_view, TestEntry>& Tests() {
  static const auto* const kTests = new std::unordered_map<std::string_view, TestEntry>{
      {"defined", {0, IsDefined}},
      {"undefined", {0, IsUndefined}},
      {"none", {0, IsNone}},
      {"boolean", {0, IsBoolean}},
      {"true", {0, IsTrue}},
      {"false", {0, IsFalse}},
      {"integer", {0, IsInteger}},
      {"float", {0, IsFloat}},
      {"number", {0, IsNumber}},
      {"string", {0, IsString}},
      {"mapping", {0, IsMapping}},
      {"sequence", {0, IsSequence}},
      {"iterable", {0, IsIterable}},
      {"callable", {0, IsCallable}},
      {"sameas", {1, IsSameAs}},
      {"eq", {1, IsEqual}},
      {"equalto", {1, IsEqual}},
      {"==", {1, IsEqual}},
      {"ne", {1, IsUnequal}},
      {"!=", {1, IsUnequal}},
      {"lt", {1, IsLess}},
      {"lessthan", {1, IsLess}},
      {"<", {1, IsLess}},
      {"le", {1, IsLessOrEqual}},
      {"<=", {1, IsLessOrEqual}},
      {"gt", {1, IsGreater}},
      {"greaterthan", {1, IsGreater}},
      {">", {1, IsGreater}},
      {"ge", {1, IsGreaterOrEqual}},
      {">=", {1, IsGreaterOrEqual}},
      {"in", {1, IsIn}},
      {"odd", {0, IsOdd}},
      {"even", {0, IsEven}},
      {"divisibleby", {1, IsDivisibleBy}},
      {"lower", {0, IsLower}},
      {"upper", {0, IsUpper}},
      {"escaped", {0, IsEscaped}},
      {"filter", {0, IsFilter}},
      {"test", {0, IsTest}},
  };
  return *kTests;
}

}  // namespace

bool IsValueTest(std::string_view name) { return Tests().contains(name); }

absl::StatusOr<bool> ApplyValueTest(RenderState& state, std::string_view name, const Value& value,
                                    const CallArguments& arguments) {
  const auto found = Tests().find(name);
  if (found == Tests().end()) return TemplateError("there is no test '", name, "'");
  BATON_RETURN_IF_ERROR(state.ChargeSteps(1));
  const size_t given = arguments.positional.size() + arguments.keywords.size();
  if (given != found->second.argument_count) {
    return TemplateError("the test '", name, "' wants ", found->second.argument_count,
                         " arguments, found ", given);
  }
  const Value* argument = nullptr;
  if (given > 0) {
    argument =
        arguments.positional.empty() ? &arguments.keywords[0].second : &arguments.positional[0];
  }
  return found->second.apply(state, value, argument);
}

}  // namespace baton
