#include "common/text/token_trie.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(TokenTrieTest, FindsTheLeftmostThenTheLongest) {
  TokenTrie trie;
  EXPECT_TRUE(trie.empty());
  trie.Insert("b", 0);
  trie.Insert("ab", 1);
  trie.Insert("abcd", 2);
  EXPECT_FALSE(trie.empty());
  auto hit = trie.Find("xabcx", 0);
  ASSERT_TRUE(hit.has_value());
  EXPECT_EQ(hit->value, 1u);
  EXPECT_EQ(hit->begin, 1u);
  EXPECT_EQ(hit->end, 3u);
  EXPECT_EQ(trie.Find("xabcd", 0)->value, 2u);
  EXPECT_EQ(trie.Find("xabcd", 2)->value, 0u);
  EXPECT_FALSE(trie.Find("xabcd", 3).has_value());
}

TEST(TokenTrieTest, AnEqualKeyKeepsItsFirstValue) {
  TokenTrie trie;
  trie.Insert("k", 4);
  trie.Insert("k", 5);
  EXPECT_EQ(trie.Find("k", 0)->value, 4u);
}

}  // namespace
}  // namespace baton
