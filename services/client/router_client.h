// RouterClient: `baton`'s calls on the router, in domain values: no command knows gRPC. Calls block
// the calling thread; Cancel may come from another one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"

namespace baton {

class RouterClient {
 public:
  // `timeout` bounds each call; 0 = none. Connects lazily.
  RouterClient(const std::string& address, std::chrono::milliseconds timeout);
  ~RouterClient();

  // `on_message` gets every message as it comes.
  absl::Status Generate(const v1::GenerateRequest& request,
                        const std::function<void(const v1::GenerateResponse&)>& on_message);
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request);
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request);
  absl::StatusOr<v1::GetModelResponse> GetModel();
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers();

  // Ends the Generate call that runs, with Cancelled. False: none does. Any thread.
  bool Cancel();

 private:
  struct Connection;  // Keeps gRPC's headers out of the commands.
  const std::unique_ptr<Connection> connection_;
};

}  // namespace baton
