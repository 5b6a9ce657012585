#include "common/chat/loop_object.h"

#include <algorithm>

#include "common/chat/concat.h"
#include "common/chat/template_function.h"
#include "common/chat/value_compare.h"
#include "common/check.h"

namespace baton {

LoopObject::LoopObject(std::vector<Value> items, int depth0, Recurse recurse)
    : items_(std::move(items)), depth0_(depth0), recurse_(std::move(recurse)) {
  for (const Value& item : items_) items_depth_ = std::max(items_depth_, item.depth());
}

absl::StatusOr<std::string> LoopObject::Text(RenderState&) const {
  return Concat("<LoopContext ", index_ + 1, "/", items_.size(), ">");
}

std::optional<Value> LoopObject::GetAttribute(std::string_view name) {
  const auto number = [](size_t value) { return Value::Int(static_cast<TemplateInt>(value)); };
  const size_t length = items_.size();
  if (name == "index") return number(index_ + 1);
  if (name == "index0") return number(index_);
  if (name == "revindex") return number(length - index_);
  if (name == "revindex0") return number(length - index_ - 1);
  if (name == "first") return Value::Bool(index_ == 0);
  if (name == "last") return Value::Bool(index_ + 1 == length);
  if (name == "length") return number(length);
  if (name == "depth") return Value::Int(depth0_ + 1);
  if (name == "depth0") return Value::Int(depth0_);
  if (name == "previtem") {
    return index_ == 0 ? Value::Undefined("there is no previous item") : items_[index_ - 1];
  }
  if (name == "nextitem") {
    return index_ + 1 == length ? Value::Undefined("there is no next item") : items_[index_ + 1];
  }
  return GetMethod(name);
}

std::optional<Value> LoopObject::GetMethod(std::string_view name) {
  const std::shared_ptr<LoopObject> self = shared_from_this();
  TemplateFunction::Body body;
  if (name == "cycle") {
    body = [self](RenderState&, const CallArguments& arguments) { return self->Cycle(arguments); };
  } else if (name == "changed") {
    body = [self](RenderState& state, const CallArguments& arguments) {
      return self->Changed(state, arguments);
    };
  } else {
    return std::nullopt;
  }
  return Value::Object(
      std::make_shared<TemplateFunction>(std::string(name), std::move(body), depth() + 1));
}

absl::StatusOr<Value> LoopObject::Cycle(const CallArguments& arguments) const {
  if (arguments.positional.empty() || !arguments.keywords.empty()) {
    return TemplateError("loop.cycle wants the values to cycle through");
  }
  return arguments.positional[index_ % arguments.positional.size()];
}

absl::StatusOr<Value> LoopObject::Changed(RenderState& state, const CallArguments& arguments) {
  if (!arguments.keywords.empty()) return TemplateError("loop.changed takes no keyword arguments");
  Value now = Value::Tuple(arguments.positional);
  if (has_changed_value_) {
    BATON_ASSIGN_OR_RETURN(const bool equal, ValuesEqual(state, changed_value_, now));
    if (equal) return Value::Bool(false);
  } else {
    // The value may hold this loop or a chain of others: released one by one at the end.
    state.AtEnd([self = shared_from_this()] { self->changed_value_ = Value(); });
  }
  has_changed_value_ = true;
  changed_value_ = std::move(now);
  return Value::Bool(true);
}

absl::StatusOr<Value> LoopObject::Call(RenderState&, const CallArguments& arguments) {
  if (!recurse_) return TemplateError("only a loop marked 'recursive' can be called");
  if (arguments.positional.size() != 1 || !arguments.keywords.empty()) {
    return TemplateError("loop(...) wants one iterable");
  }
  return recurse_(arguments.positional[0]);
}

}  // namespace baton
