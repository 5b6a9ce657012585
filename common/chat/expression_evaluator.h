// Evaluates the expressions of one rendering. Owned by the statement evaluator; on the rendering's
// thread.
#pragma once

#include "absl/status/statusor.h"
#include "common/chat/render_state.h"
#include "common/chat/scope.h"
#include "common/chat/template_ast.h"
#include "common/chat/template_object.h"

namespace baton {

class ExpressionEvaluator {
 public:
  explicit ExpressionEvaluator(RenderState& state) : state_(state) {}

  // InvalidArgument where Jinja raises, ResourceExhausted by the budget; notes the line.
  absl::StatusOr<Value> Evaluate(const Expression& expression, const Scope& scope);
  absl::StatusOr<bool> IsTrue(const Expression& expression, const Scope& scope);

  // Calls with the expression's arguments and `extra` as one more keyword argument.
  using ExtraKeyword = std::pair<std::string, Value>;
  absl::StatusOr<Value> EvaluateCall(const Expression& call, const Scope& scope,
                                     const ExtraKeyword* extra = nullptr);

  // A chain of filters whose innermost input is `input`.
  absl::StatusOr<Value> EvaluateFilterChain(const Expression& filter, const Value& input,
                                            const Scope& scope);

 private:
  absl::StatusOr<Value> Dispatch(const Expression& expression, const Scope& scope);
  absl::StatusOr<Value> EvaluateName(const Expression& name, const Scope& scope);
  absl::StatusOr<std::vector<Value>> EvaluateAll(const Expression& parent, size_t first,
                                                 const Scope& scope);
  absl::StatusOr<Value> EvaluateDict(const Expression& dict, const Scope& scope);
  absl::StatusOr<Value> EvaluateSubscript(const Expression& subscript, const Scope& scope);
  absl::StatusOr<Value> EvaluateSlice(const Expression& slice, const Scope& scope);
  absl::StatusOr<Value> EvaluateFilter(const Expression& filter, const Scope& scope);
  absl::StatusOr<Value> EvaluateTest(const Expression& test, const Scope& scope);
  absl::StatusOr<Value> EvaluateLogical(const Expression& logical, const Scope& scope);
  absl::StatusOr<Value> EvaluateConcat(const Expression& concat, const Scope& scope);
  absl::StatusOr<Value> EvaluateCompare(const Expression& compare, const Scope& scope);
  absl::StatusOr<bool> Compare(const std::string& operation, const Value& left, const Value& right);
  absl::StatusOr<Value> EvaluateConditional(const Expression& conditional, const Scope& scope);
  absl::StatusOr<CallArguments> EvaluateArguments(const Expression& call, const Scope& scope);

  RenderState& state_;
};

}  // namespace baton
