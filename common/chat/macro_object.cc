#include "common/chat/macro_object.h"

#include <algorithm>
#include <utility>

#include "common/chat/concat.h"
#include "common/chat/value_dict.h"
#include "common/chat/value_text.h"
#include "common/check.h"

namespace baton {

MacroObject::MacroObject(StatementEvaluator& evaluator, const Statement& statement,
                         ScopePointer scope)
    : evaluator_(evaluator), statement_(statement), scope_(std::move(scope)) {}

absl::StatusOr<std::string> MacroObject::Text(RenderState&) const {
  return Concat("<Macro ", QuotePythonString(statement_.signature.name), ">");
}

std::optional<Value> MacroObject::GetAttribute(std::string_view name) {
  const MacroSignature& signature = statement_.signature;
  if (name == "name") return Value::String(signature.name);
  if (name == "arguments") {
    std::vector<Value> parameters;
    for (const std::string& parameter : signature.parameters) {
      parameters.push_back(Value::String(parameter));
    }
    return Value::Tuple(std::move(parameters));
  }
  if (name == "caller") return Value::Bool(signature.takes_caller);
  if (name == "catch_varargs") return Value::Bool(signature.takes_varargs);
  if (name == "catch_kwargs") return Value::Bool(signature.takes_kwargs);
  return std::nullopt;
}

absl::StatusOr<Value> MacroObject::Call(RenderState&, const CallArguments& arguments) {
  return evaluator_.CallMacro(statement_, scope_, arguments);
}

Value StatementEvaluator::MakeMacro(const Statement& statement, const ScopePointer& scope) {
  // The scope holds the macro and the macro the scope.
  state_.AtEnd([scope] { scope->Clear(); });
  return Value::Object(std::make_shared<MacroObject>(*this, statement, scope));
}

namespace {

// Takes the keyword argument of that name out of `arguments`.
std::optional<Value> TakeKeyword(CallArguments* arguments, std::string_view name) {
  auto& keywords = arguments->keywords;
  const auto found = std::find_if(keywords.begin(), keywords.end(),
                                  [&](const auto& keyword) { return keyword.first == name; });
  if (found == keywords.end()) return std::nullopt;
  Value value = std::move(found->second);
  keywords.erase(found);
  return value;
}

}  // namespace

absl::Status StatementEvaluator::BindParameters(const MacroSignature& signature,
                                                CallArguments arguments,
                                                const ScopePointer& scope) {
  const size_t count = signature.parameters.size();
  const size_t first_default = count - signature.defaults.size();
  std::vector<std::optional<Value>> bound(count);
  for (size_t i = 0; i < count; ++i) {
    bound[i] = i < arguments.positional.size() ? std::optional<Value>(arguments.positional[i])
                                               : TakeKeyword(&arguments, signature.parameters[i]);
  }
  if (signature.takes_caller) {
    const std::optional<Value> caller = TakeKeyword(&arguments, "caller");
    scope->Set("caller",
               caller && !caller->is_none() ? *caller : Value::Undefined("no caller is defined"));
  }
  std::vector<Value> more;
  for (size_t i = count; i < arguments.positional.size(); ++i) {
    more.push_back(arguments.positional[i]);
  }
  if (signature.takes_varargs) {
    scope->Set("varargs", Value::Tuple(std::move(more)));
  } else if (!more.empty()) {
    return TemplateError("macro '", signature.name, "' takes at most ", count, " arguments, found ",
                         arguments.positional.size());
  }
  if (signature.takes_kwargs) {
    auto kwargs = std::make_shared<ValueDict>();
    for (auto& [name, value] : arguments.keywords) kwargs->Set(name, std::move(value));
    scope->Set("kwargs", Value::Dict(std::move(kwargs)));
  } else if (!arguments.keywords.empty()) {
    return TemplateError("macro '", signature.name, "' takes no keyword argument '",
                         arguments.keywords[0].first, "'");
  }
  for (size_t i = 0; i < count; ++i) {
    Value value =
        Value::Undefined(Concat("parameter '", signature.parameters[i], "' was not provided"));
    if (bound[i]) {
      value = *std::move(bound[i]);
    } else if (i >= first_default) {
      BATON_ASSIGN_OR_RETURN(value,
                             expressions_.Evaluate(*signature.defaults[i - first_default], *scope));
    }
    scope->Set(signature.parameters[i], std::move(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> StatementEvaluator::CallMacro(const Statement& macro,
                                                    const ScopePointer& definition,
                                                    const CallArguments& arguments) {
  const DepthGuard guard(state_);
  BATON_RETURN_IF_ERROR(guard.status());
  auto scope = std::make_shared<Scope>(definition);
  BATON_RETURN_IF_ERROR(BindParameters(macro.signature, arguments, scope));
  std::string text;
  BATON_RETURN_IF_ERROR(Execute(macro.body, scope, &text).status());
  return Value::String(std::move(text));
}

}  // namespace baton
