// A value with behaviour of its own: namespace, macro, loop, method, global function. Shared by the
// values of one rendering, on that rendering's thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/chat/value.h"

namespace baton {

class RenderState;

// The arguments of a call, evaluated.
struct CallArguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

class TemplateObject {
 public:
  virtual ~TemplateObject() = default;

  // Python's name of the type.
  virtual std::string_view TypeName() const = 0;
  // Python's str().
  virtual absl::StatusOr<std::string> Text(RenderState& state) const = 0;
  // Nothing: there is no such attribute.
  virtual std::optional<Value> GetAttribute(std::string_view name) {
    (void)name;
    return std::nullopt;
  }
  virtual bool IsCallable() const { return true; }
  // InvalidArgument when the arguments do not fit or the object is not callable.
  virtual absl::StatusOr<Value> Call(RenderState& state, const CallArguments& arguments) = 0;
  // As Value::depth(): how deep the values lie that this object holds and never gives up.
  virtual int depth() const { return 1; }
};

}  // namespace baton
