#include "kernels/cpu/kv_checks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/kv/model_kv_layout.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {
namespace {

KvLayout LayoutWithWindow(int window_keys) {
  ModelConfig config = SyntheticConfig();
  config.window_keys = window_keys;
  return MakeModelKvLayout(config, {}, 64, 64);
}

KvPageTable PageTable(size_t full, size_t window) {
  return {std::vector<PageId>(full, 0), std::vector<PageId>(window, 0)};
}

TEST(KvChecks, WantsPagesForEveryToken) {
  const KvLayout layout = LayoutWithWindow(8);
  EXPECT_TRUE(CheckPages(layout, PageTable(2, 2), {.first_written = 100, .end = 128}).ok());
  EXPECT_THAT(
      std::string(
          CheckPages(layout, PageTable(2, 2), {.first_written = 100, .end = 129}).message()),
      testing::HasSubstr("full pages: wanted at least 3 for 129 tokens, found 2"));
}

TEST(KvChecks, RefusesAPageThatTheArenaLacks) {
  const KvLayout layout = LayoutWithWindow(8);
  KvPageTable pages = PageTable(1, 1);
  pages.window[0] = 64;
  EXPECT_THAT(std::string(CheckPages(layout, pages, {.first_written = 0, .end = 10}).message()),
              testing::HasSubstr("window page: wanted an id below 64, found 64"));
}

TEST(KvChecks, AcceptsTheContractsRing) {
  for (int window_keys : {1, 8, 63, 64, 65, 128, 1000}) {
    const KvLayout layout = LayoutWithWindow(window_keys);
    for (int64_t together : {1, 7, 64, 200}) {
      const int64_t end = 2000;
      const uint32_t ring = WindowPagesFor(end, window_keys, static_cast<uint32_t>(together));
      EXPECT_TRUE(CheckPages(layout, PageTable(32, ring), {0, end, together}).ok())
          << window_keys << " keys, " << together << " together";
    }
  }
}

TEST(KvChecks, RefusesARingThatOverwritesVisibleKeys) {
  const KvLayout layout = LayoutWithWindow(128);
  // A chunk at 1000 .. 1099 sees keys from 873: pages 13 to 17.
  const KvSpan span{.first_written = 1000, .end = 1100, .together = 100};
  EXPECT_TRUE(CheckPages(layout, PageTable(18, 5), span).ok());
  EXPECT_FALSE(CheckPages(layout, PageTable(18, 4), span).ok());
  // Decode over a page's edge: 128 neighbouring positions touch three pages.
  const KvSpan decode{.first_written = 1000, .end = 1100};
  EXPECT_TRUE(CheckPages(layout, PageTable(18, 3), decode).ok());
  EXPECT_FALSE(CheckPages(layout, PageTable(18, 2), decode).ok());
}

TEST(KvChecks, ComparesFormats) {
  const KvLayout layout = LayoutWithWindow(8);
  KvLayout other = layout;
  other.groups[0].page_count = 3;
  EXPECT_TRUE(CheckSameKvFormat(layout, other).ok());
  other.element_bytes = 4;
  EXPECT_THAT(std::string(CheckSameKvFormat(layout, other).message()),
              testing::HasSubstr("element_bytes: wanted 2, found 4"));
  other = layout;
  other.layer_group[1] = kFullGroup;
  EXPECT_FALSE(CheckSameKvFormat(layout, other).ok());
}

}  // namespace
}  // namespace baton
