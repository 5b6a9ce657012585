#include "common/text/split_pattern.h"

#include <algorithm>
#include <array>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/text/absl_view.h"
#include "common/text/unicode_additions.h"

namespace baton {
namespace {

constexpr size_t kMaxPatternBytes = 64 << 10;
constexpr int kMaxRepeat = 1000;
constexpr size_t kMaxLookaheadCount = 100;  // PCRE2 numbers callouts up to 255.

// White_Space and its complement. PCRE2's \s has U+180E too.
constexpr char kSpace[] =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";
constexpr char kNotSpace[] =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"
    "\\x{3001}-\\x{10ffff}";
// Alphabetic characters outside L, M and N: circled and squared letters.
constexpr char kOtherAlphabetic[] =
    "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}";
// The Latin-1 numbers that Oniguruma alone counts as word characters.
constexpr char kLatin1Numbers[] = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
constexpr char kJoinControls[] = "\\x{200c}\\x{200d}";

constexpr std::array<std::string_view, 25> kCategories = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd",
    "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp"};

struct Script {
  std::string_view name;
  std::string_view items;
};
constexpr Script kScripts[] = {
    {"Han", "\\p{sc:Han}\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}"},
    {"Hiragana", "\\p{sc:Hiragana}\\x{1b132}"},
    {"Katakana", "\\p{sc:Katakana}\\x{1b155}"},
    {"Hangul", "\\p{sc:Hangul}"}};

// Class items of a Unicode property by its name; empty when it is not a supported one.
std::string PropertyItems(std::string_view name) {
  std::string items;
  for (const std::string_view category : kCategories) {
    if (category == name || (name.size() == 1 && category[0] == name[0])) {
      if (items.empty()) items = absl::StrCat("\\p{", AbslView(name), "}");
      absl::StrAppend(&items, AbslView(UnicodeAdditions(category)));
    }
  }
  for (const Script& script : kScripts) {
    if (script.name == name) items = std::string(script.items);
  }
  return items;
}

std::string WordItems() {
  return absl::StrCat(PropertyItems("L"), PropertyItems("M"), PropertyItems("Nd"),
                      PropertyItems("Nl"), PropertyItems("Pc"), kOtherAlphabetic);
}

std::string OnigurumaWordItems() { return absl::StrCat(WordItems(), kLatin1Numbers); }

// What an escape stands for.
struct Escape {
  std::string items;      // Class items; empty for an assertion.
  std::string assertion;  // \b, \B, \A, \z.
  bool negated = false;   // The complement of `items`.
};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : text_(pattern) {}

  absl::StatusOr<SplitPattern> Run() {
    if (text_.size() > kMaxPatternBytes) return Refuse("a pattern of at most 64 KiB");
    while (at_ < text_.size()) BATON_RETURN_IF_ERROR(Step());
    if (!groups_.empty()) return Refuse("a closing parenthesis");
    return std::move(result_);
  }

 private:
  absl::Status Refuse(std::string_view wanted) const {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted ", AbslView(wanted), " at byte ", at_, " of the pattern, found \"",
                     AbslView(text_.substr(std::min(at_, text_.size()), 24)), "\""));
  }

  bool Peek(std::string_view wanted) const { return text_.substr(at_).starts_with(wanted); }
  bool Take(std::string_view wanted) {
    if (!Peek(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  void Emit(std::string_view piece) { result_.pcre2.append(piece); }

  absl::Status Step() {
    const char c = text_[at_];
    if (c == '(') return TakeDigitGroups() ? absl::OkStatus() : Open();
    if (c == '[') return Class();
    if (c == '\\') return EscapeOutsideClass();
    if (c == '*' || c == '+' || c == '?' || c == '{') return Quantifier();
    if (c == ')') {
      if (groups_.empty()) return Refuse("an opening parenthesis first");
      groups_.pop_back();
    }
    ++at_;
    result_.pcre2.push_back(c);
    return absl::OkStatus();
  }

  absl::Status Open() {
    static constexpr std::string_view kLook[] = {"(?=", "(?!", "(?<=", "(?<!"};
    static constexpr std::string_view kPlain[] = {"(?:", "(?>", "(?i:"};
    for (const std::string_view opening : kLook) {
      if (Take(opening)) return Emit(opening), groups_.push_back(true), absl::OkStatus();
    }
    for (const std::string_view opening : kPlain) {
      if (Take(opening)) return Emit(opening), groups_.push_back(false), absl::OkStatus();
    }
    if (Peek("(?") || Peek("(*")) return Refuse("a plain, look-around, atomic or (?i:...) group");
    ++at_;
    Emit("(?:");
    groups_.push_back(false);
    return absl::OkStatus();
  }

  bool TakeDigitGroups() {
    static constexpr const char* kDigits[] = {"\\d", "\\p{Nd}", "[0-9]"};
    static constexpr const char* kOpenings[] = {"(?=(?:", "(?=("};
    for (const char* opening : kOpenings) {
      for (const char* digit : kDigits) {
        for (char size = '2'; size <= '9'; ++size) {
          const std::string spelled =
              absl::StrCat(opening, digit, "{", std::string(1, size), "})*\\b)");
          if (result_.lookaheads.size() >= kMaxLookaheadCount || !Take(spelled)) continue;
          const std::string items = digit[0] == '[' ? "0-9" : PropertyItems("Nd");
          Emit(absl::StrCat("(?C", result_.lookaheads.size(), ")"));
          result_.lookaheads.push_back({absl::StrCat("[", items, "]"), size - '0'});
          return true;
        }
      }
    }
    return false;
  }

  absl::Status Quantifier() {
    const size_t start = at_;
    bool unbounded = false;
    bool interval = false;
    std::string quantifier;
    if (text_[at_] == '{') {
      BATON_RETURN_IF_ERROR(Interval(quantifier, unbounded));
      interval = true;
    } else {
      quantifier = std::string(1, text_[at_]);
      unbounded = text_[at_++] != '?';
    }
    const bool in_look = std::find(groups_.begin(), groups_.end(), true) != groups_.end();
    if (unbounded && in_look) {
      at_ = start;
      return Refuse("bounded repetition inside a look-around");
    }
    // After an interval Oniguruma reads `+` as a second repetition and `?` depends on its form.
    if (interval && (Peek("+") || Peek("?") || Peek("*") || Peek("{"))) {
      return Refuse("nothing more on a counted repetition");
    }
    if (Peek("+") || Peek("?")) quantifier.push_back(text_[at_++]);
    if (Peek("+") || Peek("?") || Peek("*") || Peek("{")) return Refuse("one repetition at a time");
    Emit(quantifier);
    return absl::OkStatus();
  }

  std::optional<int> Number() {
    int value = 0;
    const size_t start = at_;
    while (at_ < text_.size() && absl::ascii_isdigit(text_[at_]) && value <= kMaxRepeat) {
      value = value * 10 + (text_[at_++] - '0');
    }
    return at_ == start ? std::nullopt : std::optional<int>(value);
  }

  absl::Status Interval(std::string& quantifier, bool& unbounded) {
    const size_t start = at_++;
    const std::optional<int> low = Number();
    const bool range = Take(",");
    const std::optional<int> high = range ? Number() : low;
    const bool closed = Take("}");
    if (!closed || (!low && !high) || low.value_or(0) > kMaxRepeat ||
        high.value_or(0) > kMaxRepeat || (high && low.value_or(0) > *high)) {
      at_ = start;
      return Refuse("{n}, {n,}, {,m} or {n,m} up to 1000 (or \\{)");
    }
    unbounded = !high.has_value();
    quantifier = absl::StrCat("{", low.value_or(0), ",", high ? absl::StrCat(*high) : "", "}");
    return absl::OkStatus();
  }

  absl::Status EscapeOutsideClass() {
    BATON_ASSIGN_OR_RETURN(const Escape escape, TakeEscape(/*in_class=*/false));
    if (!escape.assertion.empty()) {
      Emit(escape.assertion);
    } else {
      Emit(absl::StrCat(escape.negated ? "[^" : "[", escape.items, "]"));
    }
    return absl::OkStatus();
  }

  absl::Status Class() {
    const size_t start = at_++;
    Emit(Take("^") ? "[^" : "[");
    bool empty = true;
    while (at_ < text_.size() && text_[at_] != ']') {
      if (Peek("[") || Peek("&&")) return Refuse("no class inside a class and no && (or \\[)");
      if (text_[at_] == '\\') {
        BATON_ASSIGN_OR_RETURN(const Escape escape, TakeEscape(/*in_class=*/true));
        Emit(escape.items);
      } else {
        result_.pcre2.push_back(text_[at_++]);
      }
      empty = false;
    }
    if (empty || !Take("]")) {
      at_ = start;
      return Refuse("a closed, non-empty class");
    }
    Emit("]");
    return absl::OkStatus();
  }

  absl::StatusOr<Escape> TakeEscape(bool in_class) {
    const size_t start = at_++;
    if (at_ >= text_.size()) return Refuse("a character after the backslash");
    const char c = text_[at_++];
    if (c == 'p' || c == 'P') return TakeProperty(start, in_class);
    if (c == 's') return Escape{std::string(kSpace)};
    if (c == 'S') return Escape{std::string(kNotSpace)};
    if (c == 'd') return Escape{PropertyItems("Nd")};
    if (c == 'w') return Escape{OnigurumaWordItems()};
    if (!in_class) {
      if (c == 'D') return Escape{PropertyItems("Nd"), "", true};
      if (c == 'W') return Escape{OnigurumaWordItems(), "", true};
      if (c == 'b') return Escape{"", WordBoundaryPattern()};
      if (c == 'B') return Escape{"", absl::StrCat("(?!", WordBoundaryPattern(), ")")};
      if (c == 'A' || c == 'z') return Escape{"", std::string("\\") + c};
    }
    if (c == 'x' || c == 'u') return TakeCodePoint(start, c);
    static constexpr std::string_view kControls =
        "t\x09n\x0av\x0b"
        "f\x0cr\x0d"
        "e\x1b";
    for (size_t i = 0; i < kControls.size(); i += 2) {
      if (kControls[i] == c) {
        return Escape{absl::StrCat("\\x{", absl::Hex(static_cast<int>(kControls[i + 1])), "}")};
      }
    }
    if (absl::ascii_ispunct(c) || c == ' ') {
      return Escape{absl::StrCat("\\x{", absl::Hex(static_cast<int>(c)), "}")};
    }
    at_ = start;
    return Refuse(
        "one of \\s \\S \\d \\D \\w \\W \\b \\B \\A \\z \\p \\P \\x \\u \\t \\n \\v \\f \\r "
        "\\e or an escaped punctuation mark (\\D, \\W, \\b, \\B, \\A, \\z outside classes)");
  }

  absl::StatusOr<Escape> TakeProperty(size_t start, bool in_class) {
    bool negated = text_[at_ - 1] == 'P';
    const size_t end = text_.find('}', at_);
    if (!Take("{") || end == std::string_view::npos) {
      at_ = start;
      return Refuse("\\p{NAME}");
    }
    if (Take("^")) negated = !negated;
    const std::string items = PropertyItems(text_.substr(at_, end - at_));
    if (items.empty() || (negated && in_class)) {
      at_ = start;
      return Refuse(
          negated && in_class
              ? "no negated property inside a class"
              : "a general category of L, M, N, P, S or Z, or Han, Hiragana, Katakana, Hangul");
    }
    at_ = end + 1;
    return Escape{items, "", negated};
  }

  // \xHH, \x{H...} or \uHHHH.
  absl::StatusOr<Escape> TakeCodePoint(size_t start, char kind) {
    const bool braces = kind == 'x' && Take("{");
    const size_t max_digits = braces ? 6 : kind == 'x' ? 2 : 4;
    uint32_t value = 0;
    size_t count = 0;
    while (count < max_digits && at_ < text_.size() && absl::ascii_isxdigit(text_[at_])) {
      const char digit = absl::ascii_tolower(text_[at_++]);
      value = value * 16 + (digit <= '9' ? digit - '0' : digit - 'a' + 10);
      ++count;
    }
    const bool whole = braces ? count > 0 && Take("}") : count == max_digits;
    // Two digits above 7F are a byte to Oniguruma, not a character.
    const bool character = value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF) &&
                           (kind == 'u' || braces || value < 0x80);
    if (!whole || !character) {
      at_ = start;
      return Refuse("\\xHH below 80, \\x{H...} or \\uHHHH naming a character");
    }
    return Escape{absl::StrCat("\\x{", absl::Hex(value), "}")};
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<bool> groups_;  // One for each open parenthesis: is it a look-around?
  SplitPattern result_;
};

}  // namespace

std::string WordBoundaryPattern() {
  const std::string word = absl::StrCat("[", OnigurumaWordItems(), "]");
  return absl::StrCat("(?:(?<=", word, ")(?!", word, ")|(?<!", word, ")(?=", word, "))");
}

std::string RustWordPattern() { return absl::StrCat("[", WordItems(), kJoinControls, "]"); }

std::string EscapeLiteral(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (absl::ascii_ispunct(c)) escaped.push_back('\\');
    escaped.push_back(c);
  }
  return escaped;
}

absl::StatusOr<SplitPattern> TranslateSplitPattern(std::string_view oniguruma) {
  return Translator(oniguruma).Run();
}

}  // namespace baton
