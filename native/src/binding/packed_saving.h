// Writes an entry of the packed cache while the model is served already. The weights that it reads belong to the backend,
// which outlives it: `finish` comes first.
#pragma once

#include <napi.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace svc {

class PackedSaving {
 public:
  /// Asks `mayGoOn`, between pieces of its work, whether it is still wanted. False if another process is writing.
  using Write = std::function<bool(const std::function<bool()>& mayGoOn)>;

  /// Runs `write` on a thread of the pool of Node. The promise becomes what `write` returns, or its error.
  static Napi::Promise start(Napi::Env env, std::shared_ptr<PackedSaving> saving, Write write);

  /// Waits until all is written, though no thread may have been free to begin it: up to `patience`, then it is given up.
  /// Nothing is being written any more when it returns.
  void finish(std::chrono::milliseconds patience);

 private:
  class Worker;
  enum class State { Waiting, Writing, Over };

  /// False if it is not wanted any more.
  bool begin();
  void end();
  bool mayGoOn();

  std::mutex mutex_;
  std::condition_variable hasEnded_;
  State state_ = State::Waiting;
  bool isGivenUp_ = false;
};

}  // namespace svc
