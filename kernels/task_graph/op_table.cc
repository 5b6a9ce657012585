#include "kernels/task_graph/op_table.h"

namespace baton {

const char* OpName(OpKind op) {
  switch (op) {
#define BATON_OP_NAME(name) \
  case OpKind::k##name:     \
    return #name;
    BATON_FOR_EACH_OP(BATON_OP_NAME)
#undef BATON_OP_NAME
  }
  return "?";
}

}  // namespace baton
