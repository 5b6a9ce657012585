#include "common/text/normalizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using testing::HasSubstr;

TEST(NormalizerTest, NullChangesNothing) {
  const nlohmann::json json;
  const auto normalizer = Normalizer::Parse(JsonView(json, "normalizer"));
  ASSERT_TRUE(normalizer.ok());
  EXPECT_FALSE(normalizer->changes_text());
  EXPECT_EQ(*normalizer->Normalize("e\u0301"), "e\u0301");
}

TEST(NormalizerTest, NfcComposesAndReorders) {
  const auto json =
      nlohmann::json::parse(R"({"type": "Sequence", "normalizers": [{"type": "NFC"}]})");
  const auto normalizer = Normalizer::Parse(JsonView(json, "normalizer"));
  ASSERT_TRUE(normalizer.ok()) << normalizer.status();
  EXPECT_TRUE(normalizer->changes_text());
  EXPECT_EQ(*normalizer->Normalize("e\u0301"), "\u00e9");
  EXPECT_EQ(*normalizer->Normalize("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(*normalizer->Normalize("\u1112\u1161\u11ab\u212b\ufb1d"), "\ud55c\u00c5\u05d9\u05b4");
  const std::string with_nul("a\0e\u0301", 5);
  EXPECT_EQ(*normalizer->Normalize(with_nul), std::string("a\0\u00e9", 4));
  EXPECT_EQ(*normalizer->Normalize(""), "");
}

TEST(NormalizerTest, RefusesOthers) {
  const auto json =
      nlohmann::json::parse(R"({"type": "Sequence", "normalizers": [{"type": "NFKC"}]})");
  EXPECT_THAT(std::string(Normalizer::Parse(JsonView(json, "n")).status().message()),
              HasSubstr("n.normalizers[0].type: wanted NFC or Sequence, found \"NFKC\""));
}

}  // namespace
}  // namespace baton
