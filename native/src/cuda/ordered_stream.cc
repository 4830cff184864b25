// Events are recorded only where something is handed over or awaited: an op of a layer costs its launch alone.

#include "cuda/ordered_stream.h"

#include <thread>
#include <utility>

namespace svc::cuda {
namespace {

/// Marks that may wait: more than the ops of many steps.
constexpr size_t kMostMarks = 4096;
/// A wait first looks without pause, since ops of a small step take less than a sleep.
constexpr std::chrono::microseconds kSpin{200};
constexpr std::chrono::microseconds kPause{50};
constexpr std::chrono::milliseconds kLongWait{1000};

}  // namespace

OrderedStream::OrderedStream(const Device& device, bool overlaps, StreamWatch watch)
    : driver_(device.driver()), watch_(std::move(watch)), graphs_(driver_, overlaps) {
  driver_.check(driver_.cuStreamCreate(&stream_, kStreamNonBlocking), "make a stream");
}

OrderedStream::~OrderedStream() {
  driver_.cuStreamSynchronize(stream_);
  for (const Mark& mark : marks_) driver_.cuEventDestroy_v2(mark.event);
  for (const EventHandle event : spareEvents_) driver_.cuEventDestroy_v2(event);
  driver_.cuStreamDestroy_v2(stream_);
}

StreamHandle OrderedStream::handle() {
  flush();
  return stream_;
}

void OrderedStream::collect(bool isCollecting) {
  flush();
  isCollecting_ = isCollecting;
}

StreamPosition OrderedStream::endOp() {
  if (run_ == last_) busySince_ = Clock::now();
  return ++last_;
}

StreamPosition OrderedStream::endOp(std::function<void()> whenRun) {
  const StreamPosition position = endOp();
  mark(std::move(whenRun));
  advance();
  while (marks_.size() > kMostMarks) await(marks_.front().position, kLongWait);
  return position;
}

bool OrderedStream::await(StreamPosition position, std::chrono::milliseconds atMost) {
  flush();
  if (!hasRun(position) && (marks_.empty() || marks_.back().position < position)) mark(nullptr);
  const Clock::time_point start = Clock::now();
  for (;;) {
    advance();
    if (hasRun(position)) return true;
    watch([this] { watch_.waits(run_); });
    const auto waited = Clock::now() - start;
    if (waited >= atMost) return false;
    if (waited > kSpin) std::this_thread::sleep_for(kPause);
  }
}

void OrderedStream::awaitAll() {
  while (!await(last_, kLongWait)) continue;
}

double OrderedStream::busySeconds() const {
  const auto current = run_ == last_ ? Clock::duration{0} : Clock::now() - busySince_;
  return std::chrono::duration<double>(busy_ + current).count();
}

template <class Look>
void OrderedStream::watch(const Look& look) {
  if (failure_) std::rethrow_exception(failure_);
  try {
    look();
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void OrderedStream::mark(std::function<void()> whenRun) {
  flush();
  const EventHandle event = takeEvent();
  const Result recorded = driver_.cuEventRecord(event, stream_);
  if (recorded != kSuccess) spareEvents_.push_back(event);
  driver_.check(recorded, "record an event");
  marks_.push_back({last_, event, std::move(whenRun)});
}

void OrderedStream::flush() {
  if (queued_.size() == 0) return;
  graphs_.launch(queued_, stream_);
  queued_.clear();
}

void OrderedStream::endPiece() {
  flush();
  if (isCollecting_) mark(nullptr);
}

void OrderedStream::advance() {
  while (!failure_ && !marks_.empty()) {
    const Result reached = driver_.cuEventQuery(marks_.front().event);
    if (reached == kErrorNotReady) return;
    driver_.check(reached, "compute");
    watch([this] { watch_.reaches(marks_.front().position); });
    Mark mark = std::move(marks_.front());
    marks_.pop_front();
    spareEvents_.push_back(mark.event);
    if (mark.whenRun) mark.whenRun();
    const bool hasGoneOn = mark.position > run_;
    run_ = mark.position;
    if (hasGoneOn && run_ == last_) busy_ += Clock::now() - busySince_;
  }
}

EventHandle OrderedStream::takeEvent() {
  if (!spareEvents_.empty()) {
    const EventHandle event = spareEvents_.back();
    spareEvents_.pop_back();
    return event;
  }
  EventHandle event = nullptr;
  driver_.check(driver_.cuEventCreate(&event, kEventDisableTiming), "make an event");
  return event;
}

}  // namespace svc::cuda
