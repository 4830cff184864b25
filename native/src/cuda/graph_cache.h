// Launches that come again. A list that came before, byte for byte, is launched as one CUDA graph: the device then has its launches at once, with
// no gaps between them. Nothing in a graph is ever changed, so a graph can do nothing but what its list would have done.
#pragma once

#include <list>
#include <string>
#include <unordered_map>

#include "cuda/driver.h"
#include "cuda/launch_list.h"

namespace svc::cuda {

class GraphCache {
 public:
  /// @param overlaps whether each kernel waits itself for the one before it, so that it may begin earlier
  GraphCache(const Driver& driver, bool overlaps) : driver_(driver), overlaps_(overlaps) {}
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  /// Appends `list` to `stream`: as a graph from the second time on. Throws DriverError.
  void launch(const LaunchList& list, StreamHandle stream);

  /// Lists are kept as long as they have at most so many launches together; those that were not used for longest go first.
  void limit(size_t launches);
  /// Graphs that are kept, and how often one was launched.
  size_t graphs() const { return graphs_; }
  uint64_t replays() const { return replays_; }
  /// Why no more graphs are made; empty while they are.
  const std::string& failure() const { return failure_; }

 private:
  /// A list, and its graph from the second time on.
  struct Known {
    uint64_t hash;
    LaunchList list;
    ExecutableGraph graph;
  };
  using Place = std::list<Known>::iterator;

  /// Null where the list is new, or no graph can be made.
  ExecutableGraph graphOf(const LaunchList& list);
  ExecutableGraph make(const LaunchList& list);
  void remember(uint64_t hash, const LaunchList& list);
  void forget(Place place);
  void launchEach(const LaunchList& list, StreamHandle stream) const;

  const Driver& driver_;
  const bool overlaps_;
  /// The latest used first.
  std::list<Known> known_;
  std::unordered_map<uint64_t, Place> byHash_;
  size_t mostLaunches_ = 16384, launches_ = 0, graphs_ = 0;
  uint64_t replays_ = 0;
  std::string failure_;
};

}  // namespace svc::cuda
