#include "binding/packed_saving.h"

#include <chrono>

namespace svc {
namespace {

/// How long an entry that is still being written is waited for.
constexpr std::chrono::seconds kPatience{5};

}  // namespace

class PackedSaving::Worker : public Napi::AsyncWorker {
 public:
  Worker(std::shared_ptr<PackedSaving> saving, Write write)
      : AsyncWorker(saving->env_), saving_(std::move(saving)), write_(std::move(write)) {}
  /// Work that Node cancels has no other end.
  ~Worker() override { saving_->end(); }

 private:
  void Execute() override {
    if (!saving_->begin()) return SetError(saving_->givenUp_);
    try {
      isWritten_ = write_([this] { return saving_->mayGoOn(); });
    } catch (const std::exception& error) {
      SetError(error.what());
    }
    saving_->end();
  }
  void OnOK() override {
    if (auto result = saving_->takeResult()) result->Resolve(Napi::Boolean::New(Env(), isWritten_));
  }
  void OnError(const Napi::Error& error) override {
    if (auto result = saving_->takeResult()) result->Reject(error.Value());
  }

  const std::shared_ptr<PackedSaving> saving_;
  const Write write_;
  bool isWritten_ = false;
};

PackedSaving::PackedSaving(Napi::Env env, const std::string& path)
    : env_(env),
      givenUp_("writing " + path + " was given up " + std::to_string(kPatience.count()) + " seconds after the end"),
      result_(env) {}

Napi::Promise PackedSaving::start(std::shared_ptr<PackedSaving> saving, Write write) {
  const Napi::Promise promise = saving->result_->Promise();
  // Deletes itself at its end.
  (new Worker(std::move(saving), std::move(write)))->Queue();
  return promise;
}

bool PackedSaving::finish() {
  std::unique_lock lock(mutex_);
  const bool isOver = hasEnded_.wait_for(lock, kPatience, [this] { return state_ == State::Over; });
  isGivenUp_ = true;
  hasEnded_.wait(lock, [this] { return state_ != State::Writing; });
  return isOver;
}

void PackedSaving::rejectGivenUp() {
  if (auto result = takeResult()) result->Reject(Napi::Error::New(env_, givenUp_).Value());
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
