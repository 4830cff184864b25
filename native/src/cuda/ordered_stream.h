// The order of the ops on a GPU. The thread that calls ops appends them to a stream of the device and goes on; results are handed
// over on the same thread, when it looks how far the device is.
//
// Launches may be collected before they are appended, a piece at a time, so that those that come again are launched as graphs.
#pragma once

#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "cuda/device.h"
#include "cuda/graph_cache.h"

namespace svc::cuda {

/// Throws where ops do not run as they should: no op counts as run after that.
struct StreamWatch {
  /// Is told the last op that has run, by whoever waits for those behind it.
  std::function<void(StreamPosition run)> waits;
  /// Is told how far the device has come, before that counts.
  std::function<void(StreamPosition reached)> reaches;
};

class OrderedStream {
 public:
  /// `overlaps` as GraphCache has it.
  OrderedStream(const Device& device, bool overlaps, StreamWatch watch);
  /// Waits for what was appended; hands over nothing more.
  ~OrderedStream();
  OrderedStream(const OrderedStream&) = delete;
  OrderedStream& operator=(const OrderedStream&) = delete;

  /// For commands that are no launches: they come after all launches so far.
  StreamHandle handle();
  template <class Params>
  void launch(Function function, const Launch& how, const Params& params) {
    queued_.add(function, how, params);
    if (!isCollecting_ || queued_.size() == kPiece) endPiece();
  }
  /// The arguments of the last launch, if it is of this kernel, takesBack(arguments) holds, and it has not been appended yet: it is forgotten then, since the
  /// next one is to do its work as well.
  template <class Params, class Accept>
  std::optional<Params> takeBack(std::string_view kernel, const Accept& takesBack) {
    const Params* const last = queued_.last<Params>(kernel);
    if (last == nullptr || !takesBack(*last)) return std::nullopt;
    const Params params = *last;
    queued_.removeLast();
    return params;
  }
  /// Whether launches from now on are collected.
  void collect(bool isCollecting);
  void limitGraphs(size_t launches) { graphs_.limit(launches); }
  const GraphCache& graphs() const { return graphs_; }
  /// Of what was appended since the last call: one op.
  StreamPosition endOp();
  /// The same; `whenRun` is called once the op has run, before it counts as run.
  StreamPosition endOp(std::function<void()> whenRun);
  /// Calls `whenRun` once all ops so far have run.
  void afterOps(std::function<void()> whenRun) { mark(std::move(whenRun)); }
  StreamPosition lastPosition() const { return last_; }
  bool hasRun(StreamPosition position) const { return position <= run_; }
  /// False if the op has not run within `atMost`. Throws DriverError where the device failed, and what the watch has thrown: no op runs after that.
  bool await(StreamPosition position, std::chrono::milliseconds atMost);
  /// Waits for all ops.
  void awaitAll();
  /// Seconds in which some op was under way, as far as this thread has seen it.
  double busySeconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  /// Launches of a graph at most: the device begins with the first ones while the host collects the next.
  static constexpr size_t kPiece = 64;

  /// A place in the stream that the device tells to have reached.
  struct Mark {
    StreamPosition position;
    EventHandle event;
    std::function<void()> whenRun;
  };

  /// Keeps what `look` throws.
  template <class Look>
  void watch(const Look& look);
  void mark(std::function<void()> whenRun);
  /// Appends the launches that are queued.
  void flush();
  /// The same, so that a wait for the ops of this piece ends with it.
  void endPiece();
  /// Hands over what the device has reached.
  void advance();
  EventHandle takeEvent();

  const Driver& driver_;
  const StreamWatch watch_;
  /// What the watch has thrown.
  std::exception_ptr failure_;
  StreamHandle stream_ = nullptr;
  GraphCache graphs_;
  LaunchList queued_;
  bool isCollecting_ = false;
  StreamPosition last_ = 0, run_ = 0;
  std::deque<Mark> marks_;
  std::vector<EventHandle> spareEvents_;
  /// Since when some op has been under way.
  Clock::time_point busySince_;
  std::chrono::nanoseconds busy_{0};
};

}  // namespace svc::cuda
