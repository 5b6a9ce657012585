#include "kernels/cuda/decode/decode_geometry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/models/north_geometry.h"

namespace baton::cuda {
namespace {

using testing::HasSubstr;

constexpr int kWorkers = 132;

std::string Refusal(const ModelConfig& config, int worker_count = kWorkers) {
  const absl::Status status = CheckDecodeGeometry(config, worker_count);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  return std::string(status.message());
}

TEST(DecodeGeometryTest, TakesTheGeometryOfNorthMiniCode) {
  EXPECT_TRUE(CheckDecodeGeometry(NorthMiniCodeGeometry(), kWorkers).ok());
  EXPECT_TRUE(CheckDecodeGeometry(NorthMiniCodeGeometry(4), kWorkers).ok());
}

TEST(DecodeGeometryTest, NamesTheNumberThatItCannotRun) {
  ModelConfig config = NorthMiniCodeGeometry();
  config.head_dim = 64;
  EXPECT_THAT(Refusal(config), HasSubstr("head_dim: wanted 128, found 64"));
  config = NorthMiniCodeGeometry();
  config.query_heads = 64;
  EXPECT_THAT(Refusal(config), HasSubstr("query heads a KV head: wanted at most 8, found 16"));
  config = NorthMiniCodeGeometry();
  config.hidden = 2056;
  EXPECT_THAT(Refusal(config), HasSubstr("hidden_size: wanted a multiple of 16, found 2056"));
  config = NorthMiniCodeGeometry();
  config.expert_count = 257;
  EXPECT_THAT(Refusal(config), HasSubstr("num_experts: wanted at most 256, found 257"));
  config = NorthMiniCodeGeometry();
  config.experts_per_token = 17;
  EXPECT_THAT(Refusal(config), HasSubstr("num_experts_per_tok: wanted at most 16, found 17"));
  config = NorthMiniCodeGeometry();
  config.layers[1].ffn_width = 776;
  EXPECT_THAT(Refusal(config), HasSubstr("feed-forward width: wanted a multiple of 16, found 776"));
  config = NorthMiniCodeGeometry();
  config.shared_width = 8;
  EXPECT_THAT(Refusal(config), HasSubstr("shared expert width"));
  config = NorthMiniCodeGeometry();
  config.layers.resize(1022, config.layers[1]);
  EXPECT_TRUE(CheckDecodeGeometry(config, kWorkers).ok());
  config.layers.resize(1023, config.layers[1]);
  EXPECT_THAT(Refusal(config), HasSubstr("num_hidden_layers: wanted at most 1022, found 1023"));
}

TEST(DecodeGeometryTest, RefusesFewerMultiprocessorsThanKvHeads) {
  EXPECT_THAT(Refusal(NorthMiniCodeGeometry(), 3), HasSubstr("num_key_value_heads"));
}

TEST(DecodeGeometryTest, RefusesWhatItsCountsCannotHold) {
  ModelConfig config = NorthMiniCodeGeometry();
  config.query_heads = 8;
  config.kv_heads = 1;
  EXPECT_THAT(Refusal(config, 256), HasSubstr("multiprocessors a KV head: wanted at most 255"));
  EXPECT_TRUE(CheckDecodePages(65535).ok());
  EXPECT_THAT(std::string(CheckDecodePages(65536).message()),
              HasSubstr("pages a row: wanted at most 65535"));
}

// The shapes that made a worker take one layer's routing for another's.
TEST(DecodeGeometryTest, RefusesWorkersWithoutRowsBetweenLayersThatHaveThem) {
  ModelConfig config = NorthMiniCodeGeometry();
  config.hidden = 256;
  config.layers = {{.dense = true, .ffn_width = 80}, {.ffn_width = 144}};
  EXPECT_THAT(Refusal(config), HasSubstr("feed-forward width"));
  config.layers = {{.dense = true, .ffn_width = 272}, {.ffn_width = 48}};
  EXPECT_THAT(Refusal(config), HasSubstr("found 48"));
  // Rows of the shared expert make up for it.
  config.shared_width = 144;
  EXPECT_TRUE(CheckDecodeGeometry(config, kWorkers).ok());
  config.shared_width = 0;
  // Every worker with hidden rows has expert rows, and none has rows after a gap: North Nano.
  config.layers = {{.dense = true, .ffn_width = 512}, {.ffn_width = 64}, {.ffn_width = 64}};
  EXPECT_TRUE(CheckDecodeGeometry(config, kWorkers).ok());
}

}  // namespace
}  // namespace baton::cuda
