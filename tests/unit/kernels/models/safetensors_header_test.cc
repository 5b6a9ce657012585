#include "kernels/models/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fixtures/raw_tensor.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<SafetensorsHeader> Parse(const std::string& bytes) {
  return ParseSafetensorsHeader(bytes, bytes.size());
}

// Spaces pad the header to 8 bytes, so that the data is aligned.
std::string Padded(std::string json) {
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}

TEST(SafetensorsHeader, ReadsEntriesInTheOrderOfTheirData) {
  const std::string json = Padded(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                                  R"("__metadata__":{"format":"pt"},)"
                                  R"("a":{"data_offsets":[0,4],"shape":[2,1],"dtype":"BF16"},)"
                                  R"("none":{"dtype":"F32","shape":[0,3],"data_offsets":[8,8]}})");
  const auto header = Parse(SafetensorsBytes(json, std::string(8, 'x')));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->data_begin, 8 + json.size());
  ASSERT_EQ(header->entries.size(), 3u);
  EXPECT_EQ(header->entries[0].name, "a");
  EXPECT_EQ(header->entries[0].dtype, "BF16");
  EXPECT_EQ(header->entries[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(header->entries[0].begin, 0u);
  EXPECT_EQ(header->entries[0].end, 4u);
  EXPECT_EQ(header->entries[1].name, "b");
  EXPECT_EQ(header->entries[2].name, "none");
}

TEST(SafetensorsHeader, AcceptsAFileWithoutTensors) {
  EXPECT_TRUE(Parse(SafetensorsBytes("{}", "")).ok());
}

struct Malformed {
  const char* what;   // Of the case.
  std::string json;   // Of the header.
  size_t data_bytes;  // After it.
  const char* error;  // Part of the message.
};

std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                      ",\"data_offsets\":", offsets, "}");
}

std::string Object(const std::string& entries) { return absl::StrCat("{", entries, "}"); }

// One tensor "t" of one such shape and offsets.
std::string One(const std::string& shape, const std::string& offsets) {
  return Object(Entry("t", "F32", shape, offsets));
}

std::vector<Malformed> MalformedJson() {
  const std::string a = Entry("a", "F32", "[2]", "[0,8]");
  return {
      {"not json", "{\"t\":", 0, "not valid JSON"},
      {"text after the object", "{}x", 0, "not valid JSON"},
      {"invalid utf-8", "{\"\xff\":{}}", 0, "not valid JSON"},
      {"zero byte", std::string("{}\0 ", 4), 0, "zero byte"},
      {"leading space", " {}", 0, "does not begin with '{'"},
      {"empty", "", 0, "does not begin with '{'"},
      {"an array", "[]", 0, "does not begin with '{'"},
      {"entry is a number", R"({"t":1})", 0, "want an object, found a number"},
      {"entry is null", R"({"t":null})", 0, "want an object, found null"},
      {"entry is an array", R"({"t":[]})", 0, "found an array"},
      {"entry is empty", R"({"t":{}})", 0, "is missing"},
      {"metadata of numbers", R"({"__metadata__":{"a":1}})", 0, "want strings only"},
      {"metadata of objects", R"({"__metadata__":{"a":{}}})", 0, "want strings only"},
      {"metadata of arrays", R"({"__metadata__":{"a":[]}})", 0, "found an array"},
      {"no dtype", R"({"t":{"shape":[1],"data_offsets":[0,4]}})", 4, "is missing"},
      {"no shape", R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4, "is missing"},
      {"no offsets", R"({"t":{"dtype":"F32","shape":[1]}})", 4, "is missing"},
      {"unknown key", R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4,
       "found key \"x\""},
      {"key twice", R"({"t":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4,
       "key dtype is there twice"},
      {"name twice", Object(absl::StrCat(a, ",", a)), 8, "\"a\" is in the header twice"},
      {"dtype is a number", R"({"t":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})", 4,
       "key dtype: found a number"},
      {"dtype is an array", R"({"t":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", 4,
       "found an array"},
      {"unknown dtype", Object(Entry("t", "F31", "[1]", "[0,4]")), 4,
       "tensor \"t\": unknown dtype \"F31\""},
  };
}

std::vector<Malformed> MalformedLayouts() {
  const std::string a = Entry("a", "F32", "[2]", "[0,8]");
  return {
      {"shape is a number", One("4", "[0,16]"), 16, "key shape: found a number"},
      {"shape is an object", One("{}", "[0,4]"), 4, "found an object"},
      {"shape of strings", One(R"(["1"])", "[0,4]"), 4, "found a string"},
      {"shape of shapes", One("[[1]]", "[0,4]"), 4, "found an array"},
      {"negative extent", One("[-1]", "[0,4]"), 4, "found a negative number"},
      {"fractional extent", One("[1.0]", "[0,4]"), 4, "found a fraction"},
      {"extent beyond 64 bits", One("[99999999999999999999]", "[0,4]"), 4, "beyond 64 bits"},
      {"extent beyond 63 bits", One("[18446744073709551615]", "[0,4]"), 4, "beyond 63 bits"},
      {"size overflows to what the offsets say", One("[4611686018427387905,4]", "[0,16]"), 16,
       "beyond 64 bits"},
      {"nine dimensions", One("[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "more than 8 dimensions"},
      {"one offset", One("[1]", "[0]"), 4, "want 2 numbers, found 1"},
      {"three offsets", One("[1]", "[0,4,8]"), 8, "want 2 numbers, found more"},
      {"offsets the wrong way", One("[1]", "[4,0]"), 4, "the begin is beyond the end"},
      {"negative offset", One("[1]", "[-4,0]"), 4, "found a negative number"},
      {"more bytes than the shape", One("[1]", "[0,8]"), 8,
       "want 4 bytes, found data_offsets of 8"},
      {"fewer bytes than the shape", One("[3]", "[0,8]"), 8, "want 12 bytes"},
      {"beyond the file", One("[2]", "[0,8]"), 7, "found only 7 bytes of data"},
      {"overlap", Object(absl::StrCat(a, ",", Entry("b", "F32", "[2]", "[4,12]"))), 12,
       "tensor \"b\": begins at byte 4 of the data, inside"},
      {"same place", Object(absl::StrCat(a, ",", Entry("b", "F32", "[2]", "[0,8]"))), 8, "inside"},
      {"hole", Object(absl::StrCat(a, ",", Entry("b", "F32", "[2]", "[12,20]"))), 20,
       "tensor \"b\": begins at byte 12 of the data and leaves a hole after byte 8"},
      {"hole at the start", One("[1]", "[4,8]"), 8, "leaves a hole after byte 0"},
      {"data after the last", One("[1]", "[0,4]"), 5, "want 4 bytes of data after the header"},
  };
}

void ExpectRefused(const std::vector<Malformed>& cases) {
  for (const Malformed& test_case : cases) {
    const std::string data(test_case.data_bytes, 'x');
    const auto header = Parse(SafetensorsBytes(Padded(test_case.json), data));
    ASSERT_FALSE(header.ok()) << test_case.what;
    EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(header.status().message()), HasSubstr(test_case.error))
        << test_case.what;
  }
}

TEST(SafetensorsHeader, RefusesMalformedJson) { ExpectRefused(MalformedJson()); }

TEST(SafetensorsHeader, RefusesLayoutsThatDoNotFit) { ExpectRefused(MalformedLayouts()); }

TEST(SafetensorsHeader, RefusesMisalignedData) {
  const auto header = Parse(SafetensorsBytes(Padded(One("[1]", "[0,4]")) + "  ", "xxxx"));
  EXPECT_THAT(std::string(header.status().message()), HasSubstr("want data aligned to 4 bytes"));
}

TEST(SafetensorsHeader, RefusesShortFilesAndHugeHeaders) {
  EXPECT_THAT(std::string(Parse("1234567").status().message()), HasSubstr("found 7"));
  std::string truncated = SafetensorsBytes("{}", "");
  truncated.pop_back();
  EXPECT_THAT(std::string(Parse(truncated).status().message()),
              HasSubstr("want a header of 2 bytes, found only 1"));
  EXPECT_THAT(std::string(Parse(std::string(8, '\xff')).status().message()),
              HasSubstr("want a header of at most 100000000 bytes"));
  // 100,000,001 in a file that claims to be large enough.
  const std::string length("\x01\xe1\xf5\x05\0\0\0\0", 8);
  EXPECT_THAT(std::string(ParseSafetensorsHeader(length, 200'000'000).status().message()),
              HasSubstr("found a length of 100000001"));
}

TEST(SafetensorsHeader, SurvivesDeepNesting) {
  const std::string deep = "{\"t\":" + std::string(1'000'000, '[');
  EXPECT_FALSE(Parse(SafetensorsBytes(deep, "")).ok());
}

TEST(SafetensorsHeader, KnowsTheBytesOfEachDType) {
  EXPECT_EQ(SafetensorsDTypeBytes("BF16"), 2);
  EXPECT_EQ(SafetensorsDTypeBytes("I32"), 4);
  EXPECT_EQ(SafetensorsDTypeBytes("F8_E4M3"), 1);
  EXPECT_EQ(SafetensorsDTypeBytes("bf16"), 0);
}

}  // namespace
}  // namespace baton
