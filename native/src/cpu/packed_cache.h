// An entry of the packed cache: the weights of one load in one file, in the order in which they were loaded. It is read
// into memory like the checkpoint, never mapped, and every byte of it is summed: an entry that is cut off or damaged is
// found out before a number of it is used.
//
//   head | table: key; of each weight its name, its plain numbers, sizes and checksums of its parts | parts, at whole pages
//
// A key names the build of the addon, so what is written is laid out as this build lays it out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cpu/packed_weight.h"
#include "memory/crc32c.h"
#include "memory/weight_file.h"
#include "threads/pool.h"

namespace svc::cpu {

class PackedEntryReader {
 public:
  /// Throws std::runtime_error, saying why, if `path` is not a whole entry of `key`.
  PackedEntryReader(const std::string& path, const std::string& key);

  /// The next weight. Throws std::runtime_error if it was written under another name, or its bytes are not as written.
  PackedWeight next(ThreadPool&, const std::string& name);

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
  size_t next_ = 0;
};

/// Writes an entry beside `path` and renames it into place once it is whole. False, and nothing has changed, if another
/// process is writing the same entry. Throws std::runtime_error if it cannot be written or `mayGoOn`, which is asked
/// before each piece, says no; then nothing is left of it.
bool writePackedEntry(const std::string& path, const std::string& key, const std::vector<NamedWeight>& weights,
                      const std::function<bool()>& mayGoOn);

}  // namespace svc::cpu
