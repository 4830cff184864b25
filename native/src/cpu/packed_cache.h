// An entry of the packed cache: the weights of one load in one file, in the order in which they were loaded. It is read
// into memory like the checkpoint, never mapped, and every byte of it is summed: an entry that is cut off or damaged is
// found out before a number of it is used.
//
//   head | table: key; of each weight its name, its plain numbers, sizes and checksums of its parts | parts, at whole pages
//
// A key names the build of the addon, so what is written is laid out as this build lays it out.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cpu/packed_weight.h"
#include "memory/crc32c.h"
#include "memory/weight_file.h"
#include "threads/pool.h"
#include "threads/stream.h"

namespace svc::cpu {

class PackedEntryReader {
 public:
  /// Throws std::runtime_error, saying why, if `path` is not a whole entry of `key`.
  PackedEntryReader(const std::string& path, const std::string& key);

  size_t count() const { return entries_.size(); }
  const std::string& path() const { return file_.path(); }
  const std::string& nameOf(size_t index) const { return entries_[index].name; }
  /// Once for each. Throws std::runtime_error if its bytes are not as written.
  PackedWeight read(ThreadPool&, size_t index);

 private:
  struct Part {
    size_t offset, bytes;
    std::vector<uint32_t> sums;  // one a piece
  };
  struct Entry {
    std::string name;
    PackedWeight weight;  // its plain numbers; the parts are empty
    std::vector<Part> parts;
  };

  void readTable(const std::string& table, const std::string& key);
  [[noreturn]] void fail(const std::string& what) const;

  WeightFile file_;
  std::vector<Entry> entries_;
};

/// Reads an entry on the stream, one weight after the other, while they are asked for in the same order.
class PackedReadAhead {
 public:
  /// As of PackedEntryReader.
  PackedReadAhead(Stream&, ThreadPool&, const std::string& path, const std::string& key);
  /// Gives up what is not read yet.
  ~PackedReadAhead();
  PackedReadAhead(const PackedReadAhead&) = delete;
  PackedReadAhead& operator=(const PackedReadAhead&) = delete;

  /// The next weight. Throws std::runtime_error if it was written under another name, or its bytes are not as written.
  PackedWeight take(const std::string& name);

 private:
  struct Read {
    StreamPosition position;
    std::optional<PackedWeight> weight;
    std::exception_ptr failure;
  };

  void read(size_t index);
  void await(StreamPosition position);

  Stream& stream_;
  ThreadPool& pool_;
  PackedEntryReader entry_;
  std::atomic<bool> isWanted_{true};
  std::vector<Read> reads_;
  size_t next_ = 0;
};

/// Writes an entry beside `path` and renames it into place once it is whole. False, and nothing has changed, if another
/// process is writing the same entry. Throws std::runtime_error if it cannot be written or `mayGoOn`, which is asked
/// before each piece, says no; then nothing is left of it.
bool writePackedEntry(const std::string& path, const std::string& key, const std::vector<NamedWeight>& weights,
                      const std::function<bool()>& mayGoOn);

}  // namespace svc::cpu
