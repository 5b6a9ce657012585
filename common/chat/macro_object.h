// A macro, or the caller of a call block, as a value. Shared by the values of one rendering.
#pragma once

#include <string>

#include "common/chat/scope.h"
#include "common/chat/statement_evaluator.h"
#include "common/chat/template_object.h"

namespace baton {

class MacroObject : public TemplateObject {
 public:
  // `scope`: where it is defined, whose variables it sees as they are when it is called.
  MacroObject(StatementEvaluator& evaluator, const Statement& statement, ScopePointer scope);

  std::string_view TypeName() const override { return "Macro"; }
  absl::StatusOr<std::string> Text(RenderState& state) const override;
  std::optional<Value> GetAttribute(std::string_view name) override;
  absl::StatusOr<Value> Call(RenderState& state, const CallArguments& arguments) override;

 private:
  StatementEvaluator& evaluator_;
  const Statement& statement_;
  const ScopePointer scope_;
};

}  // namespace baton
