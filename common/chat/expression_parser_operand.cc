// The operands of expressions: literals, names, subscripts, calls, filters, tests.
#include <utility>

#include "common/chat/concat.h"
#include "common/chat/expression_parser.h"
#include "common/chat/supported_constructs.h"
#include "common/check.h"

namespace baton {

absl::StatusOr<ExpressionPointer> ExpressionParser::ParsePrimary() {
  const int line = tokens_.line();
  ExpressionPointer literal = New(ExpressionKind::kLiteral, line);
  switch (tokens_.current().kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString: {
      std::string text;
      while (tokens_.Is(TokenKind::kString)) text += tokens_.Next().text;
      literal->literal = Value::String(std::move(text));
      return literal;
    }
    case TokenKind::kInteger:
      literal->literal = Value::Int(tokens_.Next().integer);
      return literal;
    case TokenKind::kFloat:
      literal->literal = Value::Float(tokens_.Next().floating);
      return literal;
    default:
      break;
  }
  if (tokens_.SkipOperator("(")) {
    BATON_ASSIGN_OR_RETURN(ExpressionPointer node, ParseTuple({.in_parentheses = true}));
    BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
    return node;
  }
  if (tokens_.IsOperator("[")) return ParseList();
  if (tokens_.IsOperator("{")) return ParseDict();
  return tokens_.Unexpected("an expression");
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseName() {
  const TemplateToken& token = tokens_.Next();
  ExpressionPointer node = New(ExpressionKind::kLiteral, token.line);
  if (token.text == "true" || token.text == "True") {
    node->literal = Value::Bool(true);
  } else if (token.text == "false" || token.text == "False") {
    node->literal = Value::Bool(false);
  } else if (token.text == "none" || token.text == "None") {
    node->literal = Value::None();
  } else {
    node->kind = ExpressionKind::kName;
    node->name = token.text;
  }
  return node;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseList() {
  ExpressionPointer list = New(ExpressionKind::kList, tokens_.Next().line);
  while (!tokens_.IsOperator("]")) {
    if (!list->children.empty()) {
      BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.IsOperator("]")) break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPointer element, ParseExpression());
    BATON_RETURN_IF_ERROR(Add(list.get(), std::move(element)));
  }
  tokens_.Next();
  return list;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseDict() {
  ExpressionPointer dict = New(ExpressionKind::kDict, tokens_.Next().line);
  while (!tokens_.IsOperator("}")) {
    if (!dict->children.empty()) {
      BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.IsOperator("}")) break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPointer key, ParseExpression());
    BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(":"));
    BATON_ASSIGN_OR_RETURN(ExpressionPointer value, ParseExpression());
    BATON_RETURN_IF_ERROR(Add(dict.get(), std::move(key)));
    BATON_RETURN_IF_ERROR(Add(dict.get(), std::move(value)));
  }
  tokens_.Next();
  return dict;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParsePostfix(ExpressionPointer node) {
  for (;;) {
    if (tokens_.IsOperator(".")) {
      BATON_ASSIGN_OR_RETURN(node, ParseAttribute(std::move(node)));
    } else if (tokens_.IsOperator("[")) {
      BATON_ASSIGN_OR_RETURN(node, ParseSubscript(std::move(node)));
    } else if (tokens_.IsOperator("(")) {
      BATON_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseAttribute(ExpressionPointer object) {
  const int line = tokens_.Next().line;
  if (tokens_.Is(TokenKind::kInteger)) {
    ExpressionPointer item = New(ExpressionKind::kItem, line);
    ExpressionPointer subscript = New(ExpressionKind::kLiteral, tokens_.line());
    subscript->literal = Value::Int(tokens_.Next().integer);
    BATON_RETURN_IF_ERROR(Add(item.get(), std::move(object)));
    BATON_RETURN_IF_ERROR(Add(item.get(), std::move(subscript)));
    return item;
  }
  ExpressionPointer attribute = New(ExpressionKind::kAttribute, line);
  BATON_ASSIGN_OR_RETURN(attribute->name, tokens_.ExpectAnyName());
  BATON_RETURN_IF_ERROR(Add(attribute.get(), std::move(object)));
  return attribute;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseSubscript(ExpressionPointer object) {
  const int line = tokens_.Next().line;
  ExpressionPointer parts[3];
  int part_count = 0;
  bool is_slice = false;
  for (; part_count < 3; ++part_count) {
    if (!tokens_.IsOperator(":") && !tokens_.IsOperator("]")) {
      BATON_ASSIGN_OR_RETURN(parts[part_count], ParseExpression());
    }
    if (part_count == 2 || !tokens_.SkipOperator(":")) break;
    is_slice = true;
  }
  if (tokens_.IsOperator(",")) return UnsupportedInTemplate(line, "a subscript with a comma");
  if (!is_slice && parts[0] == nullptr) return tokens_.Unexpected("a subscript");
  BATON_RETURN_IF_ERROR(tokens_.ExpectOperator("]"));
  ExpressionPointer node = New(is_slice ? ExpressionKind::kSlice : ExpressionKind::kItem, line);
  BATON_RETURN_IF_ERROR(Add(node.get(), std::move(object)));
  for (int i = 0; i < (is_slice ? 3 : 1); ++i) {
    BATON_RETURN_IF_ERROR(Add(node.get(), std::move(parts[i])));
  }
  return node;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseCall(ExpressionPointer callee) {
  ExpressionPointer call = New(ExpressionKind::kCall, tokens_.line());
  BATON_RETURN_IF_ERROR(CheckCallIsSupported(*callee));
  BATON_RETURN_IF_ERROR(Add(call.get(), std::move(callee)));
  BATON_RETURN_IF_ERROR(ParseArguments(call.get()));
  return call;
}

absl::Status ExpressionParser::ParseArguments(Expression* call) {
  BATON_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
  bool first = true;
  while (!tokens_.IsOperator(")")) {
    if (!first) {
      BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.IsOperator(")")) break;
    }
    first = false;
    if (tokens_.IsOperator("*") || tokens_.IsOperator("**")) {
      return UnsupportedInTemplate(tokens_.line(),
                                   Concat("an argument with '", tokens_.current().text, "'"));
    }
    const bool is_keyword = tokens_.Is(TokenKind::kName) &&
                            tokens_.ahead().kind == TokenKind::kOperator &&
                            tokens_.ahead().text == "=";
    if (!is_keyword) {
      if (!call->keywords.empty()) return tokens_.Unexpected("a keyword argument");
      BATON_ASSIGN_OR_RETURN(ExpressionPointer argument, ParseExpression());
      BATON_RETURN_IF_ERROR(Add(call, std::move(argument)));
      continue;
    }
    std::string name = tokens_.Next().text;
    for (const auto& [other, value] : call->keywords) {
      if (other == name) {
        return TemplateSyntaxError(tokens_.line(),
                                   Concat("the argument '", name, "' is given twice"));
      }
    }
    tokens_.Next();
    BATON_ASSIGN_OR_RETURN(ExpressionPointer value, ParseExpression());
    // Through Add() for its check of the depth.
    BATON_RETURN_IF_ERROR(Add(call, std::move(value)));
    call->keywords.emplace_back(std::move(name), std::move(call->children.back()));
    call->children.pop_back();
  }
  tokens_.Next();
  return absl::OkStatus();
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseFiltersAndTests(ExpressionPointer node) {
  for (;;) {
    if (tokens_.SkipOperator("|")) {
      BATON_ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
    } else if (tokens_.IsName("is")) {
      BATON_ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else if (tokens_.IsOperator("(")) {
      BATON_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseFilter(ExpressionPointer input) {
  ExpressionPointer filter = New(ExpressionKind::kFilter, tokens_.line());
  BATON_ASSIGN_OR_RETURN(filter->name, tokens_.ExpectAnyName());
  BATON_RETURN_IF_ERROR(Add(filter.get(), std::move(input)));
  if (tokens_.IsOperator("(")) BATON_RETURN_IF_ERROR(ParseArguments(filter.get()));
  BATON_RETURN_IF_ERROR(CheckFilterIsSupported(*filter));
  return filter;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseFilterChain(bool inline_start) {
  ExpressionPointer node;
  if (inline_start) {
    BATON_ASSIGN_OR_RETURN(node, ParseFilter(nullptr));
  }
  while (tokens_.SkipOperator("|")) {
    BATON_ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
  }
  return node;
}

absl::StatusOr<ExpressionPointer> ExpressionParser::ParseTest(ExpressionPointer input) {
  const int line = tokens_.Next().line;
  const bool negated = tokens_.SkipName("not");
  ExpressionPointer test = New(ExpressionKind::kTest, line);
  BATON_ASSIGN_OR_RETURN(test->name, tokens_.ExpectAnyName());
  BATON_RETURN_IF_ERROR(Add(test.get(), std::move(input)));
  const bool starts_operand = tokens_.Is(TokenKind::kName) || tokens_.Is(TokenKind::kString) ||
                              tokens_.Is(TokenKind::kInteger) || tokens_.Is(TokenKind::kFloat) ||
                              tokens_.IsOperator("[") || tokens_.IsOperator("{");
  const bool continues = tokens_.IsName("else") || tokens_.IsName("or") || tokens_.IsName("and");
  if (tokens_.IsOperator("(")) {
    BATON_RETURN_IF_ERROR(ParseArguments(test.get()));
  } else if (starts_operand && !continues) {
    if (tokens_.IsName("is")) return tokens_.Unexpected("no second test after 'is'");
    BATON_ASSIGN_OR_RETURN(ExpressionPointer argument, ParsePrimary());
    BATON_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    BATON_RETURN_IF_ERROR(Add(test.get(), std::move(argument)));
  }
  BATON_RETURN_IF_ERROR(CheckTestIsSupported(*test));
  if (!negated) return test;
  ExpressionPointer negation = New(ExpressionKind::kNot, line);
  BATON_RETURN_IF_ERROR(Add(negation.get(), std::move(test)));
  return negation;
}

}  // namespace baton
