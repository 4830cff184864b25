#include "cpu/packed_cache.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <type_traits>

#include "memory/whole_file.h"
#include "threads/first_failure.h"

namespace svc::cpu {
namespace {

/// Bytes that are read and summed together: they stay in the cache of a core.
constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr size_t kPage = 4096;
constexpr char kMagic[] = {'s', 'v', 'c', 'p', 'a', 'c', 'k', '1'};
/// Other bytes on a processor of the other byte order.
constexpr uint32_t kByteOrder = 0x01020304;

struct Head {
  char magic[sizeof kMagic];
  uint32_t byteOrder;
  uint32_t tableSum;
  uint64_t tableBytes;
  uint64_t fileBytes;
};

/// What of a PackedWeight is no part.
struct PlainNumbers {
  Weight weight;
  int panels;
};
static_assert(std::is_trivially_copyable_v<PlainNumbers>);

size_t wholePages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
size_t piecesOf(size_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

char* bytesOf(const Pages& part) { return part.data(); }
template <class T>
const char* bytesOf(const std::vector<T>& part) { return reinterpret_cast<const char*>(part.data()); }
template <class T>
char* bytesOf(std::vector<T>& part) { return reinterpret_cast<char*>(part.data()); }

size_t sizeOf(const Pages& part) { return part.size(); }
template <class T>
size_t sizeOf(const std::vector<T>& part) { return part.size() * sizeof(T); }

void resize(Pages& part, size_t bytes) { part = Pages(bytes); }
template <class T>
void resize(std::vector<T>& part, size_t bytes) { part.resize(bytes / sizeof(T)); }

/// CRC-32C of a piece; `whole` sums one of kPieceBytes.
uint32_t sumOf(const BlockChecksum& whole, const char* piece, size_t bytes) {
  return bytes == kPieceBytes ? whole(piece) : crc32c(piece, bytes);
}

const PackedWeight& packed(const NamedWeight& named) { return static_cast<const PackedWeight&>(*named.weight); }

class TableWriter {
 public:
  template <class T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    table_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void addText(const std::string& text) {
    add(uint64_t{text.size()});
    table_ += text;
  }
  const std::string& table() const { return table_; }

 private:
  std::string table_;
};

class TableReader {
 public:
  explicit TableReader(std::string_view table) : left_(table) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, takeBytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string takeText() { return std::string(takeBytes(take<uint64_t>())); }

 private:
  std::string_view takeBytes(size_t count) {
    if (count > left_.size()) throw std::runtime_error("its table ends too early");
    const std::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }

  std::string_view left_;
};

std::string makeTable(const std::string& key, const std::vector<NamedWeight>& weights, const std::vector<uint32_t>& sums) {
  TableWriter table;
  table.addText(key);
  table.add(uint64_t{weights.size()});
  auto sum = sums.begin();
  for (const NamedWeight& named : weights) {
    const PackedWeight& weight = packed(named);
    table.addText(named.name);
    table.add(PlainNumbers{weight, weight.panels});
    eachPart(weight, [&](const auto& part) {
      table.add(uint64_t{sizeOf(part)});
      for (size_t piece = 0; piece < piecesOf(sizeOf(part)); ++piece) table.add(*sum++);
    });
  }
  return table.table();
}

size_t countPieces(const std::vector<NamedWeight>& weights) {
  size_t count = 0;
  for (const NamedWeight& named : weights) {
    eachPart(packed(named), [&](const auto& part) { count += piecesOf(sizeOf(part)); });
  }
  return count;
}

}  // namespace

PackedEntryReader::PackedEntryReader(const std::string& path, const std::string& key) : file_(path) {
  Head head;
  file_.read(&head, sizeof head, 0);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) fail("it is no entry of a packed cache");
  if (head.byteOrder != kByteOrder) fail("it is of a processor with another byte order");
  const size_t fileBytes = file_.size();
  if (head.fileBytes != fileBytes) {
    fail("it has " + std::to_string(fileBytes) + " bytes, not " + std::to_string(head.fileBytes));
  }
  if (head.tableBytes > fileBytes) fail("its head is damaged");
  std::string table(head.tableBytes, '\0');
  file_.read(table.data(), table.size(), sizeof head);
  if (crc32c(table.data(), table.size()) != head.tableSum) fail("its table is damaged");
  readTable(table, key);
}

void PackedEntryReader::readTable(const std::string& bytes, const std::string& key) {
  TableReader table(bytes);
  if (table.takeText() != key) fail("it is of another model, format or build of svc");
  size_t offset = wholePages(sizeof(Head) + bytes.size());
  for (auto count = table.take<uint64_t>(); count > 0; --count) {
    Entry entry{table.takeText(), {}, {}};
    const auto plain = table.take<PlainNumbers>();
    static_cast<Weight&>(entry.weight) = plain.weight;
    entry.weight.panels = plain.panels;
    eachPart(entry.weight, [&](auto&) {
      Part part{offset, table.take<uint64_t>(), {}};
      for (size_t piece = 0; piece < piecesOf(part.bytes); ++piece) part.sums.push_back(table.take<uint32_t>());
      offset += wholePages(part.bytes);
      entry.parts.push_back(std::move(part));
    });
    entries_.push_back(std::move(entry));
  }
}

PackedWeight PackedEntryReader::read(ThreadPool& pool, size_t index) {
  struct Piece {
    char* to;
    size_t bytes, offset;
    uint32_t sum;
  };
  Entry& entry = entries_[index];
  std::vector<Piece> pieces;
  auto stored = entry.parts.begin();
  eachPart(entry.weight, [&](auto& part) {
    const auto& [offset, bytes, sums] = *stored++;
    resize(part, bytes);
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t begin = i * kPieceBytes;
      pieces.push_back({bytesOf(part) + begin, std::min(kPieceBytes, bytes - begin), offset + begin, sums[i]});
    }
  });
  const BlockChecksum whole(kPieceBytes);
  FirstFailure failure;
  pool.run(static_cast<int>(pieces.size()), [&](int task, int) {
    failure.guard([&] {
      const Piece& piece = pieces[task];
      file_.read(piece.to, piece.bytes, piece.offset);
      if (sumOf(whole, piece.to, piece.bytes) != piece.sum) fail("the bytes of " + entry.name + " are damaged");
    });
  });
  failure.rethrow();
  return std::move(entry.weight);
}

void PackedEntryReader::fail(const std::string& what) const { throw std::runtime_error(file_.path() + ": " + what); }

PackedReadAhead::PackedReadAhead(Stream& stream, ThreadPool& pool, const std::string& path, const std::string& key)
    : stream_(stream), pool_(pool), entry_(path, key), reads_(entry_.count()) {
  for (size_t i = 0; i < reads_.size(); ++i) reads_[i].position = stream_.record([this, i] { read(i); });
}

PackedReadAhead::~PackedReadAhead() {
  isWanted_.store(false);
  try {
    if (!reads_.empty()) await(reads_.back().position);
  } catch (...) {
    // Ignore: an op has failed, which ends the stream; the next that waits for it is told.
  }
}

PackedWeight PackedReadAhead::take(const std::string& name) {
  if (next_ == reads_.size() || entry_.nameOf(next_) != name) {
    throw std::runtime_error(entry_.path() + ": it does not hold " + name + " in its place");
  }
  Read& read = reads_[next_++];
  await(read.position);
  if (read.failure != nullptr) std::rethrow_exception(read.failure);
  return std::move(read.weight.value());
}

/// On the stream's thread.
void PackedReadAhead::read(size_t index) {
  if (!isWanted_.load()) return;
  try {
    reads_[index].weight = entry_.read(pool_, index);
  } catch (...) {
    reads_[index].failure = std::current_exception();
    // Nobody asks for a weight behind one that is damaged.
    isWanted_.store(false);
  }
}

void PackedReadAhead::await(StreamPosition position) {
  while (!stream_.await(position, std::chrono::seconds(1))) continue;
}

bool writePackedEntry(const std::string& path, const std::string& key, const std::vector<NamedWeight>& weights,
                      const std::function<bool()>& mayGoOn) {
  std::optional<WholeFile> file = WholeFile::begin(path);
  if (!file.has_value()) return false;
  const BlockChecksum whole(kPieceBytes);
  std::vector<uint32_t> sums;
  // The table has one size, whatever the sums are.
  std::string table = makeTable(key, weights, std::vector<uint32_t>(countPieces(weights)));
  size_t offset = wholePages(sizeof(Head) + table.size());
  for (const NamedWeight& named : weights) {
    eachPart(packed(named), [&](const auto& part) {
      const size_t size = sizeOf(part);
      for (size_t begin = 0; begin < size; begin += kPieceBytes) {
        if (!mayGoOn()) throw std::runtime_error("writing " + path + " was given up");
        const size_t bytes = std::min(kPieceBytes, size - begin);
        sums.push_back(sumOf(whole, bytesOf(part) + begin, bytes));
        file->write(bytesOf(part) + begin, bytes, offset + begin);
      }
      offset += wholePages(size);
    });
  }
  table = makeTable(key, weights, sums);
  file->resize(offset);
  Head head{{}, kByteOrder, crc32c(table.data(), table.size()), table.size(), offset};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  file->write(table.data(), table.size(), sizeof head);
  file->write(&head, sizeof head, 0);
  file->finish();
  return true;
}

}  // namespace svc::cpu
