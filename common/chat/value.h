// The values a chat template computes with: Python's, as far as Jinja templates see them. Cheap to
// copy (contents are shared and never change, iterators and objects excepted). One rendering owns
// its values on one thread; literals of a parsed template are shared between threads and only read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace baton {

class TemplateObject;
class ValueDict;
struct SequenceData;

// Wider than any JSON integer; arithmetic that leaves it is an error, never a wrapped result.
using TemplateInt = __int128;

// Values nest at most so deep; bounds every recursion over a value.
inline constexpr int kMaxValueDepth = 128;

struct NoneValue {};

struct UndefinedData {
  std::string reason;  // e.g. "'tools' is undefined": the message of an operation that refuses it
};

struct StringData {
  std::string text;         // UTF-8
  size_t code_point_count;  // equals text.size() for ASCII
  bool is_markup;           // result of the filters safe and escape: "+" escapes the other side
};

enum class SequenceKind { kList, kTuple, kRange, kKeys, kValues, kItems, kIterator };

class Value {
 public:
  using Pair = std::pair<std::string, Value>;

  Value() = default;  // undefined
  static Value Undefined(std::string reason);
  static Value None() { return Value(Storage(NoneValue{})); }
  static Value Bool(bool value) { return Value(Storage(value)); }
  static Value Int(TemplateInt value) { return Value(Storage(value)); }
  static Value Float(double value) { return Value(Storage(value)); }
  static Value String(std::string text, bool is_markup = false);
  static Value List(std::vector<Value> items);
  static Value Tuple(std::vector<Value> items);
  static Value Iterator(std::vector<Value> items);
  static Value Sequence(std::shared_ptr<SequenceData> data);
  static Value Dict(std::shared_ptr<const ValueDict> dict);
  static Value Object(std::shared_ptr<TemplateObject> object);

  bool is_undefined() const { return storage_.index() == 0; }
  bool is_none() const { return storage_.index() == 1; }
  bool is_bool() const { return storage_.index() == 2; }
  bool is_int() const { return storage_.index() == 3; }
  bool is_float() const { return storage_.index() == 4; }
  bool is_string() const { return storage_.index() == 5; }
  bool is_sequence() const { return storage_.index() == 6; }
  bool is_dict() const { return storage_.index() == 7; }
  bool is_object() const { return storage_.index() == 8; }
  bool is_number() const { return is_bool() || is_int() || is_float(); }
  bool is_integral() const { return is_bool() || is_int(); }
  bool is_sequence_of(SequenceKind kind) const;
  // Lists and tuples: what Python code calls an array.
  bool is_list_or_tuple() const;

  // Each asks for the matching kind.
  bool boolean() const { return std::get<2>(storage_); }
  double floating() const { return std::get<4>(storage_); }
  const StringData& string() const { return *std::get<5>(storage_); }
  const std::string& text() const { return string().text; }
  SequenceData& sequence() const { return *std::get<6>(storage_); }
  const ValueDict& dict() const { return *std::get<7>(storage_); }
  const std::shared_ptr<const ValueDict>& dict_pointer() const { return std::get<7>(storage_); }
  TemplateObject& object() const { return *std::get<8>(storage_); }

  TemplateInt AsInt() const;  // bool or int
  double AsDouble() const;    // bool, int or float
  std::string_view undefined_reason() const;

  // Python's truth value.
  bool Truthy() const;
  // Python's name of the type, for messages: "str", "list", "NoneType" ...
  std::string_view TypeName() const;
  // Python's `is`: the same object, or equal values of None, bool.
  bool IsSame(const Value& other) const;
  // 0 for scalars; 1 + the deepest element otherwise.
  int depth() const;

 private:
  using Storage =
      std::variant<std::shared_ptr<const UndefinedData>, NoneValue, bool, TemplateInt, double,
                   std::shared_ptr<const StringData>, std::shared_ptr<SequenceData>,
                   std::shared_ptr<const ValueDict>, std::shared_ptr<TemplateObject>>;
  explicit Value(Storage storage) : storage_(std::move(storage)) {}

  Storage storage_;
};

struct SequenceData {
  SequenceKind kind = SequenceKind::kList;
  std::vector<Value> items;
  size_t cursor = 0;  // iterators: how many items are spent
  int depth = 1;
  TemplateInt range_start = 0, range_stop = 0, range_step = 1;  // ranges only
};

}  // namespace baton
