#include "common/chat/expression_evaluator.h"

#include <utility>

#include "common/chat/concat.h"
#include "common/chat/filters.h"
#include "common/chat/value_access.h"
#include "common/chat/value_arithmetic.h"
#include "common/chat/value_compare.h"
#include "common/chat/value_dict.h"
#include "common/chat/value_tests.h"
#include "common/chat/value_text.h"
#include "common/check.h"

namespace baton {

absl::StatusOr<Value> ExpressionEvaluator::Evaluate(const Expression& expression,
                                                    const Scope& scope) {
  const DepthGuard guard(state_);
  BATON_RETURN_IF_ERROR(guard.status());
  BATON_RETURN_IF_ERROR(state_.ChargeSteps(1));
  absl::StatusOr<Value> value = Dispatch(expression, scope);
  if (value.ok() && value->depth() > kMaxValueDepth) {
    value = absl::ResourceExhaustedError(
        Concat("a value nests deeper than ", kMaxValueDepth, " levels"));
  }
  if (!value.ok()) state_.NoteErrorLine(expression.line);
  return value;
}

absl::StatusOr<bool> ExpressionEvaluator::IsTrue(const Expression& expression, const Scope& scope) {
  BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(expression, scope));
  return value.Truthy();
}

absl::StatusOr<Value> ExpressionEvaluator::Dispatch(const Expression& expression,
                                                    const Scope& scope) {
  switch (expression.kind) {
    case ExpressionKind::kLiteral:
      return expression.literal;
    case ExpressionKind::kName:
      return EvaluateName(expression, scope);
    case ExpressionKind::kList: {
      BATON_ASSIGN_OR_RETURN(std::vector<Value> items, EvaluateAll(expression, 0, scope));
      return Value::List(std::move(items));
    }
    case ExpressionKind::kTuple: {
      BATON_ASSIGN_OR_RETURN(std::vector<Value> items, EvaluateAll(expression, 0, scope));
      return Value::Tuple(std::move(items));
    }
    case ExpressionKind::kDict:
      return EvaluateDict(expression, scope);
    case ExpressionKind::kAttribute:
    case ExpressionKind::kItem:
      return EvaluateSubscript(expression, scope);
    case ExpressionKind::kSlice:
      return EvaluateSlice(expression, scope);
    case ExpressionKind::kCall:
      return EvaluateCall(expression, scope);
    case ExpressionKind::kFilter:
      return EvaluateFilter(expression, scope);
    case ExpressionKind::kTest:
      return EvaluateTest(expression, scope);
    case ExpressionKind::kUnary: {
      BATON_ASSIGN_OR_RETURN(const Value operand, Evaluate(*expression.children[0], scope));
      return UnaryArithmetic(expression.name, operand);
    }
    case ExpressionKind::kBinary: {
      BATON_ASSIGN_OR_RETURN(const Value left, Evaluate(*expression.children[0], scope));
      BATON_ASSIGN_OR_RETURN(const Value right, Evaluate(*expression.children[1], scope));
      return Arithmetic(state_, expression.name, left, right);
    }
    case ExpressionKind::kConcat:
      return EvaluateConcat(expression, scope);
    case ExpressionKind::kNot:
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
      return EvaluateLogical(expression, scope);
    case ExpressionKind::kCompare:
      return EvaluateCompare(expression, scope);
    case ExpressionKind::kConditional:
      return EvaluateConditional(expression, scope);
  }
  return absl::InternalError("an expression of unknown kind");
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateName(const Expression& name,
                                                        const Scope& scope) {
  const Value* found = scope.Find(name.name);
  if (found != nullptr) return *found;
  return Value::Undefined(Concat("'", name.name, "' is undefined"));
}

absl::StatusOr<std::vector<Value>> ExpressionEvaluator::EvaluateAll(const Expression& parent,
                                                                    size_t first,
                                                                    const Scope& scope) {
  std::vector<Value> values;
  for (size_t i = first; i < parent.children.size(); ++i) {
    BATON_RETURN_IF_ERROR(state_.ChargeElements(1));
    BATON_ASSIGN_OR_RETURN(Value value, Evaluate(*parent.children[i], scope));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateDict(const Expression& expression,
                                                        const Scope& scope) {
  auto dict = std::make_shared<ValueDict>();
  for (size_t i = 0; i + 1 < expression.children.size(); i += 2) {
    BATON_RETURN_IF_ERROR(state_.ChargeElements(2));
    BATON_ASSIGN_OR_RETURN(Value key, Evaluate(*expression.children[i], scope));
    BATON_ASSIGN_OR_RETURN(Value value, Evaluate(*expression.children[i + 1], scope));
    const std::string_view type = key.TypeName();
    if (!dict->Set(std::move(key), std::move(value))) {
      return TemplateError("a value of type ", type, " cannot be a key");
    }
  }
  return Value::Dict(std::move(dict));
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateSubscript(const Expression& expression,
                                                             const Scope& scope) {
  BATON_ASSIGN_OR_RETURN(const Value object, Evaluate(*expression.children[0], scope));
  if (expression.kind == ExpressionKind::kAttribute) {
    return GetAttribute(state_, object, expression.name);
  }
  BATON_ASSIGN_OR_RETURN(const Value key, Evaluate(*expression.children[1], scope));
  return GetItem(state_, object, key);
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateSlice(const Expression& slice,
                                                         const Scope& scope) {
  BATON_ASSIGN_OR_RETURN(const Value object, Evaluate(*slice.children[0], scope));
  SliceBounds bounds;
  Value* const parts[] = {&bounds.start, &bounds.stop, &bounds.step};
  for (size_t i = 0; i < 3; ++i) {
    if (slice.children[i + 1] == nullptr) continue;
    BATON_ASSIGN_OR_RETURN(*parts[i], Evaluate(*slice.children[i + 1], scope));
  }
  return SliceValue(state_, object, bounds);
}

absl::StatusOr<CallArguments> ExpressionEvaluator::EvaluateArguments(const Expression& call,
                                                                     const Scope& scope) {
  CallArguments arguments;
  BATON_ASSIGN_OR_RETURN(arguments.positional, EvaluateAll(call, 1, scope));
  for (const auto& [name, expression] : call.keywords) {
    BATON_ASSIGN_OR_RETURN(Value value, Evaluate(*expression, scope));
    arguments.keywords.emplace_back(name, std::move(value));
  }
  return arguments;
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateCall(const Expression& call, const Scope& scope,
                                                        const ExtraKeyword* extra) {
  BATON_ASSIGN_OR_RETURN(const Value callee, Evaluate(*call.children[0], scope));
  BATON_ASSIGN_OR_RETURN(CallArguments arguments, EvaluateArguments(call, scope));
  if (extra != nullptr) arguments.keywords.push_back(*extra);
  if (callee.is_undefined()) return TemplateError(callee.undefined_reason());
  if (!callee.is_object()) {
    return TemplateError("a value of type ", callee.TypeName(), " cannot be called");
  }
  return callee.object().Call(state_, arguments);
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateFilter(const Expression& filter,
                                                          const Scope& scope) {
  BATON_ASSIGN_OR_RETURN(const Value input, Evaluate(*filter.children[0], scope));
  BATON_ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(filter, scope));
  return ApplyFilter(state_, filter.name, input, arguments);
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateFilterChain(const Expression& filter,
                                                               const Value& input,
                                                               const Scope& scope) {
  const DepthGuard guard(state_);
  BATON_RETURN_IF_ERROR(guard.status());
  Value inner = input;
  if (filter.children[0] != nullptr) {
    BATON_ASSIGN_OR_RETURN(inner, EvaluateFilterChain(*filter.children[0], input, scope));
  }
  BATON_ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(filter, scope));
  absl::StatusOr<Value> value = ApplyFilter(state_, filter.name, inner, arguments);
  if (!value.ok()) state_.NoteErrorLine(filter.line);
  return value;
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateTest(const Expression& test,
                                                        const Scope& scope) {
  BATON_ASSIGN_OR_RETURN(const Value input, Evaluate(*test.children[0], scope));
  BATON_ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(test, scope));
  BATON_ASSIGN_OR_RETURN(const bool outcome, ApplyValueTest(state_, test.name, input, arguments));
  return Value::Bool(outcome);
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateLogical(const Expression& logical,
                                                           const Scope& scope) {
  BATON_ASSIGN_OR_RETURN(Value left, Evaluate(*logical.children[0], scope));
  if (logical.kind == ExpressionKind::kNot) return Value::Bool(!left.Truthy());
  // As in Python, the result is the operand that decides.
  if (left.Truthy() == (logical.kind == ExpressionKind::kOr)) return left;
  return Evaluate(*logical.children[1], scope);
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateConcat(const Expression& concat,
                                                          const Scope& scope) {
  std::string text;
  for (const ExpressionPointer& operand : concat.children) {
    BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*operand, scope));
    BATON_RETURN_IF_ERROR(AppendText(state_, value, &text));
  }
  return Value::String(std::move(text));
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateCompare(const Expression& compare,
                                                           const Scope& scope) {
  BATON_ASSIGN_OR_RETURN(Value left, Evaluate(*compare.children[0], scope));
  // a < b < c means a < b and b < c, each evaluated once.
  for (size_t i = 0; i < compare.operators.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(Value right, Evaluate(*compare.children[i + 1], scope));
    BATON_ASSIGN_OR_RETURN(const bool outcome, Compare(compare.operators[i], left, right));
    if (!outcome) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

absl::StatusOr<bool> ExpressionEvaluator::Compare(const std::string& operation, const Value& left,
                                                  const Value& right) {
  if (operation == "==" || operation == "!=") {
    BATON_ASSIGN_OR_RETURN(const bool equal, ValuesEqual(state_, left, right));
    return equal == (operation == "==");
  }
  if (operation == "in" || operation == "not in") {
    BATON_ASSIGN_OR_RETURN(const bool contained, ContainsValue(state_, right, left));
    return contained == (operation == "in");
  }
  BATON_ASSIGN_OR_RETURN(const std::partial_ordering order, CompareValues(state_, left, right));
  if (operation == "<") return order < 0;
  if (operation == "<=") return order <= 0;
  if (operation == ">") return order > 0;
  return order >= 0;
}

absl::StatusOr<Value> ExpressionEvaluator::EvaluateConditional(const Expression& conditional,
                                                               const Scope& scope) {
  BATON_ASSIGN_OR_RETURN(const bool chosen, IsTrue(*conditional.children[0], scope));
  if (chosen) return Evaluate(*conditional.children[1], scope);
  if (conditional.children[2] != nullptr) return Evaluate(*conditional.children[2], scope);
  return Value::Undefined("the condition of an inline if is false and there is no else");
}

}  // namespace baton
