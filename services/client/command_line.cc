#include "services/client/command_line.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/check.h"

namespace baton {
namespace {

const FlagSpec* FindFlag(const CommandSpec& spec, const std::string& name) {
  for (const FlagSpec& flag : spec.flags) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

// A flag that begins like the unknown one, for the error message.
std::string NearFlag(const CommandSpec& spec, const std::string& name) {
  for (size_t length = name.size(); length >= 2; --length) {
    for (const FlagSpec& flag : spec.flags) {
      if (flag.name.starts_with(name.substr(0, length))) return flag.name;
    }
  }
  return "";
}

absl::Status UnknownFlag(const CommandSpec& spec, const std::string& name) {
  const std::string near = NearFlag(spec, name);
  const std::string hint = near.empty() ? absl::StrCat("see baton ", spec.name, " --help")
                                        : absl::StrCat("did you mean --", near, "?");
  return absl::InvalidArgumentError(
      absl::StrCat("baton ", spec.name, ": unknown flag --", name, "; ", hint));
}

}  // namespace

absl::StatusOr<CommandLine> CommandLine::Parse(const CommandSpec& spec,
                                               absl::Span<const std::string> arguments) {
  CommandLine line;
  for (const FlagSpec& flag : spec.flags) {
    line.values_.push_back({.name = flag.name, .text = flag.initial});
  }
  bool flags_end = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (flags_end || !argument.starts_with("-") || argument == "-") {
      line.operands_.push_back(argument);
      continue;
    }
    if (argument == "--") {
      flags_end = true;
      continue;
    }
    if (argument == "-h" || argument == "--help" || argument == "--helpfull") {
      line.help_ = true;
      continue;
    }
    const size_t equals = argument.find('=');
    const size_t dashes = argument.starts_with("--") ? 2 : 1;
    const std::string name =
        absl::StrReplaceAll(argument.substr(dashes, equals - dashes), {{"_", "-"}});
    const FlagSpec* flag = FindFlag(spec, name);
    if (flag == nullptr) return UnknownFlag(spec, name);
    auto value = std::find_if(line.values_.begin(), line.values_.end(),
                              [&](const Value& v) { return v.name == name; });
    value->given = true;
    if (equals != std::string::npos) {
      value->text = argument.substr(equals + 1);
      if (flag->value.empty() && value->text != "true" && value->text != "false") {
        return absl::InvalidArgumentError(absl::StrCat("baton ", spec.name, ": --", name,
                                                       ": wanted true, false or nothing, found \"",
                                                       value->text, "\""));
      }
    } else if (flag->value.empty()) {
      value->text = "true";
    } else if (i + 1 < arguments.size()) {
      value->text = arguments[++i];
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("baton ", spec.name, ": --", name, " wants a ", flag->value));
    }
  }
  if (!line.operands_.empty() && spec.operands.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("baton ", spec.name, ": unexpected argument \"",
                                                   line.operands_.front(), "\""));
  }
  return line;
}

const CommandLine::Value* CommandLine::Find(const std::string& name) const {
  const auto it = std::find_if(values_.begin(), values_.end(),
                               [&](const Value& value) { return value.name == name; });
  BATON_CHECK(it != values_.end());
  return &*it;
}

bool CommandLine::given(const std::string& name) const { return Find(name)->given; }

const std::string& CommandLine::text(const std::string& name) const { return Find(name)->text; }

absl::StatusOr<int64_t> CommandLine::integer(const std::string& name, int64_t lowest,
                                             int64_t highest) const {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text(name), &value) || value < lowest || value > highest) {
    return absl::InvalidArgumentError(absl::StrCat("--", name, ": wanted an integer from ", lowest,
                                                   " to ", highest, ", found \"", text(name),
                                                   "\""));
  }
  return value;
}

absl::StatusOr<uint64_t> CommandLine::unsigned_integer(const std::string& name) const {
  uint64_t value = 0;
  if (!absl::SimpleAtoi(text(name), &value)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--", name, ": wanted an integer from 0 to 2^64 - 1, found \"", text(name), "\""));
  }
  return value;
}

absl::StatusOr<double> CommandLine::number(const std::string& name, double lowest,
                                           double highest) const {
  double value = 0;
  if (!absl::SimpleAtod(text(name), &value) || !(value >= lowest && value <= highest)) {
    return absl::InvalidArgumentError(absl::StrCat("--", name, ": wanted a number from ", lowest,
                                                   " to ", highest, ", found \"", text(name),
                                                   "\""));
  }
  return value;
}

std::string HelpText(const CommandSpec& spec) {
  std::string text =
      absl::StrCat("baton ", spec.name, ": ", spec.summary, "\n\nUsage: baton ", spec.name,
                   " [flags]", spec.operands.empty() ? "" : " ", spec.operands, "\n\nFlags:\n");
  for (const FlagSpec& flag : spec.flags) {
    const std::string left =
        flag.value.empty() ? "--" + flag.name : absl::StrCat("--", flag.name, "=", flag.value);
    absl::StrAppendFormat(&text, "  %-30s %s", left, flag.help);
    if (!flag.initial.empty() && !flag.value.empty()) {
      absl::StrAppend(&text, " (default ", flag.initial, ")");
    }
    text += "\n";
  }
  return text;
}

}  // namespace baton
