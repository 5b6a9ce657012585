#include "common/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/text/digit_group_table.h"
#include "common/text/split_pattern.h"
#include "common/text/utf8.h"

namespace baton {
namespace {

// Backtracking steps that one match may take. Hugging Face's patterns need a handful a character.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr size_t kJitStackStart = 64 << 10;
constexpr size_t kJitStackMax = 64 << 20;
constexpr uint32_t kHeapLimitKib = 256 << 10;  // Without JIT.

std::string Pcre2Message(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

template <auto kFree>
struct Deleter {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack_free>>;

}  // namespace

// The state of searching one subject: PCRE2's scratch memory and what callouts have learnt.
class RegexSearch {
 public:
  RegexSearch(const Regex& regex, std::string_view subject)
      : regex_(regex),
        subject_(subject),
        data_(pcre2_match_data_create_from_pattern(regex.code_.get(), nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    BATON_CHECK(data_ != nullptr && context_ != nullptr);
    pcre2_set_match_limit(context_.get(), kMatchLimit);
    pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
    if (regex.digit_groups_.empty()) return;
    pcre2_set_callout(context_.get(), &RegexSearch::Callout, this);
    for (const Regex::DigitGroups& groups : regex.digit_groups_) {
      tables_.emplace_back(subject, groups.group_size);
    }
  }

  // True and the match, or false for none.
  absl::StatusOr<bool> Match(size_t start, uint32_t options, RegexMatch& match) {
    int count = Run(start, options);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT && stack_ == nullptr) {
      stack_.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr));
      BATON_CHECK(stack_ != nullptr);
      pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
      count = Run(start, options);
    }
    if (!callout_status_.ok()) return callout_status_;
    if (count == PCRE2_ERROR_NOMATCH) return false;
    if (count < 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "pattern ", regex_.pattern_, ": wanted a match within ", kMatchLimit, " steps from byte ",
          start, " of a text of ", subject_.size(), ", found: ", Pcre2Message(count)));
    }
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data_.get());
    match = {offsets[0], offsets[1]};
    return true;
  }

 private:
  int Run(size_t start, uint32_t options) {
    return pcre2_match(regex_.code_.get(), reinterpret_cast<PCRE2_SPTR>(subject_.data()),
                       subject_.size(), start, options | PCRE2_NO_UTF_CHECK, data_.get(),
                       context_.get());
  }

  // PCRE2 asks whether a digit-group look-ahead holds here: 0 for yes, 1 for no.
  static int Callout(pcre2_callout_block* block, void* self) {
    RegexSearch& search = *static_cast<RegexSearch*>(self);
    absl::StatusOr<bool> holds = search.Holds(block->callout_number, block->current_position);
    if (holds.ok()) return *holds ? 0 : 1;
    search.callout_status_ = holds.status();
    return PCRE2_ERROR_CALLOUT;
  }

  absl::StatusOr<bool> Holds(uint32_t number, size_t offset) {
    const Regex::DigitGroups& groups = regex_.digit_groups_[number];
    return tables_[number].Holds(
        offset, [&](size_t at) { return groups.digit->MatchesAt(subject_, at); },
        [&](size_t at) { return regex_.word_boundary_->MatchesAt(subject_, at); });
  }

  const Regex& regex_;
  std::string_view subject_;
  MatchData data_;
  MatchContext context_;
  JitStack stack_;
  std::vector<DigitGroupTable> tables_;  // By callout number.
  absl::Status callout_status_;
};

void Regex::FreeCode::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

absl::StatusOr<std::unique_ptr<Regex>> Regex::CompilePcre2(const std::string& pattern) {
  const CompileContext context(pcre2_compile_context_create(nullptr));
  BATON_CHECK(context != nullptr);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  // Otherwise a repetition before a callout would never give back what it took.
  if (pattern.find("(?C") != std::string::npos) options |= PCRE2_NO_AUTO_POSSESS;
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  std::unique_ptr<Regex> regex(new Regex);
  regex->pattern_ = pattern;
  regex->code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   options, &error, &error_offset, context.get()));
  if (regex->code_ == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("wanted a regular expression, found \"", pattern,
                                                   "\": ", Pcre2Message(error)));
  }
  // A PCRE2 built without JIT interprets: slower, same matches.
  const int jit = pcre2_jit_compile(regex->code_.get(), PCRE2_JIT_COMPLETE);
  if (jit != 0 && jit != PCRE2_ERROR_JIT_BADOPTION) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted a pattern that compiles to machine code, found \"", pattern,
                     "\": ", Pcre2Message(jit)));
  }
  return regex;
}

absl::StatusOr<std::unique_ptr<Regex>> Regex::Compile(std::string_view oniguruma) {
  if (FindInvalidUtf8(oniguruma) != std::string_view::npos) {
    return absl::InvalidArgumentError("wanted a pattern in UTF-8, found other bytes");
  }
  BATON_ASSIGN_OR_RETURN(const SplitPattern translated, TranslateSplitPattern(oniguruma));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<Regex> regex, CompilePcre2(translated.pcre2));
  regex->pattern_ = std::string(oniguruma);
  for (const DigitGroupLookahead& lookahead : translated.lookaheads) {
    BATON_ASSIGN_OR_RETURN(std::unique_ptr<Regex> digit, CompilePcre2(lookahead.digit));
    regex->digit_groups_.push_back({std::move(digit), lookahead.group_size});
  }
  if (!regex->digit_groups_.empty()) {
    BATON_ASSIGN_OR_RETURN(regex->word_boundary_, CompilePcre2(WordBoundaryPattern()));
  }
  return regex;
}

absl::Status Regex::FindAll(std::string_view subject, std::vector<RegexMatch>& matches) const {
  RegexSearch search(*this, subject);
  size_t start = 0;
  size_t previous_end = std::string_view::npos;
  while (start <= subject.size()) {
    RegexMatch match;
    BATON_ASSIGN_OR_RETURN(const bool found, search.Match(start, 0, match));
    if (!found) break;
    if (match.begin == match.end && match.end == previous_end) {
      if (start >= subject.size()) break;
      NextCodePoint(subject, start);
      continue;
    }
    matches.push_back(match);
    start = previous_end = match.end;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Regex::MatchesAt(std::string_view subject, size_t offset) const {
  RegexMatch match;
  return RegexSearch(*this, subject).Match(offset, PCRE2_ANCHORED, match);
}

}  // namespace baton
