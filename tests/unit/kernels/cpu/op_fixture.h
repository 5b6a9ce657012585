// OpFixture: a synthetic model in float32, three rows of a step, and two workers' contexts: what
// the tests of single ops need. Rows stand at positions 0, 5 and 70 of sequences of their own.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/check/sequence_runner.h"
#include "kernels/cpu/ops/ops.h"
#include "kernels/cpu/worker_context.h"
#include "kernels/kv/model_kv_layout.h"
#include "tests/unit/kernels/cpu/synthetic_model.h"

namespace baton {

class OpFixture : public testing::Test {
 protected:
  static constexpr int kWorkers = 2;
  static constexpr int kRows = 3;

  explicit OpFixture(const ModelConfig& config = SyntheticConfig())
      : synthetic_(config, DType::kF32),
        model_(synthetic_.checkpoint(), CpuMode::kFloat32, PortableInnerLoops()),
        graph_(TaskGraph::Build(config, kWorkers)),
        buffers_(config, graph_.shape(), kRows, kRows, kWorkers),
        layout_(MakeModelKvLayout(config, {.element_bytes = 4}, 2 * kRows, 2 * kRows)),
        memory_(layout_.total_bytes()) {
    buffers_.Poison();
    const int positions[kRows] = {0, 5, 70};
    for (PageId row = 0; row < kRows; ++row) {
      pages_[row] = {{2 * row, 2 * row + 1}, {2 * row, 2 * row + 1}};
      plan_.rows.push_back({static_cast<TokenId>(10 + row), positions[row], &pages_[row]});
      plan_.sampled.push_back({.row = static_cast<int>(row)});
    }
    plan_.kv = {static_cast<std::byte*>(memory_.base()), &layout_};
    for (int worker = 0; worker < kWorkers; ++worker) {
      contexts_.push_back(
          std::make_unique<WorkerContext>(model_, buffers_, plan_, worker, kWorkers));
    }
  }

  // Runs every worker's tasks of one op and layer.
  void RunOp(OpKind op, int layer) {
    for (int worker = 0; worker < kWorkers; ++worker) {
      for (const Task& task : graph_.tasks(worker)) {
        if (task.op == op && task.layer == layer) CpuOpOf(op)(*contexts_[worker], task);
      }
    }
  }

  void FillRandom(float* values, int count) {
    std::normal_distribution<float> normal;
    for (int i = 0; i < count; ++i) values[i] = normal(random_);
  }

  // Random x of all rows in the copy that `layer` reads.
  void FillX(int layer) {
    for (int row = 0; row < kRows; ++row) FillRandom(X(layer, row), config().hidden);
  }
  float* X(int layer, int row) { return buffers_.x(layer % kBufferCopies, row); }

  // norm(x) of a row for the layer.
  std::vector<float> Norm(int layer, int row) {
    std::vector<float> normed(config().hidden);
    model_.Normalize(layer, X(layer, row), normed.data());
    return normed;
  }

  // Row `out` of an F32 matrix times x.
  static double Dot(const TensorView& matrix, int64_t out, const float* x) {
    const int64_t columns = matrix.RowElementCount();
    const auto* weights = static_cast<const float*>(matrix.data) + out * columns;
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) sum += double{weights[i]} * x[i];
    return sum;
  }

  const ModelConfig& config() const { return model_.config(); }
  const LayerWeights& weights(int layer) const { return model_.weights().layers[layer]; }
  CpuModel& model() { return model_; }
  StepBuffers& buffers() { return buffers_; }
  StepPlan& plan() { return plan_; }
  WorkerContext& context(int worker) { return *contexts_[worker]; }

 private:
  SyntheticModel synthetic_;
  CpuModel model_;
  TaskGraph graph_;
  StepBuffers buffers_;
  StepPlan plan_;
  KvLayout layout_;
  HostKvMemory memory_;
  KvPageTable pages_[kRows];
  std::vector<std::unique_ptr<WorkerContext>> contexts_;
  std::mt19937 random_{11};
};

// The same with a shared expert, LayerNorm and a softmax router.
class SharedExpertOpFixture : public OpFixture {
 protected:
  SharedExpertOpFixture() : OpFixture(SharedExpertConfig()) {}
};

}  // namespace baton
