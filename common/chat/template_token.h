// One token of a chat template. A plain value, made by the lexer and read by the parsers.
#pragma once

#include <string>

#include "common/chat/value.h"

namespace baton {

enum class TokenKind {
  kText,           // template text outside tags, white space control applied
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,  // text holds the contents, escapes resolved
  kInteger,
  kFloat,
  kOperator,  // text holds it
  kEnd,
};

struct TemplateToken {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  TemplateInt integer = 0;
  double floating = 0;
  int line = 1;
};

}  // namespace baton
