#include "kernels/models/weight_binder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/fixtures/synthetic_checkpoint.h"
#include "tests/fixtures/temporary_directory.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WeightBinderTest : public ::testing::Test {
 protected:
  absl::StatusOr<WeightSet> Bind(const std::vector<RawTensor>& tensors) {
    files_.clear();
    WriteFileBytes(path_, SafetensorsBytes(tensors));
    auto file = SafetensorsFile::Open(path_);
    EXPECT_TRUE(file.ok()) << file.status();
    files_.push_back(*std::move(file));
    return WeightBinder(config_, files_, "the model").Bind();
  }

  std::string Error(const std::vector<RawTensor>& tensors) {
    const auto weights = Bind(tensors);
    EXPECT_FALSE(weights.ok());
    EXPECT_EQ(weights.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(weights.status().message());
  }

  RawTensor& Named(const std::string& name) {
    return *std::find_if(tensors_.begin(), tensors_.end(),
                         [&](const RawTensor& tensor) { return tensor.name == name; });
  }

  // Bytes of the views of one role, as they lie in the tensor of that name.
  void ExpectBytesOf(const TensorView& view, const std::string& name) {
    const std::string bytes(static_cast<const char*>(view.data),
                            static_cast<size_t>(view.ByteCount()));
    EXPECT_EQ(bytes, Named(name).bytes) << name;
    EXPECT_EQ(view.shape, Named(name).shape) << name;
    EXPECT_EQ(view.name, name);
  }

  ModelConfig config_ = SyntheticConfig();
  std::vector<RawTensor> tensors_ = SyntheticTensors(config_);
  const TemporaryDirectory directory_;
  const std::string path_ = directory_.File("model.safetensors");
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

TEST_F(WeightBinderTest, EachRoleHasItsTensor) {
  config_.tied_head = false;
  config_.shared = SharedExperts::kSum;
  config_.shared_width = 32;
  tensors_ = SyntheticTensors(config_);
  const auto weights = Bind(tensors_);
  ASSERT_TRUE(weights.ok()) << weights.status();
  ExpectBytesOf(weights->embedding, "model.embed_tokens.weight");
  ExpectBytesOf(weights->final_norm, "model.norm.weight");
  ExpectBytesOf(weights->head, "lm_head.weight");
  const LayerWeights& dense = weights->layers[0];
  ExpectBytesOf(dense.gate, "model.layers.0.mlp.gate_proj.weight");
  ExpectBytesOf(dense.up, "model.layers.0.mlp.up_proj.weight");
  ExpectBytesOf(dense.down, "model.layers.0.mlp.down_proj.weight");
  EXPECT_TRUE(dense.router.empty() && dense.experts.empty());
  const LayerWeights& sparse = weights->layers[2];
  ExpectBytesOf(sparse.norm, "model.layers.2.input_layernorm.weight");
  ExpectBytesOf(sparse.q, "model.layers.2.self_attn.q_proj.weight");
  ExpectBytesOf(sparse.k, "model.layers.2.self_attn.k_proj.weight");
  ExpectBytesOf(sparse.v, "model.layers.2.self_attn.v_proj.weight");
  ExpectBytesOf(sparse.o, "model.layers.2.self_attn.o_proj.weight");
  ExpectBytesOf(sparse.router, "model.layers.2.mlp.gate.weight");
  ExpectBytesOf(sparse.gate, "model.layers.2.mlp.shared_experts.gate_proj.weight");
  ExpectBytesOf(sparse.up, "model.layers.2.mlp.shared_experts.up_proj.weight");
  ExpectBytesOf(sparse.down, "model.layers.2.mlp.shared_experts.down_proj.weight");
  ExpectBytesOf(sparse.experts[3].gate, "model.layers.2.mlp.experts.3.gate_proj.weight");
  ExpectBytesOf(sparse.experts[3].up, "model.layers.2.mlp.experts.3.up_proj.weight");
  ExpectBytesOf(sparse.experts[3].down, "model.layers.2.mlp.experts.3.down_proj.weight");
  uint64_t bytes = 0;
  for (const RawTensor& tensor : tensors_) bytes += tensor.bytes.size();
  EXPECT_EQ(weights->total_bytes, bytes);
}

TEST_F(WeightBinderTest, EveryMissingTensorIsNamed) {
  for (bool fused : {false, true}) {
    const std::vector<RawTensor> all = SyntheticTensors(config_, {.fused_experts = fused});
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].name.find("gate_up_proj") != std::string::npos)
        continue;  // Read as the other layout.
      std::vector<RawTensor> rest = all;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_THAT(Error(rest), HasSubstr("the model: tensor \"" + all[i].name + "\" is missing"));
    }
  }
}

TEST_F(WeightBinderTest, EveryWrongShapeIsNamed) {
  for (bool fused : {false, true}) {
    std::vector<RawTensor> all = SyntheticTensors(config_, {.fused_experts = fused});
    for (RawTensor& tensor : all) {
      const std::vector<int64_t> shape = tensor.shape;
      tensor.shape.push_back(1);
      EXPECT_THAT(Error(all), AllOf(HasSubstr(path_ + ": tensor \"" + tensor.name + "\""),
                                    HasSubstr("want shape ["), HasSubstr("found [")));
      tensor.shape = shape;
    }
  }
}

TEST_F(WeightBinderTest, EveryWrongDTypeIsNamed) {
  for (RawTensor& tensor : tensors_) {
    tensor.dtype = "I16";
    EXPECT_THAT(Error(tensors_), AllOf(HasSubstr(path_ + ": tensor \"" + tensor.name + "\""),
                                       HasSubstr("want dtype BF16, F16 or F32, found I16")));
    tensor.dtype = "BF16";
  }
}

TEST_F(WeightBinderTest, TransposedMatrixIsRefused) {
  RawTensor& tensor = Named("model.layers.1.mlp.experts.0.down_proj.weight");
  std::swap(tensor.shape[0], tensor.shape[1]);
  EXPECT_THAT(Error(tensors_), HasSubstr("want shape [32, 16], found [16, 32]"));
}

TEST_F(WeightBinderTest, UnknownTensorIsRefused) {
  for (const char* name :
       {"model.layers.4.input_layernorm.weight", "model.layers.1.mlp.experts.4.up_proj.weight",
        "model.layers.1.mlp.shared_experts.up_proj.weight",
        "model.layers.1.self_attn.q_norm.weight", "model.layers.0.mlp.gate.weight",
        "model.layers.1.mlp.experts.down_proj", ""}) {
    std::vector<RawTensor> more = tensors_;
    more.push_back({name, "BF16", {1}, std::string("\0\0", 2)});
    EXPECT_THAT(Error(more), HasSubstr("has no such tensor")) << name;
  }
}

TEST_F(WeightBinderTest, ZeroBiasesAndOtherLeftoversAreIgnored) {
  tensors_.push_back({"model.norm.bias", "BF16", {32}, std::string(64, '\0')});
  tensors_.push_back(
      {"model.layers.1.self_attn.q_proj.bias", "F32", {2}, std::string("\0\0\0\0\0\0\0\x80", 8)});
  tensors_.push_back({"model.layers.1.self_attn.rotary_emb.inv_freq", "F32", {1}, "abcd"});
  tensors_.push_back({"lm_head.weight", "BF16", {1}, "ab"});
  const auto weights = Bind(tensors_);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->head.data, weights->embedding.data);
}

TEST_F(WeightBinderTest, OtherBiasesAreRefused) {
  tensors_.push_back({"model.norm.bias", "BF16", {2}, std::string("\0\0\x80\x3f", 4)});
  EXPECT_THAT(Error(tensors_), AllOf(HasSubstr("model.norm.bias"), HasSubstr("no biases")));
}

TEST_F(WeightBinderTest, TensorInTwoFilesIsRefused) {
  ASSERT_TRUE(Bind(tensors_).ok());
  WriteFileBytes(directory_.File("2.safetensors"), SafetensorsBytes({tensors_[5]}));
  files_.push_back(*SafetensorsFile::Open(directory_.File("2.safetensors")));
  const auto weights = WeightBinder(config_, files_, "the model").Bind();
  EXPECT_THAT(std::string(weights.status().message()),
              AllOf(HasSubstr("2.safetensors"), HasSubstr(tensors_[5].name), HasSubstr(path_)));
}

}  // namespace
}  // namespace baton
