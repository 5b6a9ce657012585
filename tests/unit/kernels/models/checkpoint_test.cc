#include "kernels/models/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fixtures/synthetic_checkpoint.h"
#include "tests/fixtures/temporary_directory.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<float> Floats(const TensorView& tensor) {
  std::vector<float> values(tensor.ElementCount());
  CopyToFloat(tensor, 0, tensor.ElementCount(), values.data());
  return values;
}

// Every weight of both sets is the same number at the same place.
void ExpectEqualValues(const WeightSet& a, const WeightSet& b) {
  EXPECT_EQ(Floats(a.embedding), Floats(b.embedding));
  EXPECT_EQ(Floats(a.final_norm), Floats(b.final_norm));
  EXPECT_EQ(Floats(a.head), Floats(b.head));
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (size_t i = 0; i < a.layers.size(); ++i) {
    for (TensorView LayerWeights::*role :
         {&LayerWeights::norm, &LayerWeights::q, &LayerWeights::k, &LayerWeights::v,
          &LayerWeights::o, &LayerWeights::gate, &LayerWeights::up, &LayerWeights::down,
          &LayerWeights::router}) {
      ASSERT_EQ((a.layers[i].*role).empty(), (b.layers[i].*role).empty());
      if ((a.layers[i].*role).empty()) continue;
      EXPECT_EQ((a.layers[i].*role).shape, (b.layers[i].*role).shape);
      EXPECT_EQ(Floats(a.layers[i].*role), Floats(b.layers[i].*role));
    }
    ASSERT_EQ(a.layers[i].experts.size(), b.layers[i].experts.size());
    for (size_t e = 0; e < a.layers[i].experts.size(); ++e) {
      for (TensorView ExpertWeights::*role :
           {&ExpertWeights::gate, &ExpertWeights::up, &ExpertWeights::down}) {
        EXPECT_EQ((a.layers[i].experts[e].*role).shape, (b.layers[i].experts[e].*role).shape);
        EXPECT_EQ(Floats(a.layers[i].experts[e].*role), Floats(b.layers[i].experts[e].*role));
      }
    }
  }
}

std::unique_ptr<Checkpoint> OpenSynthetic(const std::string& path, const ModelConfig& config,
                                          const SyntheticCheckpointOptions& options) {
  WriteSyntheticCheckpoint(path, config, options);
  auto checkpoint = Checkpoint::Open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return checkpoint.ok() ? *std::move(checkpoint) : nullptr;
}

TEST(Checkpoint, OpensNorthNano) {
  const auto checkpoint = Checkpoint::Open(BATON_SOURCE_DIR "/deploy/models/north-nano");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const ModelConfig& config = (*checkpoint)->config();
  EXPECT_EQ(config.hidden, 256);
  EXPECT_EQ(config.window_keys, 128);
  EXPECT_EQ(config.eos_ids, (std::vector<int>{5, 3}));
  const std::vector<LayerConfig> layers = {{false, true, true, 512},
                                           {true, true, false, 64},
                                           {true, true, false, 64},
                                           {true, true, false, 64},
                                           {false, false, false, 64}};
  EXPECT_EQ(config.layers, layers);
  const WeightSet& weights = (*checkpoint)->weights();
  EXPECT_EQ(weights.total_bytes, 2u * 7882240);  // Its parameters in bf16.
  EXPECT_EQ(weights.head.data, weights.embedding.data);
  EXPECT_EQ(weights.layers[1].experts.size(), 16u);
  EXPECT_EQ(weights.layers[4].experts[15].down.shape, (std::vector<int64_t>{256, 64}));
}

TEST(Checkpoint, OpensTheRandomCheckpointsOfTheOracle) {
  const std::string oracle = BATON_SOURCE_DIR "/tests/fixtures/oracle/";
  const auto north_like = Checkpoint::Open(oracle + "cohere2moe_north_like");
  ASSERT_TRUE(north_like.ok()) << north_like.status();
  EXPECT_EQ((*north_like)->config().norm, NormKind::kRmsNorm);
  EXPECT_EQ((*north_like)->config().router, RouterKind::kSigmoid);

  const auto averaged = Checkpoint::Open(oracle + "cohere2moe_ln_softmax_avg");
  ASSERT_TRUE(averaged.ok()) << averaged.status();
  const ModelConfig& config = (*averaged)->config();
  EXPECT_EQ(config.norm, NormKind::kLayerNorm);
  EXPECT_EQ(config.router, RouterKind::kSoftmax);
  EXPECT_EQ(config.shared, SharedExperts::kAverage);
  EXPECT_EQ(config.shared_width, 48);
  EXPECT_FALSE(config.layers[1].rope);  // Dense and full, but the prefix pattern is 2.
  EXPECT_TRUE(config.layers[0].rope);
  EXPECT_EQ((*averaged)->weights().layers[2].gate.shape, (std::vector<int64_t>{48, 96}));
}

TEST(Checkpoint, ReadsBackEveryConfigItWrites) {
  ModelConfig config = SyntheticConfig();
  config.tied_head = false;
  config.norm = NormKind::kLayerNorm;
  config.router = RouterKind::kSoftmax;
  config.norm_topk = true;
  config.shared = SharedExperts::kSum;
  config.shared_width = 32;
  config.logit_scale = 0.25f;
  const TemporaryDirectory directory;
  const auto checkpoint = OpenSynthetic(directory.path(), config, {});
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(checkpoint->config(), config);
  EXPECT_NE(checkpoint->weights().head.data, checkpoint->weights().embedding.data);
  EXPECT_EQ(checkpoint->weights().layers[1].gate.shape, (std::vector<int64_t>{32, 32}));
}

// The tensors of a tied checkpoint whose file holds a head all the same: the embedding, changed.
std::vector<RawTensor> WithHead(const ModelConfig& config,
                                const std::function<void(RawTensor& head)>& change) {
  std::vector<RawTensor> tensors = SyntheticTensors(config);
  RawTensor head = tensors[0];
  EXPECT_EQ(head.name, "model.embed_tokens.weight");
  head.name = "lm_head.weight";
  change(head);
  tensors.push_back(std::move(head));
  return tensors;
}

TEST(Checkpoint, HeadThatIsTheEmbeddingIsTied) {
  const ModelConfig config = SyntheticConfig();
  const TemporaryDirectory directory;
  const auto plain = OpenSynthetic(directory.path(), config, {});
  WriteCheckpointFiles(directory.path(), config, WithHead(config, [](RawTensor&) {}));
  const auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE((*checkpoint)->config().tied_head);
  EXPECT_EQ((*checkpoint)->weights().head.data, (*checkpoint)->weights().embedding.data);
  EXPECT_EQ((*checkpoint)->weights().Fingerprint(), plain->weights().Fingerprint());
  EXPECT_EQ((*checkpoint)->weights().total_bytes, plain->weights().total_bytes);
}

// Whatever tie_word_embeddings says, as with Hugging Face; everybody who asks the config learns it.
TEST(Checkpoint, HeadThatIsNotTheEmbeddingIsNotTied) {
  const ModelConfig config = SyntheticConfig();
  const std::function<void(RawTensor&)> changes[] = {
      [](RawTensor& head) { head.bytes.front() ^= 1; },
      [](RawTensor& head) { head.bytes.back() ^= 1; },
      [](RawTensor& head) { head.dtype = "F16"; },
  };
  for (const auto& change : changes) {
    for (int shard_count : {1, 3}) {
      const TemporaryDirectory directory;
      const std::vector<RawTensor> tensors = WithHead(config, change);
      WriteCheckpointFiles(directory.path(), config, tensors, shard_count);
      const auto checkpoint = Checkpoint::Open(directory.path());
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
      EXPECT_FALSE((*checkpoint)->config().tied_head);
      const TensorView& head = (*checkpoint)->weights().head;
      EXPECT_EQ(head.name, "lm_head.weight");
      EXPECT_EQ(std::string(static_cast<const char*>(head.data), head.ByteCount()),
                tensors.back().bytes);
      EXPECT_EQ((*checkpoint)->weights().embedding.name, "model.embed_tokens.weight");
    }
  }
}

TEST(Checkpoint, BothExpertLayoutsAndAnyShardingGiveTheSameModel) {
  ModelConfig config = SyntheticConfig();
  config.shared = SharedExperts::kAverage;
  config.shared_width = 16;
  const TemporaryDirectory one;
  const TemporaryDirectory other;
  const auto split = OpenSynthetic(one.path(), config, {});
  const auto fused = OpenSynthetic(other.path(), config, {.fused_experts = true, .shard_count = 3});
  ASSERT_TRUE(split != nullptr && fused != nullptr);
  ExpectEqualValues(split->weights(), fused->weights());
  EXPECT_EQ(split->weights().total_bytes, fused->weights().total_bytes);
  EXPECT_EQ(split->weights().Fingerprint(), fused->weights().Fingerprint());
}

TEST(Checkpoint, EachDTypeHoldsTheSameValues) {
  const TemporaryDirectory bf16_directory;
  const auto bf16 =
      OpenSynthetic(bf16_directory.path(), SyntheticConfig(), {.dtype = DType::kBf16});
  ASSERT_NE(bf16, nullptr);
  for (DType dtype : {DType::kF16, DType::kF32}) {
    const TemporaryDirectory directory;
    const auto other = OpenSynthetic(directory.path(), SyntheticConfig(), {.dtype = dtype});
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->weights().embedding.dtype, dtype);
    ExpectEqualValues(bf16->weights(), other->weights());
    EXPECT_NE(bf16->weights().Fingerprint(), other->weights().Fingerprint());
  }
}

TEST(Checkpoint, WindowOverrideReplacesTheConfigs) {
  const TemporaryDirectory directory;
  const auto plain = OpenSynthetic(directory.path(), SyntheticConfig(), {});
  ASSERT_NE(plain, nullptr);
  const auto wider = Checkpoint::Open(directory.path(), {.window_keys = 9});
  ASSERT_TRUE(wider.ok()) << wider.status();
  EXPECT_EQ((*wider)->config().window_keys, 9);
  EXPECT_NE((*wider)->weights().Fingerprint(), plain->weights().Fingerprint());
  EXPECT_THAT(
      std::string(Checkpoint::Open(directory.path(), {.window_keys = 0}).status().message()),
      HasSubstr("want at least 1 key, found 0"));
}

TEST(Checkpoint, WindowOverrideNeedsASlidingLayer) {
  ModelConfig config = SyntheticConfig();
  for (LayerConfig& layer : config.layers) {
    layer.sliding = false;
    layer.rope = layer.dense;
  }
  config.window_keys = 0;
  const TemporaryDirectory directory;
  const auto plain = OpenSynthetic(directory.path(), config, {});
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(plain->config().window_keys, 0);
  EXPECT_THAT(
      std::string(Checkpoint::Open(directory.path(), {.window_keys = 9}).status().message()),
      HasSubstr("want a model with sliding layers"));
}

class BrokenCheckpoint : public ::testing::Test {
 protected:
  std::string Error() const {
    const auto checkpoint = Checkpoint::Open(directory_.path());
    EXPECT_FALSE(checkpoint.ok());
    return std::string(checkpoint.status().message());
  }

  const TemporaryDirectory directory_;
};

TEST_F(BrokenCheckpoint, NamesTheMissingConfig) {
  EXPECT_THAT(Error(), HasSubstr(directory_.path() + "/config.json"));
}

TEST_F(BrokenCheckpoint, NamesTheMissingWeights) {
  WriteFileBytes(directory_.File("config.json"), ConfigJson(SyntheticConfig()));
  EXPECT_THAT(Error(), HasSubstr("want model.safetensors or model.safetensors.index.json"));
}

TEST_F(BrokenCheckpoint, NamesTheTruncatedFileAndTensor) {
  WriteSyntheticCheckpoint(directory_.path(), SyntheticConfig());
  const std::string path = directory_.File("model.safetensors");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_THAT(Error(),
              AllOf(HasSubstr(path), HasSubstr("model.norm.weight"), HasSubstr("truncated")));
}

TEST_F(BrokenCheckpoint, NamesTheHeadOfAnotherShape) {
  const ModelConfig config = SyntheticConfig();
  WriteCheckpointFiles(directory_.path(), config, WithHead(config, [](RawTensor& head) {
                         std::swap(head.shape[0], head.shape[1]);
                       }));
  EXPECT_THAT(Error(), AllOf(HasSubstr("lm_head.weight"), HasSubstr("want shape [96, 32]")));
}

TEST_F(BrokenCheckpoint, NamesTheShardThatIsMissing) {
  WriteSyntheticCheckpoint(directory_.path(), SyntheticConfig(), {.shard_count = 2});
  std::filesystem::remove(directory_.File("model-00002-of-00002.safetensors"));
  EXPECT_THAT(Error(), AllOf(HasSubstr("model-00002-of-00002.safetensors"), HasSubstr("named in"),
                             HasSubstr("index.json")));
}

TEST_F(BrokenCheckpoint, NamesTheTensorThatIsNotInItsShard) {
  WriteSyntheticCheckpoint(directory_.path(), SyntheticConfig(), {.shard_count = 2});
  const std::string path = directory_.File("model.safetensors.index.json");
  std::string index = ReadFileBytes(path);
  const std::string entry = "\"model.norm.weight\": \"model-0000";
  const size_t at = index.find(entry);
  ASSERT_NE(at, std::string::npos);
  index[at + entry.size()] = '1';
  WriteFileBytes(path, index);
  EXPECT_THAT(Error(), AllOf(HasSubstr("model-00001-of-00002"), HasSubstr("model.norm.weight"),
                             HasSubstr("is missing, but")));
}

TEST_F(BrokenCheckpoint, NamesTheTensorThatTheIndexLeavesOut) {
  WriteSyntheticCheckpoint(directory_.path(), SyntheticConfig(), {.shard_count = 2});
  std::vector<RawTensor> tensors = SyntheticTensors(SyntheticConfig());
  const std::vector<RawTensor> second(tensors.begin() + (tensors.size() + 1) / 2, tensors.end());
  std::vector<RawTensor> more = second;
  more.push_back({"model.extra", "BF16", {1}, "ab"});
  WriteFileBytes(directory_.File("model-00002-of-00002.safetensors"), SafetensorsBytes(more));
  EXPECT_THAT(Error(), AllOf(HasSubstr("model-00002-of-00002"), HasSubstr("model.extra"),
                             HasSubstr("not in")));
}

}  // namespace
}  // namespace baton
