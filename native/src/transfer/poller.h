// A thread that waits for sockets and for commands, one after the other, never both at once.
#pragma once

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "threads/thread_name.h"
#include "transfer/descriptor.h"

namespace svc::transfer {

class Poller {
 public:
  Poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!epoll_.isOpen() || !wake_.isOpen()) throw std::runtime_error("no descriptors are left for the KV transfer");
    if (!watch(wake_.get(), EPOLLIN)) throw std::runtime_error("the KV transfer cannot wait for sockets");
  }
  ~Poller() { stop(); }

  /// `onEvents(fd, events)` for sockets, `onWake()` after every round that began with a wake-up.
  void start(std::function<void(int, uint32_t)> onEvents, std::function<void()> onWake) {
    thread_ = std::thread([this, onEvents = std::move(onEvents), onWake = std::move(onWake)] {
      nameThread("svc-transfer");
      while (!isStopping_) runOnce(onEvents, onWake);
    });
  }

  /// Ends the thread, and drops commands that have not run.
  void stop() {
    isStopping_ = true;
    wake();
    if (thread_.joinable()) thread_.join();
  }

  /// From any thread; never waits.
  void wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
  }
  /// Runs `command` on the thread.
  void post(std::function<void()> command) {
    {
      const std::lock_guard lock(mutex_);
      commands_.push_back(std::move(command));
    }
    wake();
  }

  /// False if the system can watch no more sockets.
  bool watch(int fd, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }
  void forget(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

 private:
  void runOnce(const std::function<void(int, uint32_t)>& onEvents, const std::function<void()>& onWake) {
    std::array<epoll_event, 64> events;
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    bool isWoken = false;
    for (int i = 0; i < count; ++i) {
      if (events[i].data.fd == wake_.get()) isWoken = true;
      else onEvents(events[i].data.fd, events[i].events);
    }
    if (!isWoken) return;
    uint64_t ignored;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &ignored, sizeof ignored);
    std::vector<std::function<void()>> commands;
    {
      const std::lock_guard lock(mutex_);
      commands.swap(commands_);
    }
    for (const auto& command : commands) command();
    onWake();
  }

  Descriptor epoll_, wake_;
  std::mutex mutex_;
  std::vector<std::function<void()>> commands_;
  std::atomic<bool> isStopping_ = false;
  std::thread thread_;
};

}  // namespace svc::transfer
