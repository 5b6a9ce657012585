#include "common/chat/namespace_object.h"

#include "common/chat/concat.h"
#include "common/chat/value_text.h"
#include "common/check.h"

namespace baton {

std::shared_ptr<NamespaceObject> NamespaceObject::Create(RenderState& state) {
  auto created = std::make_shared<NamespaceObject>();
  // The copy held by the release keeps chains of namespaces from being destroyed recursively.
  state.AtEnd([created] { created->attributes_.clear(); });
  return created;
}

void NamespaceObject::SetAttribute(std::string_view name, Value value) {
  for (auto& [existing, held] : attributes_) {
    if (existing == name) {
      held = std::move(value);
      return;
    }
  }
  attributes_.emplace_back(std::string(name), std::move(value));
}

std::optional<Value> NamespaceObject::GetAttribute(std::string_view name) {
  // The sandbox withholds names with an underscore in front.
  if (name.starts_with("_")) return std::nullopt;
  for (const auto& [existing, held] : attributes_) {
    if (existing == name) return held;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> NamespaceObject::Text(RenderState& state) const {
  const DepthGuard guard(state);  // a namespace may hold itself
  BATON_RETURN_IF_ERROR(guard.status());
  std::string text = "<Namespace {";
  bool first = true;
  for (const auto& [name, value] : attributes_) {
    Append(&text, first ? "" : ", ", QuotePythonString(name), ": ");
    first = false;
    BATON_RETURN_IF_ERROR(AppendRepr(state, value, &text));
  }
  return text + "}>";
}

absl::StatusOr<Value> NamespaceObject::Call(RenderState&, const CallArguments&) {
  return TemplateError("a namespace cannot be called");
}

}  // namespace baton
