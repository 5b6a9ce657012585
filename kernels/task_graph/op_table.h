// The one list of ops of a decode step. The enum, the names and each backend's dispatch table
// expand from it; an op without an implementation does not link.
//
// x [rows, hidden] is the residual stream. Every worker owns fixed rows of every matrix, in units
// of 8 output rows (16-row matrix tiles are two units), and keeps them for the life of the model:
// no queues, no atomics, no split over K between workers. Ops of a worker's list in a layer, with
// what they wait for and publish:
//
//   Embed          x = embedding[token] for the owned rows of x; every worker reads the embedding
//   rows itself. Router         logits of the owned experts: norm(x) . W_r. waits x;        signals
//   router QkvRope        owned rows of q, k, v; RoPE; appends k, v to the pages and to the new-key
//   buffers.
//                                                                                 waits x; signals
//                                                                                 qkv
//   GateUp         for each active expert, owned rows of gate and up: h = silu(gate) * up. The
//   worker selects the top-k
//                  itself from the router logits (ties to the lowest id), so all workers agree
//                  without a hop. Split in two tasks so that attention's hops hide behind the
//                  first.             waits router;   signals hidden (the second)
//   Attention      partial softmax of (row, kv head, split) over cached keys; split bounds depend
//   on the row's own
//                  length only.                                                   waits qkv;
//                  signals partial
//   AttentionMerge (row, query head): merges splits in split order and the step's own new key.
//   waits partial; signals merged OutputProj     owned rows of o_proj, kept locally. waits merged
//   Down           owned rows of down for each active expert in ascending id, score applied in
//   fp32, plus the kept
//                  attention part: x += attn, then x += ffn (two roundings).        waits hidden;
//                  signals x (next layer)
//   LmHead         final norm and owned vocabulary rows; running maximum of logit or of logit / T +
//   Gumbel, and log-sum-exp.
//                                                                                 waits x; signals
//                                                                                 head
//   Sample         (row): merges the workers' maxima in worker order, applies stop ids and limits,
//   advances the row.
//                                                                                 waits head;
//                                                                                 signals step
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
