#include "common/chat/percent_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "common/chat/number_text.h"
#include "common/chat/python_text.h"
#include "common/chat/value_dict.h"
#include "common/chat/value_text.h"
#include "common/check.h"

namespace baton {
namespace {

constexpr int kMaxWidth = 100'000;

struct Conversion {
  std::optional<std::string> key;
  bool left = false, zero = false, plus = false, space = false, alternate = false;
  int width = 0;
  int precision = -1;
  char type = 's';
};

class Formatter {
 public:
  Formatter(RenderState& state, std::string_view text, const Value& arguments)
      : state_(state), text_(text), arguments_(arguments) {}

  absl::StatusOr<std::string> Format();

 private:
  absl::StatusOr<Conversion> ParseConversion();
  absl::StatusOr<int> ParseNumber();
  absl::StatusOr<Value> NextArgument();
  absl::StatusOr<Value> ArgumentFor(const Conversion& conversion);
  absl::StatusOr<std::string> Convert(const Conversion& conversion, const Value& value);
  absl::StatusOr<std::string> ConvertInt(const Conversion& conversion, const Value& value);
  absl::StatusOr<std::string> ConvertFloat(const Conversion& conversion, const Value& value);
  void Pad(const Conversion& conversion, std::string converted);

  RenderState& state_;
  const std::string_view text_;
  const Value& arguments_;
  size_t position_ = 0;
  size_t used_count_ = 0;
  std::string out_;
};

absl::StatusOr<std::string> Formatter::Format() {
  while (position_ < text_.size()) {
    const size_t percent = std::min(text_.find('%', position_), text_.size());
    out_ += text_.substr(position_, percent - position_);
    position_ = percent + 1;
    if (percent == text_.size()) break;
    BATON_ASSIGN_OR_RETURN(const Conversion conversion, ParseConversion());
    if (conversion.type == '%') {
      out_ += '%';
      continue;
    }
    BATON_ASSIGN_OR_RETURN(const Value value, ArgumentFor(conversion));
    BATON_ASSIGN_OR_RETURN(std::string converted, Convert(conversion, value));
    BATON_RETURN_IF_ERROR(
        state_.ChargeBytes(static_cast<int64_t>(converted.size()) + conversion.width));
    Pad(conversion, std::move(converted));
  }
  const bool is_tuple = arguments_.is_sequence_of(SequenceKind::kTuple);
  const bool all_used = is_tuple
                            ? used_count_ == arguments_.sequence().items.size()
                            : used_count_ > 0 || arguments_.is_dict() || arguments_.is_sequence();
  if (!all_used) return TemplateError("not all arguments were used in formatting a string");
  return std::move(out_);
}

absl::StatusOr<int> Formatter::ParseNumber() {
  if (position_ < text_.size() && text_[position_] == '*') {
    ++position_;
    BATON_ASSIGN_OR_RETURN(const Value value, NextArgument());
    if (!value.is_integral() || value.AsInt() > kMaxWidth || value.AsInt() < -kMaxWidth) {
      return TemplateError("a width in a format is out of range");
    }
    return static_cast<int>(value.AsInt());
  }
  int number = 0;
  for (; position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9';
       ++position_) {
    number = number * 10 + (text_[position_] - '0');
    if (number > kMaxWidth) return TemplateError("a width in a format is out of range");
  }
  return number;
}

absl::StatusOr<Conversion> Formatter::ParseConversion() {
  Conversion conversion;
  const auto at = [this](char c) { return position_ < text_.size() && text_[position_] == c; };
  if (at('(')) {
    const size_t end = text_.find(')', position_);
    if (end == std::string_view::npos) return TemplateError("a format key is not closed");
    conversion.key = std::string(text_.substr(position_ + 1, end - position_ - 1));
    position_ = end + 1;
  }
  for (bool more = true; more; position_ += more ? 1 : 0) {
    if (at('-'))
      conversion.left = true;
    else if (at('0'))
      conversion.zero = true;
    else if (at('+'))
      conversion.plus = true;
    else if (at(' '))
      conversion.space = true;
    else if (at('#'))
      conversion.alternate = true;
    else
      more = false;
  }
  BATON_ASSIGN_OR_RETURN(conversion.width, ParseNumber());
  if (conversion.width < 0) {
    conversion.left = true;
    conversion.width = -conversion.width;
  }
  if (at('.')) {
    ++position_;
    BATON_ASSIGN_OR_RETURN(conversion.precision, ParseNumber());
    conversion.precision = std::max(conversion.precision, 0);
  }
  if (at('h') || at('l') || at('L')) ++position_;
  if (position_ >= text_.size()) return TemplateError("a format ends within a conversion");
  conversion.type = text_[position_++];
  if (std::string_view("srdiufFeEgGxXoc%").find(conversion.type) == std::string_view::npos) {
    return TemplateError("the conversion '%", std::string(1, conversion.type),
                         "' is not supported");
  }
  return conversion;
}

absl::StatusOr<Value> Formatter::NextArgument() {
  if (!arguments_.is_sequence_of(SequenceKind::kTuple)) {
    if (used_count_++ > 0) return TemplateError("a format has more conversions than arguments");
    return arguments_;
  }
  const std::vector<Value>& items = arguments_.sequence().items;
  if (used_count_ >= items.size()) {
    return TemplateError("a format has more conversions than arguments");
  }
  return items[used_count_++];
}

absl::StatusOr<Value> Formatter::ArgumentFor(const Conversion& conversion) {
  if (!conversion.key) return NextArgument();
  if (!arguments_.is_dict()) return TemplateError("a format with keys wants a dict");
  const Value* found = arguments_.dict().Find(*conversion.key);
  if (found == nullptr) return TemplateError("a format key is missing: ", *conversion.key);
  ++used_count_;
  return *found;
}

absl::StatusOr<std::string> Formatter::Convert(const Conversion& conversion, const Value& value) {
  switch (conversion.type) {
    case 's':
    case 'r': {
      std::string text;
      BATON_RETURN_IF_ERROR(conversion.type == 's' ? AppendText(state_, value, &text)
                                                   : AppendRepr(state_, value, &text));
      if (conversion.precision >= 0) {
        text.resize(ByteOffset(text, static_cast<size_t>(conversion.precision)));
      }
      return text;
    }
    case 'c': {
      if (value.is_string() && value.string().code_point_count == 1) return value.text();
      return TemplateError("the conversion '%c' wants one character");
    }
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      return ConvertInt(conversion, value);
    default:
      return ConvertFloat(conversion, value);
  }
}

absl::StatusOr<std::string> Formatter::ConvertInt(const Conversion& conversion,
                                                  const Value& value) {
  const bool decimal = std::string_view("diu").find(conversion.type) != std::string_view::npos;
  std::optional<TemplateInt> number;
  if (value.is_integral()) number = value.AsInt();
  if (decimal && value.is_float()) number = TruncateToInt(value.floating());
  if (!number) {
    return TemplateError("the conversion '%", std::string(1, conversion.type),
                         "' wants a number, found ", value.TypeName());
  }
  const bool negative = *number < 0;
  std::string digits;
  if (decimal) {
    digits = IntText(*number);
    if (negative) digits.erase(0, 1);
  } else {
    const unsigned base = conversion.type == 'o' ? 8 : 16;
    unsigned __int128 rest = negative ? -static_cast<unsigned __int128>(*number)
                                      : static_cast<unsigned __int128>(*number);
    const char* symbols = conversion.type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    do {
      digits.insert(digits.begin(), symbols[static_cast<unsigned>(rest % base)]);
      rest /= base;
    } while (rest != 0);
  }
  const size_t precision = static_cast<size_t>(std::max(conversion.precision, 0));
  if (digits.size() < precision) digits.insert(0, precision - digits.size(), '0');
  std::string prefix = negative ? "-" : conversion.plus ? "+" : conversion.space ? " " : "";
  if (conversion.alternate && !decimal) prefix += std::string("0") + conversion.type;
  return prefix + digits;
}

absl::StatusOr<std::string> Formatter::ConvertFloat(const Conversion& conversion,
                                                    const Value& value) {
  if (!value.is_number()) {
    return TemplateError("the conversion '%", std::string(1, conversion.type),
                         "' wants a number, found ", value.TypeName());
  }
  std::string format = "%";
  if (conversion.alternate) format += '#';
  if (conversion.plus) format += '+';
  if (conversion.space) format += ' ';
  format += ".*";
  format += conversion.type;
  const int precision = conversion.precision < 0 ? 6 : conversion.precision;
  std::vector<char> buffer(static_cast<size_t>(precision) + 400);
  const int size =
      std::snprintf(buffer.data(), buffer.size(), format.c_str(), precision, value.AsDouble());
  return std::string(buffer.data(), static_cast<size_t>(size));
}

void Formatter::Pad(const Conversion& conversion, std::string converted) {
  const size_t length = CodePointIndex(converted, converted.size());
  const size_t width = static_cast<size_t>(conversion.width);
  const size_t missing = width > length ? width - length : 0;
  const bool is_number = std::string_view("src").find(conversion.type) == std::string_view::npos;
  if (conversion.left) {
    out_ += converted + std::string(missing, ' ');
  } else if (conversion.zero && is_number) {
    size_t sign =
        !converted.empty() && std::string_view("+- ").find(converted[0]) != std::string_view::npos
            ? 1
            : 0;
    if (conversion.alternate && converted.size() > sign + 1 && converted[sign] == '0' &&
        std::string_view("xXo").find(conversion.type) != std::string_view::npos) {
      sign += 2;
    }
    out_ += converted.insert(sign, missing, '0');
  } else {
    out_ += std::string(missing, ' ') + converted;
  }
}

}  // namespace

absl::StatusOr<Value> PercentFormat(RenderState& state, const Value& text, const Value& arguments) {
  if (text.string().is_markup) {
    return absl::UnimplementedError("formatting of escaped text is not supported");
  }
  BATON_RETURN_IF_ERROR(state.ChargeBytes(static_cast<int64_t>(text.text().size())));
  BATON_ASSIGN_OR_RETURN(std::string formatted, Formatter(state, text.text(), arguments).Format());
  return Value::String(std::move(formatted));
}

}  // namespace baton
