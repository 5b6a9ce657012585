#include "common/chat/statement_evaluator.h"

#include <utility>

#include "common/chat/loop_object.h"
#include "common/chat/namespace_object.h"
#include "common/chat/value_compare.h"
#include "common/chat/value_text.h"
#include "common/check.h"

namespace baton {

using Flow = StatementEvaluator::Flow;

absl::StatusOr<Flow> StatementEvaluator::Execute(const StatementList& statements,
                                                 const ScopePointer& scope, std::string* out) {
  const DepthGuard guard(state_);
  BATON_RETURN_IF_ERROR(guard.status());
  for (const auto& statement : statements) {
    BATON_RETURN_IF_ERROR(state_.ChargeSteps(1));
    absl::StatusOr<Flow> flow = ExecuteOne(*statement, scope, out);
    if (!flow.ok()) state_.NoteErrorLine(statement->line);
    if (!flow.ok() || *flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

absl::StatusOr<Flow> StatementEvaluator::ExecuteOne(const Statement& statement,
                                                    const ScopePointer& scope, std::string* out) {
  switch (statement.kind) {
    case StatementKind::kText:
      BATON_RETURN_IF_ERROR(state_.ChargeOutput(static_cast<int64_t>(statement.text.size())));
      *out += statement.text;
      return Flow::kNext;
    case StatementKind::kOutput: {
      BATON_ASSIGN_OR_RETURN(const Value value,
                             expressions_.Evaluate(*statement.expression, *scope));
      BATON_RETURN_IF_ERROR(Output(value, out));
      return Flow::kNext;
    }
    case StatementKind::kIf:
      return ExecuteIf(statement, scope, out);
    case StatementKind::kFor: {
      BATON_ASSIGN_OR_RETURN(const Value iterable,
                             expressions_.Evaluate(*statement.expression, *scope));
      return RunLoop(statement, iterable, 0, scope, out);
    }
    case StatementKind::kSet: {
      BATON_ASSIGN_OR_RETURN(const Value value,
                             expressions_.Evaluate(*statement.expression, *scope));
      BATON_RETURN_IF_ERROR(Assign(statement.target, value, scope.get()));
      return Flow::kNext;
    }
    case StatementKind::kSetBlock:
      return ExecuteSetBlock(statement, scope);
    case StatementKind::kMacro:
      BATON_RETURN_IF_ERROR(state_.ChargeElements(4));
      scope->Set(statement.signature.name, MakeMacro(statement, scope));
      return Flow::kNext;
    case StatementKind::kCallBlock:
      BATON_RETURN_IF_ERROR(ExecuteCallBlock(statement, scope, out));
      return Flow::kNext;
    case StatementKind::kFilterBlock:
      return ExecuteFilterBlock(statement, scope, out);
    case StatementKind::kWith:
      return ExecuteWith(statement, scope, out);
    case StatementKind::kScope:
      return Execute(statement.body, std::make_shared<Scope>(scope), out);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return absl::InternalError("a statement of unknown kind");
}

absl::Status StatementEvaluator::Output(const Value& value, std::string* out) {
  const size_t before = out->size();
  BATON_RETURN_IF_ERROR(AppendText(state_, value, out));
  return state_.ChargeOutput(static_cast<int64_t>(out->size() - before));
}

absl::StatusOr<Flow> StatementEvaluator::ExecuteIf(const Statement& statement,
                                                   const ScopePointer& scope, std::string* out) {
  for (const ConditionalBranch& branch : statement.branches) {
    BATON_ASSIGN_OR_RETURN(const bool chosen, expressions_.IsTrue(*branch.condition, *scope));
    if (chosen) return Execute(branch.body, scope, out);
  }
  return Execute(statement.otherwise, scope, out);
}

absl::StatusOr<Flow> StatementEvaluator::ExecuteSetBlock(const Statement& statement,
                                                         const ScopePointer& scope) {
  std::string text;
  BATON_ASSIGN_OR_RETURN(const Flow flow,
                         Execute(statement.body, std::make_shared<Scope>(scope), &text));
  if (flow != Flow::kNext) return flow;
  Value value = Value::String(std::move(text));
  if (statement.filter != nullptr) {
    BATON_ASSIGN_OR_RETURN(value,
                           expressions_.EvaluateFilterChain(*statement.filter, value, *scope));
  }
  BATON_RETURN_IF_ERROR(Assign(statement.target, value, scope.get()));
  return Flow::kNext;
}

absl::StatusOr<Flow> StatementEvaluator::ExecuteFilterBlock(const Statement& statement,
                                                            const ScopePointer& scope,
                                                            std::string* out) {
  std::string text;
  BATON_ASSIGN_OR_RETURN(const Flow flow,
                         Execute(statement.body, std::make_shared<Scope>(scope), &text));
  if (flow != Flow::kNext) return flow;
  BATON_ASSIGN_OR_RETURN(
      const Value value,
      expressions_.EvaluateFilterChain(*statement.filter, Value::String(std::move(text)), *scope));
  BATON_RETURN_IF_ERROR(Output(value, out));
  return Flow::kNext;
}

absl::StatusOr<Flow> StatementEvaluator::ExecuteWith(const Statement& statement,
                                                     const ScopePointer& scope, std::string* out) {
  auto inner = std::make_shared<Scope>(scope);
  for (const auto& [target, expression] : statement.assignments) {
    BATON_ASSIGN_OR_RETURN(const Value value, expressions_.Evaluate(*expression, *scope));
    BATON_RETURN_IF_ERROR(Assign(target, value, inner.get()));
  }
  return Execute(statement.body, inner, out);
}

absl::Status StatementEvaluator::Assign(const AssignmentTarget& target, const Value& value,
                                        Scope* scope) {
  if (target.is_tuple) {
    BATON_ASSIGN_OR_RETURN(const std::vector<Value> parts, IterateValue(state_, value));
    if (parts.size() != target.elements.size()) {
      return TemplateError("wanted ", target.elements.size(), " values to unpack, found ",
                           parts.size());
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      BATON_RETURN_IF_ERROR(Assign(target.elements[i], parts[i], scope));
    }
    return absl::OkStatus();
  }
  if (target.attribute.empty()) {
    scope->Set(target.name, value);
    return absl::OkStatus();
  }
  const Value* found = scope->Find(target.name);
  auto* object = found != nullptr && found->is_object()
                     ? dynamic_cast<NamespaceObject*>(&found->object())
                     : nullptr;
  if (object == nullptr) {
    return TemplateError("'", target.name, "' is no namespace: its attributes cannot be set");
  }
  BATON_RETURN_IF_ERROR(state_.ChargeElements(1));
  object->SetAttribute(target.attribute, value);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Value>> StatementEvaluator::LoopItems(const Statement& statement,
                                                                 const Value& iterable,
                                                                 const ScopePointer& scope) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, IterateValue(state_, iterable));
  if (statement.condition == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    Scope filter_scope(scope);
    BATON_RETURN_IF_ERROR(Assign(statement.target, item, &filter_scope));
    BATON_ASSIGN_OR_RETURN(const bool keeps,
                           expressions_.IsTrue(*statement.condition, filter_scope));
    if (keeps) kept.push_back(std::move(item));
  }
  return kept;
}

absl::StatusOr<Flow> StatementEvaluator::RunLoop(const Statement& statement, const Value& iterable,
                                                 int depth0, const ScopePointer& scope,
                                                 std::string* out) {
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, LoopItems(statement, iterable, scope));
  LoopObject::Recurse recurse;
  if (statement.recursive) {
    state_.AtEnd([scope] { scope->Clear(); });
    recurse = [this, &statement, depth0, scope](const Value& inner) -> absl::StatusOr<Value> {
      std::string text;
      BATON_RETURN_IF_ERROR(RunLoop(statement, inner, depth0 + 1, scope, &text).status());
      return Value::String(std::move(text));
    };
  }
  const auto loop = std::make_shared<LoopObject>(std::move(items), depth0, std::move(recurse));
  bool completed = false;  // as in Jinja: the else part also runs after a break in the first round
  for (size_t i = 0; i < loop->items().size(); ++i) {
    BATON_RETURN_IF_ERROR(state_.ChargeSteps(1));
    loop->MoveTo(i);
    auto inner = std::make_shared<Scope>(scope);
    inner->Set("loop", Value::Object(loop));
    BATON_RETURN_IF_ERROR(Assign(statement.target, loop->items()[i], inner.get()));
    BATON_ASSIGN_OR_RETURN(const Flow flow, Execute(statement.body, inner, out));
    completed = completed || flow == Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  if (completed) return Flow::kNext;
  return Execute(statement.otherwise, std::make_shared<Scope>(scope), out);
}

absl::Status StatementEvaluator::ExecuteCallBlock(const Statement& statement,
                                                  const ScopePointer& scope, std::string* out) {
  const ExpressionEvaluator::ExtraKeyword caller("caller", MakeMacro(statement, scope));
  BATON_ASSIGN_OR_RETURN(const Value value,
                         expressions_.EvaluateCall(*statement.expression, *scope, &caller));
  return Output(value, out);
}

}  // namespace baton
