// The variable `loop` inside a for loop. Owned by the loop's scopes; on the rendering's thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/chat/render_state.h"
#include "common/chat/template_object.h"

namespace baton {

class LoopObject : public TemplateObject, public std::enable_shared_from_this<LoopObject> {
 public:
  // Renders the loop's body over another iterable: what loop(...) calls.
  using Recurse = std::function<absl::StatusOr<Value>(const Value& iterable)>;

  // depth0: how many loops of the same recursive loop lie around. recurse: empty unless recursive.
  LoopObject(std::vector<Value> items, int depth0, Recurse recurse);

  void MoveTo(size_t index) { index_ = index; }
  const std::vector<Value>& items() const { return items_; }

  std::string_view TypeName() const override { return "LoopContext"; }
  absl::StatusOr<std::string> Text(RenderState& state) const override;
  std::optional<Value> GetAttribute(std::string_view name) override;
  absl::StatusOr<Value> Call(RenderState& state, const CallArguments& arguments) override;
  int depth() const override { return items_depth_ + 1; }

 private:
  absl::StatusOr<Value> Cycle(const CallArguments& arguments) const;
  absl::StatusOr<Value> Changed(RenderState& state, const CallArguments& arguments);
  std::optional<Value> GetMethod(std::string_view name);

  const std::vector<Value> items_;
  const int depth0_;
  const Recurse recurse_;
  int items_depth_ = 0;
  size_t index_ = 0;
  bool has_changed_value_ = false;
  Value changed_value_;
};

}  // namespace baton
