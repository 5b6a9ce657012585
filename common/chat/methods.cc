#include "common/chat/methods.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/chat/concat.h"
#include "common/chat/template_object.h"
#include "common/check.h"

namespace baton {
namespace {

using Names = std::span<const std::string_view>;

// What jinja2's ImmutableSandboxedEnvironment withholds.
constexpr std::string_view kListMutators[] = {"append", "clear", "pop",    "reverse",
                                              "insert", "sort",  "extend", "remove"};
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};

constexpr std::string_view kOtherStringMethods[] = {
    "casefold",     "encode",    "expandtabs",  "format",    "format_map", "isdecimal",
    "isidentifier", "isnumeric", "isprintable", "maketrans", "translate"};
constexpr std::string_view kOtherDictMethods[] = {"fromkeys"};
constexpr std::string_view kNumberAttributes[] = {
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator",
    "from_bytes",       "fromhex",   "hex",        "imag",      "is_integer",
    "numerator",        "real",      "to_bytes"};

bool Has(Names names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class BoundMethod : public TemplateObject {
 public:
  BoundMethod(Value self, const MethodEntry& entry) : self_(std::move(self)), entry_(entry) {}

  std::string_view TypeName() const override { return "builtin_function_or_method"; }
  absl::StatusOr<std::string> Text(RenderState&) const override {
    return Concat("<built-in method ", entry_.name, " of ", self_.TypeName(), " object>");
  }
  absl::StatusOr<Value> Call(RenderState& state, const CallArguments& arguments) override {
    BATON_ASSIGN_OR_RETURN(BoundArguments bound, BindArguments(entry_.name, entry_.parameters,
                                                               entry_.required_count, arguments));
    return entry_.apply({state, self_, std::move(bound)});
  }
  int depth() const override { return 1 + self_.depth(); }

 private:
  const Value self_;
  const MethodEntry& entry_;
};

struct TypeMethods {
  std::span<const MethodEntry> provided;
  Names withheld, others;
};

TypeMethods MethodsOf(const Value& self) {
  if (self.is_string()) return {StringMethods(), {}, kOtherStringMethods};
  if (self.is_dict()) return {DictMethods(), kDictMutators, kOtherDictMethods};
  if (self.is_sequence_of(SequenceKind::kList)) return {ListMethods(), kListMutators, {}};
  if (self.is_list_or_tuple() || self.is_sequence_of(SequenceKind::kRange)) {
    return {ListMethods(), {}, {}};
  }
  if (self.is_number()) return {{}, {}, kNumberAttributes};
  return {};
}

}  // namespace

absl::StatusOr<std::optional<Value>> FindMethod(const Value& self, std::string_view name) {
  const TypeMethods methods = MethodsOf(self);
  for (const MethodEntry& entry : methods.provided) {
    if (entry.name == name) {
      return Value::Object(std::make_shared<BoundMethod>(self, entry));
    }
  }
  if (Has(methods.withheld, name)) {
    return Value::Undefined(Concat("the method '", name, "' of ", self.TypeName(),
                                   " changes its object, which templates may not"));
  }
  if (Has(methods.others, name)) {
    return absl::UnimplementedError(
        Concat("the attribute '", name, "' of ", self.TypeName(), " is not supported"));
  }
  return std::nullopt;
}

bool IsUnsupportedMethod(std::string_view name) {
  return Has(kOtherStringMethods, name) || Has(kOtherDictMethods, name) ||
         Has(kNumberAttributes, name);
}

}  // namespace baton
