// A parsed chat template: what the parsers make and the evaluator walks. Owned by its ChatTemplate,
// never changed after parsing, read by any number of threads.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/chat/value.h"

namespace baton {

enum class ExpressionKind {
  kLiteral,    // literal
  kName,       // name
  kList,       // children: elements
  kTuple,      // children: elements
  kDict,       // children: key, value, key, value ...
  kAttribute,  // children: object; name
  kItem,       // children: object, subscript
  kSlice,      // children: object, start, stop, step; null when left out
  kCall,       // children: callee, positional arguments ...; keywords
  kFilter,     // children: input (null in a filter block), positional arguments ...; name; keywords
  kTest,       // as kFilter
  kNot,        // children: operand
  kUnary,      // children: operand; name: "-" or "+"
  kBinary,     // children: left, right; name: the operator
  kConcat,     // children: operands of ~
  kAnd,        // children: left, right
  kOr,         // children: left, right
  kCompare,    // children: operands; operators: one less than the operands
  kConditional,  // children: condition, then, else; else may be null
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kLiteral;
  int line = 0;
  int depth = 1;  // of the tree below
  std::string name;
  Value literal;
  std::vector<std::unique_ptr<Expression>> children;
  std::vector<std::pair<std::string, std::unique_ptr<Expression>>> keywords;
  std::vector<std::string> operators;
};
using ExpressionPointer = std::unique_ptr<Expression>;

// Where an assignment or a loop puts a value.
struct AssignmentTarget {
  std::string name;                        // of the variable, or of the namespace
  std::string attribute;                   // not empty: namespace.attribute
  std::vector<AssignmentTarget> elements;  // not empty: a tuple of targets
  bool is_tuple = false;
};

struct MacroSignature {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPointer> defaults;  // of the last parameters
  bool takes_caller = false, takes_varargs = false, takes_kwargs = false;
};

struct Statement;
using StatementList = std::vector<std::unique_ptr<Statement>>;

struct ConditionalBranch {
  ExpressionPointer condition;
  StatementList body;
};

enum class StatementKind {
  kText,         // text
  kOutput,       // expression
  kIf,           // branches; otherwise
  kFor,          // target in expression if condition: body; otherwise; recursive
  kSet,          // target = expression
  kSetBlock,     // target = body, through filter if there is one
  kMacro,        // signature, body
  kCallBlock,    // expression (a call), signature and body of its caller
  kFilterBlock,  // body through filter
  kWith,         // assignments, body
  kScope,        // body in a scope of its own: {% generation %}
  kBreak,
  kContinue,
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 0;
  std::string text;
  ExpressionPointer expression;
  ExpressionPointer condition;
  ExpressionPointer filter;
  AssignmentTarget target;
  std::vector<ConditionalBranch> branches;
  std::vector<std::pair<AssignmentTarget, ExpressionPointer>> assignments;
  StatementList body;
  StatementList otherwise;
  MacroSignature signature;
  bool recursive = false;
};

}  // namespace baton
