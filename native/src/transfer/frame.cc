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

}  // namespace svc::transfer
