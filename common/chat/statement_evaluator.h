// Executes the statements of one rendering. Owned by ChatTemplate::Render, on its thread; must
// outlive the values that the rendering makes (macros run through it).
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "common/chat/expression_evaluator.h"
#include "common/chat/render_state.h"
#include "common/chat/scope.h"
#include "common/chat/template_ast.h"

namespace baton {

class StatementEvaluator {
 public:
  explicit StatementEvaluator(RenderState& state) : state_(state), expressions_(state) {}

  enum class Flow { kNext, kBreak, kContinue };

  // Appends to `out`. Errors as ExpressionEvaluator::Evaluate.
  absl::StatusOr<Flow> Execute(const StatementList& statements, const ScopePointer& scope,
                               std::string* out);

  // The text of a macro's (or a caller's) body, its parameters bound to `arguments`, in a scope
  // inside `definition`.
  absl::StatusOr<Value> CallMacro(const Statement& macro, const ScopePointer& definition,
                                  const CallArguments& arguments);

 private:
  absl::StatusOr<Flow> ExecuteOne(const Statement& statement, const ScopePointer& scope,
                                  std::string* out);
  absl::StatusOr<Flow> ExecuteIf(const Statement& statement, const ScopePointer& scope,
                                 std::string* out);
  absl::StatusOr<Flow> ExecuteSetBlock(const Statement& statement, const ScopePointer& scope);
  absl::StatusOr<Flow> ExecuteFilterBlock(const Statement& statement, const ScopePointer& scope,
                                          std::string* out);
  absl::StatusOr<Flow> ExecuteWith(const Statement& statement, const ScopePointer& scope,
                                   std::string* out);
  absl::Status ExecuteCallBlock(const Statement& statement, const ScopePointer& scope,
                                std::string* out);
  absl::StatusOr<Flow> RunLoop(const Statement& statement, const Value& iterable, int depth0,
                               const ScopePointer& scope, std::string* out);
  absl::StatusOr<std::vector<Value>> LoopItems(const Statement& statement, const Value& iterable,
                                               const ScopePointer& scope);
  absl::Status Output(const Value& value, std::string* out);
  absl::Status Assign(const AssignmentTarget& target, const Value& value, Scope* scope);
  // A value that calls the macro or caller of `statement`.
  Value MakeMacro(const Statement& statement, const ScopePointer& scope);
  absl::Status BindParameters(const MacroSignature& signature, CallArguments arguments,
                              const ScopePointer& scope);

  RenderState& state_;
  ExpressionEvaluator expressions_;
};

}  // namespace baton
