#include "cuda/graph_cache.h"

namespace svc::cuda {
namespace {

/// A graph of fewer launches saves nothing.
constexpr size_t kLeastLaunches = 8;

/// A graph that is being made.
class Draft {
 public:
  Draft(const Driver& driver, GraphEdge edge) : driver_(driver), edge_(edge) { driver_.check(driver_.cuGraphCreate(&graph_, 0), "begin a graph"); }
  ~Draft() { driver_.cuGraphDestroy(graph_); }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  /// After all that were added before.
  void add(const QueuedLaunch& launch, void* params) {
    const auto [x, y, z] = launch.grid;
    void* arguments[] = {params};
    const KernelNode node{launch.function, x, y, z, launch.block, 1, 1, launch.sharedBytes, arguments, nullptr, nullptr, nullptr};
    const GraphNode before = last_;
    driver_.check(driver_.cuGraphAddKernelNode_v2(&last_, graph_, nullptr, 0, &node), launch.kernel);
    if (before != nullptr) driver_.check(driver_.cuGraphAddDependencies_v2(graph_, &before, &last_, &edge_, 1), launch.kernel);
  }

  ExecutableGraph instantiate() const {
    ExecutableGraph made = nullptr;
    driver_.check(driver_.cuGraphInstantiateWithFlags(&made, graph_, 0), "make a graph of launches");
    return made;
  }

 private:
  const Driver& driver_;
  const GraphEdge edge_;
  Graph graph_ = nullptr;
  GraphNode last_ = nullptr;
};

}  // namespace

GraphCache::~GraphCache() { limit(0); }

void GraphCache::launch(const LaunchList& list, StreamHandle stream) {
  const ExecutableGraph graph = list.size() < kLeastLaunches ? nullptr : graphOf(list);
  if (graph == nullptr) return launchEach(list, stream);
  driver_.check(driver_.cuGraphLaunch(graph, stream), "launch a graph");
  ++replays_;
}

void GraphCache::limit(size_t launches) {
  mostLaunches_ = launches;
  while (launches_ > mostLaunches_) forget(std::prev(known_.end()));
}

ExecutableGraph GraphCache::graphOf(const LaunchList& list) {
  const uint64_t hash = list.hash();
  const auto found = byHash_.find(hash);
  if (found == byHash_.end() || !(found->second->list == list)) {
    remember(hash, list);
    return nullptr;
  }
  const Place known = found->second;
  known_.splice(known_.begin(), known_, known);
  if (known->graph == nullptr && failure_.empty()) known->graph = make(list);
  return known->graph;
}

ExecutableGraph GraphCache::make(const LaunchList& list) {
  try {
    Draft draft(driver_, overlaps_ ? kProgrammaticEdge : GraphEdge{});
    for (const QueuedLaunch& launch : list.launches()) draft.add(launch, list.paramsOf(launch));
    const ExecutableGraph made = draft.instantiate();
    ++graphs_;
    return made;
  } catch (const DriverError& error) {
    failure_ = error.what();
    return nullptr;
  }
}

void GraphCache::remember(uint64_t hash, const LaunchList& list) {
  if (const auto same = byHash_.find(hash); same != byHash_.end()) forget(same->second);
  known_.push_front({hash, list, nullptr});
  byHash_.emplace(hash, known_.begin());
  launches_ += list.size();
  limit(mostLaunches_);
}

void GraphCache::forget(Place place) {
  // The device frees a graph once it has run.
  if (place->graph != nullptr) {
    driver_.cuGraphExecDestroy(place->graph);
    --graphs_;
  }
  launches_ -= place->list.size();
  byHash_.erase(place->hash);
  known_.erase(place);
}

void GraphCache::launchEach(const LaunchList& list, StreamHandle stream) const {
  for (const QueuedLaunch& launch : list.launches()) {
    const auto [x, y, z] = launch.grid;
    void* arguments[] = {list.paramsOf(launch)};
    const Result result =
        driver_.cuLaunchKernel(launch.function, x, y, z, launch.block, 1, 1, launch.sharedBytes, stream, arguments, nullptr);
    if (result != kSuccess) driver_.check(result, ("launch " + std::string(launch.kernel)).c_str());
  }
}

}  // namespace svc::cuda
