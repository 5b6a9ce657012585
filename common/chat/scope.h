// The variables of one lexical block of a template, on top of those around it. Shared by the blocks
// and macros that see it; on the rendering's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/chat/value.h"

namespace baton {

class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  // The innermost variable of that name; null when there is none.
  const Value* Find(std::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      const auto found = scope->variables_.find(name);
      if (found != scope->variables_.end()) return &found->second;
    }
    return nullptr;
  }
  // In this block, also where an outer one has the name.
  void Set(std::string_view name, Value value) {
    variables_.insert_or_assign(std::string(name), std::move(value));
  }
  void Clear() { variables_.clear(); }

 private:
  std::shared_ptr<Scope> parent_;
  std::map<std::string, Value, std::less<>> variables_;
};
using ScopePointer = std::shared_ptr<Scope>;

}  // namespace baton
