#include "common/chat/template_parser.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "common/chat/concat.h"
#include "common/chat/expression_parser.h"
#include "common/chat/token_stream.h"
#include "common/check.h"

namespace baton {
namespace {

constexpr int kMaxBlockNesting = 60;

using EndNames = std::initializer_list<std::string_view>;

class TemplateParser {
 public:
  explicit TemplateParser(std::vector<TemplateToken> tokens)
      : tokens_(std::move(tokens)), expressions_(tokens_) {}

  absl::StatusOr<StatementList> Parse() { return ParseUntil({}); }

 private:
  using StatementPointer = std::unique_ptr<Statement>;

  // Statements up to a tag that one of `ends` starts; the stream then stands on that name. Without
  // `ends`, up to the end of the template.
  absl::StatusOr<StatementList> ParseUntil(EndNames ends);
  // The same after a tag that opens a block: past the rest of that tag first.
  absl::StatusOr<StatementList> ParseBody(EndNames ends);
  // A body that compiles to a function in Jinja: loops outside of it cannot be left from inside.
  absl::StatusOr<StatementList> ParseFunctionBody(std::string_view end);
  absl::StatusOr<StatementPointer> ParseOutput();
  absl::StatusOr<StatementPointer> ParseStatement();
  absl::StatusOr<StatementPointer> ParseLoopControl(StatementPointer node, bool is_break);
  absl::StatusOr<StatementPointer> ParseIf(StatementPointer node);
  absl::StatusOr<StatementPointer> ParseFor(StatementPointer node);
  absl::StatusOr<StatementPointer> ParseSet(StatementPointer node);
  absl::StatusOr<StatementPointer> ParseMacro(StatementPointer node);
  absl::StatusOr<StatementPointer> ParseCallBlock(StatementPointer node);
  absl::StatusOr<StatementPointer> ParseWith(StatementPointer node);
  absl::StatusOr<AssignmentTarget> ParseTarget(bool with_namespace);
  absl::StatusOr<AssignmentTarget> ParseOneTarget(bool with_namespace);
  absl::Status ParseSignature(MacroSignature* signature);
  // Whether the body from token `begin` to here reads the special name.
  bool Reads(size_t begin, std::string_view name) const;
  void NoteSpecialNames(size_t begin, MacroSignature* signature) const;

  TokenStream tokens_;
  ExpressionParser expressions_;
  int nesting_ = 0;
  int target_nesting_ = 0;
  int loop_depth_ = 0;          // loops that break may leave here
  int lexical_loop_depth_ = 0;  // loops around, functions or not
};

absl::StatusOr<StatementList> TemplateParser::ParseUntil(EndNames ends) {
  ++nesting_;
  const absl::Cleanup leave = [this] { --nesting_; };
  if (nesting_ > kMaxBlockNesting) {
    return UnsupportedInTemplate(
        tokens_.line(), Concat("nesting blocks more than ", kMaxBlockNesting, " levels deep"));
  }
  StatementList statements;
  for (;;) {
    if (tokens_.Is(TokenKind::kEnd)) {
      if (ends.size() != 0) return tokens_.Unexpected(Concat("{% ", *(ends.end() - 1), " %}"));
      return statements;
    }
    const int line = tokens_.line();
    if (tokens_.Is(TokenKind::kText)) {
      statements.push_back(std::make_unique<Statement>(
          Statement{.kind = StatementKind::kText, .line = line, .text = tokens_.Next().text}));
    } else if (tokens_.Is(TokenKind::kVariableBegin)) {
      BATON_ASSIGN_OR_RETURN(StatementPointer output, ParseOutput());
      statements.push_back(std::move(output));
    } else {
      BATON_RETURN_IF_ERROR(tokens_.Expect(TokenKind::kBlockBegin));
      const auto is_current = [this](std::string_view end) { return tokens_.IsName(end); };
      if (std::any_of(ends.begin(), ends.end(), is_current)) return statements;
      BATON_ASSIGN_OR_RETURN(StatementPointer statement, ParseStatement());
      statements.push_back(std::move(statement));
      BATON_RETURN_IF_ERROR(tokens_.Expect(TokenKind::kBlockEnd));
    }
  }
}

absl::StatusOr<StatementList> TemplateParser::ParseBody(EndNames ends) {
  tokens_.SkipOperator(":");
  BATON_RETURN_IF_ERROR(tokens_.Expect(TokenKind::kBlockEnd));
  return ParseUntil(ends);
}

absl::StatusOr<StatementList> TemplateParser::ParseFunctionBody(std::string_view end) {
  const int outer_loops = std::exchange(loop_depth_, 0);
  absl::StatusOr<StatementList> body = ParseBody({end});
  loop_depth_ = outer_loops;
  if (body.ok()) tokens_.Next();
  return body;
}

absl::StatusOr<std::unique_ptr<Statement>> TemplateParser::ParseOutput() {
  auto node = std::make_unique<Statement>();
  node->kind = StatementKind::kOutput;
  node->line = tokens_.Next().line;
  BATON_ASSIGN_OR_RETURN(node->expression, expressions_.ParseTuple({}));
  BATON_RETURN_IF_ERROR(tokens_.Expect(TokenKind::kVariableEnd));
  return node;
}

absl::StatusOr<std::unique_ptr<Statement>> TemplateParser::ParseStatement() {
  auto node = std::make_unique<Statement>();
  node->line = tokens_.line();
  BATON_ASSIGN_OR_RETURN(const std::string name, tokens_.ExpectAnyName());
  if (name == "if") return ParseIf(std::move(node));
  if (name == "for") return ParseFor(std::move(node));
  if (name == "set") return ParseSet(std::move(node));
  if (name == "macro") return ParseMacro(std::move(node));
  if (name == "call") return ParseCallBlock(std::move(node));
  if (name == "with") return ParseWith(std::move(node));
  if (name == "break" || name == "continue") {
    return ParseLoopControl(std::move(node), name == "break");
  }
  if (name == "filter") {
    node->kind = StatementKind::kFilterBlock;
    BATON_ASSIGN_OR_RETURN(node->filter, expressions_.ParseFilterChain(true));
    BATON_ASSIGN_OR_RETURN(node->body, ParseBody({"endfilter"}));
    tokens_.Next();
    return node;
  }
  if (name == "generation") {
    node->kind = StatementKind::kScope;
    BATON_ASSIGN_OR_RETURN(node->body, ParseFunctionBody("endgeneration"));
    return node;
  }
  static constexpr std::string_view kKnownToJinja[] = {"print",   "include", "import",    "from",
                                                       "extends", "block",   "autoescape"};
  if (std::find(std::begin(kKnownToJinja), std::end(kKnownToJinja), name) !=
      std::end(kKnownToJinja)) {
    return UnsupportedInTemplate(node->line, Concat("tag '", name, "'"));
  }
  return TemplateSyntaxError(node->line, Concat("unknown tag '", name, "'"));
}

absl::StatusOr<std::unique_ptr<Statement>> TemplateParser::ParseLoopControl(StatementPointer node,
                                                                            bool is_break) {
  node->kind = is_break ? StatementKind::kBreak : StatementKind::kContinue;
  if (loop_depth_ == 0) {
    return TemplateSyntaxError(
        node->line, Concat("'", is_break ? "break" : "continue", "' stands outside of a loop"));
  }
  return node;
}

absl::StatusOr<std::unique_ptr<Statement>> TemplateParser::ParseIf(StatementPointer node) {
  node->kind = StatementKind::kIf;
  for (;;) {
    ConditionalBranch branch;
    BATON_ASSIGN_OR_RETURN(branch.condition, expressions_.ParseTuple({.with_conditional = false}));
    BATON_ASSIGN_OR_RETURN(branch.body, ParseBody({"elif", "else", "endif"}));
    node->branches.push_back(std::move(branch));
    const std::string end = tokens_.Next().text;
    if (end == "elif") continue;
    if (end == "else") {
      BATON_ASSIGN_OR_RETURN(node->otherwise, ParseBody({"endif"}));
      tokens_.Next();
    }
    return node;
  }
}

absl::StatusOr<std::unique_ptr<Statement>> TemplateParser::ParseFor(StatementPointer node) {
  node->kind = StatementKind::kFor;
  ++lexical_loop_depth_;
  const absl::Cleanup leave = [this] { --lexical_loop_depth_; };
  BATON_ASSIGN_OR_RETURN(node->target, ParseTarget(false));
  BATON_RETURN_IF_ERROR(tokens_.ExpectName("in"));
  BATON_ASSIGN_OR_RETURN(node->expression, expressions_.ParseTuple({.with_conditional = false,
                                                                    .end_name = "recursive"}));
  if (tokens_.SkipName("if")) {
    BATON_ASSIGN_OR_RETURN(node->condition, expressions_.ParseExpression());
  }
  node->recursive = tokens_.SkipName("recursive");
  const int outer_loops = loop_depth_;
  loop_depth_ = node->recursive ? 1 : loop_depth_ + 1;
  absl::StatusOr<StatementList> body = ParseBody({"else", "endfor"});
  loop_depth_ = node->recursive ? 0 : outer_loops;
  BATON_RETURN_IF_ERROR(body.status());
  node->body = *std::move(body);
  if (tokens_.Next().text == "else") {
    BATON_ASSIGN_OR_RETURN(node->otherwise, ParseBody({"endfor"}));
    tokens_.Next();
  }
  loop_depth_ = outer_loops;
  return node;
}

absl::StatusOr<std::unique_ptr<Statement>> TemplateParser::ParseSet(StatementPointer node) {
  BATON_ASSIGN_OR_RETURN(node->target, ParseTarget(true));
  if (tokens_.SkipOperator("=")) {
    node->kind = StatementKind::kSet;
    BATON_ASSIGN_OR_RETURN(node->expression, expressions_.ParseTuple({}));
    return node;
  }
  node->kind = StatementKind::kSetBlock;
  BATON_ASSIGN_OR_RETURN(node->filter, expressions_.ParseFilterChain(false));
  BATON_ASSIGN_OR_RETURN(node->body, ParseBody({"endset"}));
  tokens_.Next();
  return node;
}

absl::StatusOr<AssignmentTarget> TemplateParser::ParseTarget(bool with_namespace) {
  if (++target_nesting_ > kMaxBlockNesting) {
    return UnsupportedInTemplate(tokens_.line(), "an assignment target nested so deeply");
  }
  const absl::Cleanup leave = [this] { --target_nesting_; };
  AssignmentTarget tuple{.is_tuple = true};
  bool has_comma = false;
  while (tokens_.Is(TokenKind::kName) || tokens_.IsOperator("(")) {
    if (tokens_.IsName("in")) break;
    BATON_ASSIGN_OR_RETURN(AssignmentTarget element, ParseOneTarget(with_namespace));
    tuple.elements.push_back(std::move(element));
    if (!tokens_.SkipOperator(",")) break;
    has_comma = true;
  }
  if (tuple.elements.empty()) return tokens_.Unexpected("a name to assign to");
  if (has_comma && tuple.elements.size() == 1) {
    return UnsupportedInTemplate(tokens_.line(), "unpacking a single value");
  }
  if (has_comma) return tuple;
  return std::move(tuple.elements[0]);
}

absl::StatusOr<AssignmentTarget> TemplateParser::ParseOneTarget(bool with_namespace) {
  if (tokens_.SkipOperator("(")) {
    BATON_ASSIGN_OR_RETURN(AssignmentTarget inner, ParseTarget(with_namespace));
    BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
    return inner;
  }
  const int line = tokens_.line();
  AssignmentTarget target{.name = tokens_.Next().text};
  if (with_namespace && tokens_.SkipOperator(".")) {
    BATON_ASSIGN_OR_RETURN(target.attribute, tokens_.ExpectAnyName());
    return target;
  }
  static constexpr std::string_view kLiterals[] = {"true",  "True", "false",
                                                   "False", "none", "None"};
  const bool is_literal =
      std::find(std::begin(kLiterals), std::end(kLiterals), target.name) != std::end(kLiterals);
  if (is_literal || (target.name == "loop" && lexical_loop_depth_ > 0)) {
    return TemplateSyntaxError(line, Concat("'", target.name, "' cannot be assigned to"));
  }
  return target;
}

absl::Status TemplateParser::ParseSignature(MacroSignature* signature) {
  BATON_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
  while (!tokens_.IsOperator(")")) {
    if (!signature->parameters.empty()) BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    const int line = tokens_.line();
    BATON_ASSIGN_OR_RETURN(std::string parameter, tokens_.ExpectAnyName());
    if (std::find(signature->parameters.begin(), signature->parameters.end(), parameter) !=
        signature->parameters.end()) {
      return TemplateSyntaxError(line, Concat("the parameter '", parameter, "' stands twice"));
    }
    if (parameter == "caller" || parameter == "varargs" || parameter == "kwargs") {
      return UnsupportedInTemplate(line, Concat("a parameter named '", parameter, "'"));
    }
    signature->parameters.push_back(std::move(parameter));
    if (tokens_.SkipOperator("=")) {
      BATON_ASSIGN_OR_RETURN(ExpressionPointer value, expressions_.ParseExpression());
      signature->defaults.push_back(std::move(value));
    } else if (!signature->defaults.empty()) {
      return TemplateSyntaxError(line, "a parameter without a default follows one with a default");
    }
  }
  tokens_.Next();
  return absl::OkStatus();
}

bool TemplateParser::Reads(size_t begin, std::string_view name) const {
  for (size_t i = begin; i < tokens_.position(); ++i) {
    if (tokens_.at(i).kind != TokenKind::kName || tokens_.at(i).text != name) continue;
    const TemplateToken& before = tokens_.at(i - 1);
    if (before.kind == TokenKind::kName && before.text == "set") return false;
    const bool is_attribute = before.kind == TokenKind::kOperator && before.text == ".";
    const TemplateToken& after = tokens_.at(i + 1);
    const bool is_keyword = after.kind == TokenKind::kOperator && after.text == "=";
    if (!is_attribute && !is_keyword) return true;
  }
  return false;
}

void TemplateParser::NoteSpecialNames(size_t begin, MacroSignature* signature) const {
  signature->takes_caller = Reads(begin, "caller");
  signature->takes_varargs = Reads(begin, "varargs");
  signature->takes_kwargs = Reads(begin, "kwargs");
}

absl::StatusOr<std::unique_ptr<Statement>> TemplateParser::ParseMacro(StatementPointer node) {
  node->kind = StatementKind::kMacro;
  BATON_ASSIGN_OR_RETURN(node->signature.name, tokens_.ExpectAnyName());
  BATON_RETURN_IF_ERROR(ParseSignature(&node->signature));
  const size_t begin = tokens_.position();
  BATON_ASSIGN_OR_RETURN(node->body, ParseFunctionBody("endmacro"));
  NoteSpecialNames(begin, &node->signature);
  return node;
}

absl::StatusOr<std::unique_ptr<Statement>> TemplateParser::ParseCallBlock(StatementPointer node) {
  node->kind = StatementKind::kCallBlock;
  node->signature.name = "caller";
  if (tokens_.IsOperator("(")) BATON_RETURN_IF_ERROR(ParseSignature(&node->signature));
  BATON_ASSIGN_OR_RETURN(node->expression, expressions_.ParseExpression());
  if (node->expression->kind != ExpressionKind::kCall) {
    return TemplateSyntaxError(node->line, "a call block wants a call");
  }
  const size_t begin = tokens_.position();
  BATON_ASSIGN_OR_RETURN(node->body, ParseFunctionBody("endcall"));
  NoteSpecialNames(begin, &node->signature);
  return node;
}

absl::StatusOr<std::unique_ptr<Statement>> TemplateParser::ParseWith(StatementPointer node) {
  node->kind = StatementKind::kWith;
  while (!tokens_.Is(TokenKind::kBlockEnd)) {
    if (!node->assignments.empty()) BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    BATON_ASSIGN_OR_RETURN(AssignmentTarget target, ParseOneTarget(false));
    BATON_RETURN_IF_ERROR(tokens_.ExpectOperator("="));
    BATON_ASSIGN_OR_RETURN(ExpressionPointer value, expressions_.ParseExpression());
    node->assignments.emplace_back(std::move(target), std::move(value));
  }
  BATON_ASSIGN_OR_RETURN(node->body, ParseBody({"endwith"}));
  tokens_.Next();
  return node;
}

}  // namespace

absl::StatusOr<StatementList> ParseTemplate(std::string_view source) {
  BATON_ASSIGN_OR_RETURN(std::vector<TemplateToken> tokens, LexTemplate(source));
  return TemplateParser(std::move(tokens)).Parse();
}

}  // namespace baton
