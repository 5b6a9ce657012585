// A built-in function or a bound part of an object, as a value. Shared by the values of one
// rendering.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "common/chat/concat.h"
#include "common/chat/template_object.h"

namespace baton {

class TemplateFunction : public TemplateObject {
 public:
  using Body = std::function<absl::StatusOr<Value>(RenderState&, const CallArguments&)>;

  // depth: of the values that `body` holds, as Value::depth().
  TemplateFunction(std::string name, Body body, int depth = 1)
      : name_(std::move(name)), body_(std::move(body)), depth_(depth) {}

  std::string_view TypeName() const override { return "function"; }
  absl::StatusOr<std::string> Text(RenderState&) const override {
    return Concat("<function ", name_, ">");
  }
  absl::StatusOr<Value> Call(RenderState& state, const CallArguments& arguments) override {
    return body_(state, arguments);
  }
  int depth() const override { return depth_; }

 private:
  const std::string name_;
  const Body body_;
  const int depth_;
};

}  // namespace baton
