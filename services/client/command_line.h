// CommandLine: flags of one subcommand of `baton`: a table of names, defaults and descriptions that
// parses arguments and prints the help. Plain values; used once, by main's thread.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace baton {

struct FlagSpec {
  std::string name;   // Without dashes; words joined by "-". "_" is accepted in its place.
  std::string value;  // What the help calls its value; empty: a switch, false unless given.
  std::string initial;
  std::string help;
};

struct CommandSpec {
  std::string name;
  std::string summary;   // One line, for `baton --help`.
  std::string operands;  // What the help calls the rest of the line; empty: none allowed.
  std::vector<FlagSpec> flags;
};

class CommandLine {
 public:
  // Arguments after the subcommand: --name=value, --name value, --switch, operands; after "--" only
  // operands. InvalidArgument: an unknown flag (named, with a near one if there is), a value
  // missing or in the way, an operand where none is allowed.
  static absl::StatusOr<CommandLine> Parse(const CommandSpec& spec,
                                           absl::Span<const std::string> arguments);

  bool help() const { return help_; }
  bool given(const std::string& name) const;
  const std::string& text(const std::string& name) const;  // A flag of the spec.
  bool on(const std::string& name) const { return text(name) == "true"; }
  // InvalidArgument naming the flag unless the value is a number in [lowest, highest].
  absl::StatusOr<int64_t> integer(const std::string& name, int64_t lowest, int64_t highest) const;
  absl::StatusOr<uint64_t> unsigned_integer(const std::string& name) const;
  absl::StatusOr<double> number(const std::string& name, double lowest, double highest) const;
  const std::vector<std::string>& operands() const { return operands_; }

 private:
  struct Value {
    std::string name;
    std::string text;
    bool given = false;
  };

  CommandLine() = default;
  const Value* Find(const std::string& name) const;

  std::vector<Value> values_;
  std::vector<std::string> operands_;
  bool help_ = false;
};

// The text of `baton NAME --help`.
std::string HelpText(const CommandSpec& spec);

}  // namespace baton
