#include "common/text/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

namespace baton {
namespace {

TEST(ByteAlphabetTest, IsABijectionWithTheKnownValues) {
  std::set<char32_t> seen;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = ByteToAlphabet(static_cast<uint8_t>(byte));
    EXPECT_TRUE(seen.insert(c).second);
    EXPECT_EQ(AlphabetToByte(c), byte);
  }
  EXPECT_TRUE(ByteToAlphabet(' ') == U'Ġ');
  EXPECT_TRUE(ByteToAlphabet('\n') == U'Ċ');
  EXPECT_TRUE(ByteToAlphabet('a') == U'a');
  EXPECT_TRUE(*seen.rbegin() == 0x143);
}

TEST(ByteAlphabetTest, SpellingIsUndoneByTokenBytes) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  std::string back;
  AppendTokenBytes(SpellBytes(bytes), back);
  EXPECT_EQ(back, bytes);
}

TEST(ByteAlphabetTest, TokenOutsideTheAlphabetStandsForItself) {
  std::string bytes = "x";
  AppendTokenBytes("é 日", bytes);  // A space is not in the alphabet.
  EXPECT_EQ(bytes, "xé 日");
}

}  // namespace
}  // namespace baton
