// Jinja's namespace(): the one object whose attributes a template may set. Owned by its RenderState
// and the values that share it; emptied at the end of the rendering, as namespaces may hold each
// other.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/chat/render_state.h"
#include "common/chat/template_object.h"

namespace baton {

class NamespaceObject : public TemplateObject {
 public:
  static std::shared_ptr<NamespaceObject> Create(RenderState& state);

  void SetAttribute(std::string_view name, Value value);

  std::string_view TypeName() const override { return "Namespace"; }
  absl::StatusOr<std::string> Text(RenderState& state) const override;
  std::optional<Value> GetAttribute(std::string_view name) override;
  bool IsCallable() const override { return false; }
  absl::StatusOr<Value> Call(RenderState& state, const CallArguments& arguments) override;

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

}  // namespace baton
