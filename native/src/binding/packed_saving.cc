#include "binding/packed_saving.h"

#include <utility>

namespace svc {

class PackedSaving::Worker : public Napi::AsyncWorker {
 public:
  Worker(Napi::Env env, std::shared_ptr<PackedSaving> saving, Write write)
      : AsyncWorker(env), saving_(std::move(saving)), write_(std::move(write)), result_(env) {}
  /// Work that Node cancels has no other end.
  ~Worker() override { saving_->end(); }

  Napi::Promise promise() const { return result_.Promise(); }

 private:
  void Execute() override {
    if (!saving_->begin()) return;
    try {
      isWritten_ = write_([this] { return saving_->mayGoOn(); });
    } catch (const std::exception& error) {
      SetError(error.what());
    }
    saving_->end();
  }
  void OnOK() override { result_.Resolve(Napi::Boolean::New(Env(), isWritten_)); }
  void OnError(const Napi::Error& error) override { result_.Reject(error.Value()); }

  const std::shared_ptr<PackedSaving> saving_;
  const Write write_;
  const Napi::Promise::Deferred result_;
  bool isWritten_ = false;
};

Napi::Promise PackedSaving::start(Napi::Env env, std::shared_ptr<PackedSaving> saving, Write write) {
  // Deletes itself at its end.
  auto* worker = new Worker(env, std::move(saving), std::move(write));
  const Napi::Promise promise = worker->promise();
  worker->Queue();
  return promise;
}

void PackedSaving::finish(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  hasEnded_.wait_for(lock, patience, [this] { return state_ == State::Over; });
  isGivenUp_ = true;
  hasEnded_.wait(lock, [this] { return state_ != State::Writing; });
}

bool PackedSaving::begin() {
  const std::lock_guard lock(mutex_);
  if (isGivenUp_) return false;
  state_ = State::Writing;
  return true;
}

void PackedSaving::end() {
  const std::lock_guard lock(mutex_);
  state_ = State::Over;
  hasEnded_.notify_all();
}

bool PackedSaving::mayGoOn() {
  const std::lock_guard lock(mutex_);
  return !isGivenUp_;
}

}  // namespace svc
