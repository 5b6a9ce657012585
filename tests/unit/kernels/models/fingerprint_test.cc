#include "kernels/models/fingerprint.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kernels/models/checkpoint.h"
#include "tests/fixtures/synthetic_checkpoint.h"
#include "tests/fixtures/temporary_directory.h"

namespace baton {
namespace {

class FingerprintTest : public ::testing::Test {
 protected:
  FingerprintTest() {
    WriteSyntheticCheckpoint(directory_.path(), config_);
    auto checkpoint = Checkpoint::Open(directory_.path());
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    checkpoint_ = *std::move(checkpoint);
  }

  uint64_t Of(const ModelConfig& config) const {
    return ComputeFingerprint(config, checkpoint_->weights());
  }

  const ModelConfig config_ = SyntheticConfig();
  const TemporaryDirectory directory_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(FingerprintTest, IsAFunctionOfTheModel) {
  EXPECT_EQ(Of(config_), Of(config_));
  EXPECT_EQ(Of(config_), checkpoint_->weights().Fingerprint());
}

TEST_F(FingerprintTest, EveryFieldOfTheConfigCounts) {
  std::vector<ModelConfig> changed(12, config_);
  changed[0].window_keys++;
  changed[1].rope_theta *= 2;
  changed[2].norm_epsilon *= 2;
  changed[3].logit_scale *= 2;
  changed[4].router = RouterKind::kSoftmax;
  changed[5].norm_topk = true;
  changed[6].experts_per_token = 1;
  changed[7].layers[3].rope = true;
  changed[8].layers[3].sliding = true;
  changed[9].shared = SharedExperts::kSum;
  changed[10].norm = NormKind::kLayerNorm;
  changed[11].max_positions++;
  std::set<uint64_t> fingerprints = {Of(config_)};
  for (const ModelConfig& config : changed) fingerprints.insert(Of(config));
  EXPECT_EQ(fingerprints.size(), changed.size() + 1);
}

TEST_F(FingerprintTest, EveryTensorCounts) {
  std::set<uint64_t> fingerprints = {Of(config_)};
  std::vector<RawTensor> tensors = SyntheticTensors(config_);
  for (RawTensor& tensor : tensors) {
    tensor.bytes[0] ^= 1;
    const TemporaryDirectory directory;
    WriteCheckpointFiles(directory.path(), config_, tensors);
    tensor.bytes[0] ^= 1;
    const auto checkpoint = Checkpoint::Open(directory.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    fingerprints.insert((*checkpoint)->weights().Fingerprint());
  }
  EXPECT_EQ(fingerprints.size(), tensors.size() + 1);
}

TEST_F(FingerprintTest, TheLastElementOfATensorCounts) {
  std::vector<RawTensor> tensors = SyntheticTensors(config_);
  for (RawTensor& tensor : tensors) {
    tensor.bytes.back() ^= 1;
    const TemporaryDirectory directory;
    WriteCheckpointFiles(directory.path(), config_, tensors);
    tensor.bytes.back() ^= 1;
    const auto checkpoint = Checkpoint::Open(directory.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_NE((*checkpoint)->weights().Fingerprint(), Of(config_)) << tensor.name;
  }
}

}  // namespace
}  // namespace baton
