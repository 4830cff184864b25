// Writes an entry of the packed cache while the model is served already. The weights that it reads belong to the backend,
// which outlives it: `finish` comes first.
#pragma once

#include <napi.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace svc {

class PackedSaving {
 public:
  /// Asks `mayGoOn`, between pieces of its work, whether it is still wanted. False if another process is writing.
  using Write = std::function<bool(const std::function<bool()>& mayGoOn)>;

  /// Of an entry at `path`.
  PackedSaving(Napi::Env env, const std::string& path);

  /// Runs `write` on a thread of the pool of Node. The promise becomes what `write` returns, or its error.
  static Napi::Promise start(std::shared_ptr<PackedSaving> saving, Write write);

  /// Waits until all is written, though no thread may have been free to begin it: for a few seconds, then it is given up.
  /// Nothing is being written any more when it returns. False if it was given up.
  bool finish();
  /// Says so to whoever waits for the promise, in a call from JavaScript: the pool of Node may have no thread free to say it.
  void rejectGivenUp();

 private:
  class Worker;
  enum class State { Waiting, Writing, Over };

  /// False if it is not wanted any more.
  bool begin();
  void end();
  bool mayGoOn();
  /// Empty once the promise is settled. For the thread of JavaScript.
  std::optional<Napi::Promise::Deferred> takeResult() { return std::exchange(result_, std::nullopt); }

  const Napi::Env env_;
  const std::string givenUp_;
  std::optional<Napi::Promise::Deferred> result_;
  std::mutex mutex_;
  std::condition_variable hasEnded_;
  State state_ = State::Waiting;
  bool isGivenUp_ = false;
};

}  // namespace svc
