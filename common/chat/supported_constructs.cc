#include "common/chat/supported_constructs.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "common/chat/concat.h"
#include "common/chat/filters.h"
#include "common/chat/methods.h"
#include "common/chat/template_lexer.h"
#include "common/chat/value_tests.h"

namespace baton {
namespace {

// The text of a literal string argument at `index` (0 is the first), or nothing.
const std::string* LiteralArgument(const Expression& filter, size_t index) {
  if (filter.children.size() <= index + 1) return nullptr;
  const Expression* argument = filter.children[index + 1].get();
  const bool is_text = argument->kind == ExpressionKind::kLiteral && argument->literal.is_string();
  return is_text ? &argument->literal.text() : nullptr;
}

}  // namespace

absl::Status CheckFilterIsSupported(const Expression& filter) {
  if (FindFilter(filter.name) == nullptr) {
    return UnsupportedInTemplate(filter.line, Concat("filter '", filter.name, "'"));
  }
  if (filter.name == "map") {
    const std::string* name = LiteralArgument(filter, 0);
    if (name != nullptr && FindFilter(*name) == nullptr) {
      return UnsupportedInTemplate(filter.line, Concat("filter '", *name, "'"));
    }
  }
  const bool by_attribute = filter.name == "selectattr" || filter.name == "rejectattr";
  if (by_attribute || filter.name == "select" || filter.name == "reject") {
    const std::string* name = LiteralArgument(filter, by_attribute ? 1 : 0);
    if (name != nullptr && !IsValueTest(*name)) {
      return UnsupportedInTemplate(filter.line, Concat("test '", *name, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTestIsSupported(const Expression& test) {
  if (IsValueTest(test.name)) return absl::OkStatus();
  return UnsupportedInTemplate(test.line, Concat("test '", test.name, "'"));
}

absl::Status CheckCallIsSupported(const Expression& callee) {
  static constexpr std::string_view kFunctions[] = {"cycler", "joiner", "lipsum", "gettext",
                                                    "super"};
  if (callee.kind == ExpressionKind::kAttribute && IsUnsupportedMethod(callee.name)) {
    return UnsupportedInTemplate(callee.line, Concat("method '", callee.name, "'"));
  }
  if (callee.kind == ExpressionKind::kName &&
      std::find(std::begin(kFunctions), std::end(kFunctions), callee.name) !=
          std::end(kFunctions)) {
    return UnsupportedInTemplate(callee.line, Concat("function '", callee.name, "'"));
  }
  return absl::OkStatus();
}

}  // namespace baton
