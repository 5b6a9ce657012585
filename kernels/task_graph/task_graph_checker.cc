#include "kernels/task_graph/task_graph_checker.h"

#include "common/check.h"
#include "kernels/task_graph/buffer_rules.h"
#include "kernels/task_graph/epoch_rules.h"
#include "kernels/task_graph/happens_before.h"
#include "kernels/task_graph/ownership_rules.h"
#include "kernels/task_graph/signal_rules.h"

namespace baton {

absl::Status CheckTaskGraph(const TaskGraph& graph) {
  BATON_RETURN_IF_ERROR(CheckSignals(graph));
  BATON_RETURN_IF_ERROR(CheckEpochs(graph));
  BATON_RETURN_IF_ERROR(CheckOwnership(graph));
  for (ListOrder list_order : {ListOrder::kTaskByTask, ListOrder::kByRole}) {
    BATON_ASSIGN_OR_RETURN(const HappensBefore order, HappensBefore::Of(graph, list_order));
    BATON_RETURN_IF_ERROR(CheckBuffers(graph, order));
  }
  return absl::OkStatus();
}

}  // namespace baton
