#include "transfer/loader.h"

#include "threads/thread_name.h"

namespace svc::transfer {

Loader::Loader(KvMemory memory, EventQueue& events)
    : memory_(std::move(memory)), events_(events), checksum_(memory_.layerBlockBytes), thread_([this] { run(); }) {}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    isStopping_ = true;
  }
  hasWork_.notify_one();
  thread_.join();
}

void Loader::post(LoadJob job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  hasWork_.notify_one();
}

void Loader::run() {
  nameThread("svc-transfer");
  std::unique_lock lock(mutex_);
  while (true) {
    hasWork_.wait(lock, [this] { return isStopping_ || !jobs_.empty(); });
    if (isStopping_) return;
    const LoadJob job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    events_.push({EventKind::Loaded, job.load, {}, copy(job)});
    lock.lock();
  }
}

bool Loader::copy(const LoadJob& job) const {
  if (!job.receive) return false;
  const Receive& receive = *job.receive;
  const size_t numBlocks = receive.places.size(), skipped = job.firstBlock - receive.firstBlock;
  if (receive.numCome != receive.hasCome.size() || job.firstBlock < receive.firstBlock) return false;
  if (skipped + job.blocks.size() > numBlocks) return false;
  // Copies in the order of the source's addresses.
  for (size_t i = 0; i < job.blocks.size(); ++i) {
    if (isStopping_) return false;
    for (uint32_t layer = 0; layer < memory_.layers; ++layer) {
      char* to = memory_.layerBlock(layer, job.blocks[i]);
      const char* from = receive.places[skipped + i] + layer * memory_.layerBlockBytes;
      if (checksum_.copy(to, from) != receive.checksums[layer * numBlocks + skipped + i]) return false;
    }
  }
  return true;
}

}  // namespace svc::transfer
