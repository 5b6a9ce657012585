#include "common/chat/expression_parser.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/chat/concat.h"
#include "common/chat/supported_constructs.h"
#include "common/check.h"

namespace baton {
namespace {

constexpr int kMaxNesting = 100;
constexpr int kMaxTreeDepth = 200;

}  // namespace

ExpressionPointer ExpressionParser::New(ExpressionKind kind, int line) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

absl::Status ExpressionParser::Add(Expression* parent, ExpressionPointer child) {
  if (child != nullptr) {
    parent->depth = std::max(parent->depth, child->depth + 1);
    if (parent->depth > kMaxTreeDepth) {
      return UnsupportedInTemplate(parent->line,
                                   Concat("an expression of more than ", kMaxTreeDepth, " levels"));
    }
  }
  parent->children.push_back(std::move(child));
  return absl::OkStatus();
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseExpression() {
  ++nesting_;
  const absl::Cleanup leave = [this] { --nesting_; };
  if (nesting_ > kMaxNesting) {
    return UnsupportedInTemplate(
        tokens_.line(), Concat("nesting expressions more than ", kMaxNesting, " levels deep"));
  }
  BATON_ASSIGN_OR_RETURN(ExpressionPointer node, ParseOr());
  while (tokens_.IsName("if")) {
    ExpressionPointer conditional = New(ExpressionKind::kConditional, tokens_.Next().line);
    BATON_ASSIGN_OR_RETURN(ExpressionPointer condition, ParseOr());
    ExpressionPointer otherwise;
    if (tokens_.SkipName("else")) {
      BATON_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    BATON_RETURN_IF_ERROR(Add(conditional.get(), std::move(condition)));
    BATON_RETURN_IF_ERROR(Add(conditional.get(), std::move(node)));
    BATON_RETURN_IF_ERROR(Add(conditional.get(), std::move(otherwise)));
    node = std::move(conditional);
  }
  return node;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseOr() {
  BATON_ASSIGN_OR_RETURN(ExpressionPointer left, ParseAnd());
  while (tokens_.IsName("or")) {
    ExpressionPointer node = New(ExpressionKind::kOr, tokens_.Next().line);
    BATON_RETURN_IF_ERROR(Add(node.get(), std::move(left)));
    BATON_ASSIGN_OR_RETURN(ExpressionPointer right, ParseAnd());
    BATON_RETURN_IF_ERROR(Add(node.get(), std::move(right)));
    left = std::move(node);
  }
  return left;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseAnd() {
  BATON_ASSIGN_OR_RETURN(ExpressionPointer left, ParseNot());
  while (tokens_.IsName("and")) {
    ExpressionPointer node = New(ExpressionKind::kAnd, tokens_.Next().line);
    BATON_RETURN_IF_ERROR(Add(node.get(), std::move(left)));
    BATON_ASSIGN_OR_RETURN(ExpressionPointer right, ParseNot());
    BATON_RETURN_IF_ERROR(Add(node.get(), std::move(right)));
    left = std::move(node);
  }
  return left;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseNot() {
  std::vector<int> lines;
  while (tokens_.IsName("not")) lines.push_back(tokens_.Next().line);
  BATON_ASSIGN_OR_RETURN(ExpressionPointer node, ParseCompare());
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    ExpressionPointer negation = New(ExpressionKind::kNot, *line);
    BATON_RETURN_IF_ERROR(Add(negation.get(), std::move(node)));
    node = std::move(negation);
  }
  return node;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseCompare() {
  const int line = tokens_.line();
  BATON_ASSIGN_OR_RETURN(ExpressionPointer first, ParseSum());
  ExpressionPointer compare;
  for (;;) {
    std::string operation;
    static constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
    if (tokens_.Is(TokenKind::kOperator) &&
        std::find(std::begin(kOperators), std::end(kOperators), tokens_.current().text) !=
            std::end(kOperators)) {
      operation = tokens_.Next().text;
    } else if (tokens_.SkipName("in")) {
      operation = "in";
    } else if (tokens_.IsName("not") && tokens_.ahead().kind == TokenKind::kName &&
               tokens_.ahead().text == "in") {
      tokens_.Next();
      tokens_.Next();
      operation = "not in";
    } else {
      break;
    }
    if (compare == nullptr) {
      compare = New(ExpressionKind::kCompare, line);
      BATON_RETURN_IF_ERROR(Add(compare.get(), std::move(first)));
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPointer operand, ParseSum());
    compare->operators.push_back(std::move(operation));
    BATON_RETURN_IF_ERROR(Add(compare.get(), std::move(operand)));
  }
  return compare != nullptr ? std::move(compare) : std::move(first);
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseBinary(
    Level operand, std::initializer_list<std::string_view> operators) {
  BATON_ASSIGN_OR_RETURN(ExpressionPointer left, (this->*operand)());
  while (tokens_.Is(TokenKind::kOperator) &&
         std::find(operators.begin(), operators.end(), tokens_.current().text) != operators.end()) {
    ExpressionPointer node = New(ExpressionKind::kBinary, tokens_.line());
    node->name = tokens_.Next().text;
    BATON_RETURN_IF_ERROR(Add(node.get(), std::move(left)));
    BATON_ASSIGN_OR_RETURN(ExpressionPointer right, (this->*operand)());
    BATON_RETURN_IF_ERROR(Add(node.get(), std::move(right)));
    left = std::move(node);
  }
  return left;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseSum() {
  return ParseBinary(&ExpressionParser::ParseConcat, {"+", "-"});
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseConcat() {
  BATON_ASSIGN_OR_RETURN(ExpressionPointer first, ParseProduct());
  if (!tokens_.IsOperator("~")) return first;
  ExpressionPointer concat = New(ExpressionKind::kConcat, tokens_.line());
  BATON_RETURN_IF_ERROR(Add(concat.get(), std::move(first)));
  while (tokens_.SkipOperator("~")) {
    BATON_ASSIGN_OR_RETURN(ExpressionPointer operand, ParseProduct());
    BATON_RETURN_IF_ERROR(Add(concat.get(), std::move(operand)));
  }
  return concat;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseProduct() {
  return ParseBinary(&ExpressionParser::ParsePower, {"*", "/", "//", "%"});
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParsePower() {
  return ParseBinary(&ExpressionParser::ParseFilteredUnary, {"**"});
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseFilteredUnary() {
  BATON_ASSIGN_OR_RETURN(ExpressionPointer node, ParseUnary());
  return ParseFiltersAndTests(std::move(node));
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseUnary() {
  std::vector<TemplateToken> signs;
  while (tokens_.IsOperator("-") || tokens_.IsOperator("+")) signs.push_back(tokens_.Next());
  BATON_ASSIGN_OR_RETURN(ExpressionPointer node, ParsePrimary());
  BATON_ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  for (auto sign = signs.rbegin(); sign != signs.rend(); ++sign) {
    ExpressionPointer unary = New(ExpressionKind::kUnary, sign->line);
    unary->name = sign->text;
    BATON_RETURN_IF_ERROR(Add(unary.get(), std::move(node)));
    node = std::move(unary);
  }
  return node;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseTuple(const TupleRules& rules) {
  const int line = tokens_.line();
  ExpressionPointer tuple = New(ExpressionKind::kTuple, line);
  bool is_tuple = false;
  for (;;) {
    const bool ends = tokens_.Is(TokenKind::kVariableEnd) || tokens_.Is(TokenKind::kBlockEnd) ||
                      tokens_.IsOperator(")") ||
                      (!rules.end_name.empty() && tokens_.IsName(rules.end_name));
    if (ends) break;
    BATON_ASSIGN_OR_RETURN(ExpressionPointer element,
                           rules.with_conditional ? ParseExpression() : ParseOr());
    BATON_RETURN_IF_ERROR(Add(tuple.get(), std::move(element)));
    if (!tokens_.SkipOperator(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return tuple;
  if (!tuple->children.empty()) return std::move(tuple->children[0]);
  if (!rules.in_parentheses) return tokens_.Unexpected("an expression");
  return tuple;
}

}  // namespace baton
