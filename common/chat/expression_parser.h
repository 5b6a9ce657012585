// Parses Jinja's expressions with Jinja's precedence. Works on a TokenStream that the template
// parser owns; what this interpreter cannot evaluate is refused here, with its line.
#pragma once

#include <initializer_list>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/chat/template_ast.h"
#include "common/chat/token_stream.h"

namespace baton {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // InvalidArgument: a syntax error; Unimplemented: a construct that is not supported.
  absl::StatusOr<ExpressionPointer> ParseExpression();
  // Without the inline if, as where a statement's own `if` may follow.
  absl::StatusOr<ExpressionPointer> ParseOr();

  struct TupleRules {
    bool with_conditional = true;
    bool in_parentheses = false;     // may be empty
    std::string_view end_name = {};  // a name that also ends it
  };
  // One expression, or several with commas as a tuple.
  absl::StatusOr<ExpressionPointer> ParseTuple(const TupleRules& rules);

  // The filters of {% filter %} (inline_start: without the first "|") and {% set %} blocks; the
  // innermost input is null. Null when there is none.
  absl::StatusOr<ExpressionPointer> ParseFilterChain(bool inline_start);

 private:
  absl::StatusOr<ExpressionPointer> ParseAnd();
  absl::StatusOr<ExpressionPointer> ParseNot();
  absl::StatusOr<ExpressionPointer> ParseCompare();
  using Level = absl::StatusOr<ExpressionPointer> (ExpressionParser::*)();
  absl::StatusOr<ExpressionPointer> ParseBinary(Level operand,
                                                std::initializer_list<std::string_view> operators);
  absl::StatusOr<ExpressionPointer> ParseSum();
  absl::StatusOr<ExpressionPointer> ParseConcat();
  absl::StatusOr<ExpressionPointer> ParseProduct();
  absl::StatusOr<ExpressionPointer> ParsePower();
  absl::StatusOr<ExpressionPointer> ParseFilteredUnary();
  absl::StatusOr<ExpressionPointer> ParseUnary();
  absl::StatusOr<ExpressionPointer> ParsePrimary();
  absl::StatusOr<ExpressionPointer> ParseName();
  absl::StatusOr<ExpressionPointer> ParseList();
  absl::StatusOr<ExpressionPointer> ParseDict();
  absl::StatusOr<ExpressionPointer> ParsePostfix(ExpressionPointer node);
  absl::StatusOr<ExpressionPointer> ParseAttribute(ExpressionPointer node);
  absl::StatusOr<ExpressionPointer> ParseSubscript(ExpressionPointer node);
  absl::StatusOr<ExpressionPointer> ParseCall(ExpressionPointer callee);
  absl::StatusOr<ExpressionPointer> ParseFiltersAndTests(ExpressionPointer node);
  absl::StatusOr<ExpressionPointer> ParseFilter(ExpressionPointer input);
  absl::StatusOr<ExpressionPointer> ParseTest(ExpressionPointer input);
  // "(" arguments ")" onto `call`.
  absl::Status ParseArguments(Expression* call);

  ExpressionPointer New(ExpressionKind kind, int line) const;
  // Appends, refusing trees deeper than the evaluator's recursion may go.
  absl::Status Add(Expression* parent, ExpressionPointer child);

  TokenStream& tokens_;
  int nesting_ = 0;
};

}  // namespace baton
