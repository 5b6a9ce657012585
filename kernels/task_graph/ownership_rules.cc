#include "kernels/task_graph/ownership_rules.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/task_graph/signal_rules.h"

namespace baton {
namespace {

// Of a matrix, or of an op that every worker has once a layer.
using MatrixKey = std::tuple<int, OpKind, int>;  // layer, op, part

bool IsShared(OpKind op) {
  return op == OpKind::kAttention || op == OpKind::kAttentionMerge || op == OpKind::kSample;
}

// The units of every matrix of the model, by key.
std::map<MatrixKey, uint32_t> WantedUnits(const GraphShape& shape) {
  std::map<MatrixKey, uint32_t> units;
  const auto add = [&](int layer, OpKind op, int part, uint32_t count) {
    if (count > 0) units[{layer, op, part}] = count;
  };
  add(0, OpKind::kEmbed, 0, shape.hidden_units);
  for (int layer = 0; layer < shape.layer_count(); ++layer) {
    const LayerShape& layer_shape = shape.layers[layer];
    add(layer, OpKind::kRouter, 0, layer_shape.router_units);
    add(layer, OpKind::kQkvRope, 0, shape.qkv_units);
    add(layer, OpKind::kGateUp, kRoutedExperts, layer_shape.expert_rows);
    add(layer, OpKind::kGateUp, kAlwaysActive, layer_shape.always_rows);
    add(layer, OpKind::kOutputProj, 0, shape.hidden_units);
    add(layer, OpKind::kDown, 0, shape.hidden_units);
  }
  add(shape.layer_count(), OpKind::kLmHead, 0, shape.vocab_units);
  return units;
}

struct Piece {
  uint32_t begin;
  uint32_t end;
  int worker;
  auto operator<=>(const Piece&) const = default;
};

absl::Status CheckTiling(const MatrixKey& key, uint32_t unit_count, std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end());
  const std::string name = absl::StrCat(OpName(std::get<1>(key)), " of layer ", std::get<0>(key),
                                        " part ", std::get<2>(key));
  uint32_t next = 0;
  for (const Piece& piece : pieces) {
    if (piece.begin != next || piece.end <= piece.begin) {
      return absl::InvalidArgumentError(absl::StrCat(name, ": wanted a range that begins at unit ",
                                                     next, ", found [", piece.begin, ", ",
                                                     piece.end, ") of worker ", piece.worker));
    }
    next = piece.end;
  }
  if (next == unit_count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": wanted ", unit_count, " units to be owned, found ", next));
}

// Both halves of the experts, and o_proj and down, belong to the same worker for the same units.
absl::Status CheckSameOwner(const std::map<MatrixKey, std::vector<Piece>>& pieces,
                            const MatrixKey& one, const MatrixKey& other) {
  const auto a = pieces.find(one);
  const auto b = pieces.find(other);
  if (a == pieces.end() && b == pieces.end()) return absl::OkStatus();
  if (a != pieces.end() && b != pieces.end()) {
    std::vector<Piece> left = a->second;
    std::vector<Piece> right = b->second;
    std::sort(left.begin(), left.end());
    std::sort(right.begin(), right.end());
    if (left == right) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("layer ", std::get<0>(one), ": wanted the same owners of ",
                   OpName(std::get<1>(one)), " part ", std::get<2>(one), " and ",
                   OpName(std::get<1>(other)), " part ", std::get<2>(other)));
}

}  // namespace

absl::Status CheckOwnership(const TaskGraph& graph) {
  const GraphShape& shape = graph.shape();
  std::map<MatrixKey, std::vector<Piece>> pieces;
  std::map<MatrixKey, std::vector<int>> shared;
  for (int worker = 0; worker < graph.worker_count(); ++worker) {
    for (const Task& task : graph.tasks(worker)) {
      const MatrixKey key{task.layer, task.op, task.part};
      if (!IsShared(task.op)) {
        pieces[key].push_back({task.begin, task.end, worker});
        continue;
      }
      if (task.begin != 0 || task.end != 0) {
        return TaskError(graph, worker, task, "wanted no units");
      }
      shared[key].push_back(worker);
    }
  }
  for (const auto& [key, unit_count] : WantedUnits(shape)) {
    BATON_RETURN_IF_ERROR(CheckTiling(key, unit_count, pieces[key]));
  }
  std::vector<int> everyone(graph.worker_count());
  for (int worker = 0; worker < graph.worker_count(); ++worker) everyone[worker] = worker;
  const auto check_shared = [&](int layer, OpKind op) {
    if (shared[{layer, op, 0}] == everyone) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(OpName(op), " of layer ", layer, ": wanted once in every worker's list"));
  };
  for (int layer = 0; layer < shape.layer_count(); ++layer) {
    BATON_RETURN_IF_ERROR(check_shared(layer, OpKind::kAttention));
    BATON_RETURN_IF_ERROR(check_shared(layer, OpKind::kAttentionMerge));
    BATON_RETURN_IF_ERROR(
        CheckSameOwner(pieces, {layer, OpKind::kOutputProj, 0}, {layer, OpKind::kDown, 0}));
  }
  return check_shared(shape.layer_count(), OpKind::kSample);
}

}  // namespace baton
