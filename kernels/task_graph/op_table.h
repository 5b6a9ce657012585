// The one list of ops of a decode step. The enum, the names and each backend's dispatch table
// expand from it; an op without an implementation does not link.
//
// x [rows, hidden] is the residual stream. Every worker owns fixed rows of every matrix, in units
// of 8 output rows (16-row matrix tiles are two units), and keeps them for the life of the model:
// no queues, no atomics, no split over K between workers. Ops of a worker's list in a layer, with
// what they wait for and publish. Each names all it needs, even what an earlier task of the same
// list waited for, so that an interpreter may overlap neighbours:
//
//   Embed           x = embedding[token] for the owned columns of x. Waits for nothing: a step
//                   starts when the last has ended. Signals x of layer 0.
//   Router          Logits of the owned experts: norm(x) . W_r. Waits x; signals router.
//                   Sparse layers only; owned by the workers with the least of QkvRope.
//   QkvRope         Owned rows of q, k, v; RoPE; appends k, v to the pages and to the new-key
//                   buffers. Waits x; signals qkv.
//   GateUp          For each active expert, owned rows of gate and up: h = silu(gate) * up. The
//                   worker selects the top-k itself from the router logits (ties to the lowest
//                   id), so all workers agree without a hop; of many rows GPU workers select some
//                   each. A part of its own is the dense network or the shared expert. Waits x
//                   and (routed experts) router; the worker's last one signals hidden.
//   Attention       Partial softmax of (row, kv head, split) over cached keys; split bounds depend
//                   on the row's own length only. Waits qkv; signals partial.
//   AttentionMerge  (row, query head): merges splits in split order and the step's own new key.
//                   Waits partial; signals merged.
//   OutputProj      Owned rows of o_proj. Waits merged.
//   Down            Owned rows of down for each active expert in ascending id, score applied in
//                   fp32. Waits hidden.
//                   Of these two what is there first comes first: OutputProj in layers that see a
//                   window of keys, Down in those that see all. It keeps its part locally; the
//                   later one adds both: x += attn, then x += ffn (two roundings), and signals x
//                   of the next layer.
//   LmHead          Final norm and owned vocabulary rows; running maximum of logit or of logit / T
//                   + Gumbel, and log-sum-exp. Waits x; signals head.
//   Sample          (row): merges the workers' maxima in worker order, applies stop ids and limits,
//                   advances the row. Waits head; signals step.
#pragma once

#include <cstdint>

namespace baton {

#define BATON_FOR_EACH_OP(X) \
  X(Embed)                   \
  X(Router)                  \
  X(QkvRope)                 \
  X(GateUp)                  \
  X(Attention)               \
  X(AttentionMerge)          \
  X(OutputProj)              \
  X(Down)                    \
  X(LmHead)                  \
  X(Sample)

enum class OpKind : uint8_t {
#define BATON_OP_ENUM(name) k##name,
  BATON_FOR_EACH_OP(BATON_OP_ENUM)
#undef BATON_OP_ENUM
};

#define BATON_OP_COUNT(name) +1
inline constexpr int kOpCount = 0 BATON_FOR_EACH_OP(BATON_OP_COUNT);
#undef BATON_OP_COUNT

const char* OpName(OpKind op);

}  // namespace baton
