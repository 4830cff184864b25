#include "transfer/frame.h"

#include <cstring>
#include <vector>

#include "memory/crc32c.h"

namespace svc::transfer {

uint32_t helloChecksum(Hello hello) {
  hello.checksum = 0;
  return crc32c(&hello, sizeof hello);
}

uint32_t frameChecksum(const FrameHeader& header, const FrameEntry* entries) {
  FrameHeader blank = header;
  blank.checksum = 0;
  std::vector<char> bytes(sizeof blank + header.count * sizeof *entries);
  std::memcpy(bytes.data(), &blank, sizeof blank);
  std::memcpy(bytes.data() + sizeof blank, entries, header.count * sizeof *entries);
  return crc32c(bytes.data(), bytes.size());
}

std::vector<char> frameHead(FrameHeader header, std::span<const FrameEntry> entries) {
  header.count = static_cast<uint32_t>(entries.size());
  header.checksum = frameChecksum(header, entries.data());
  std::vector<char> head(sizeof header + entries.size_bytes());
  std::memcpy(head.data(), &header, sizeof header);
  std::memcpy(head.data() + sizeof header, entries.data(), entries.size_bytes());
  return head;
}

}  // namespace svc::transfer
