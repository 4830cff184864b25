// A peer over shared memory that lies: connects to the abstract socket argv[1], sends what comes on stdin with a
// descriptor of the kind argv[2] and argv[3] bytes, and prints what is answered until the other side closes.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int memoryOf(const std::string& kind, off_t bytes) {
  if (kind == "pipe") {
    int ends[2];
    return pipe(ends) == 0 ? ends[0] : -1;
  }
  const bool isFile = kind == "file";
  const int fd = isFile ? fileno(std::tmpfile()) : memfd_create("lie", MFD_ALLOW_SEALING);
  if (ftruncate(fd, bytes) != 0) return -1;
  if (kind == "sealed") fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
  return fd;
}

int connectTo(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return connect(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 ? fd : -1;
}

bool sendWith(int socket, const std::string& bytes, int fd) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

}  // namespace

int main(int, char** argv) {
  const std::string kind = argv[2];
  char buffer[4096];
  const std::string bytes(buffer, fread(buffer, 1, sizeof buffer, stdin));
  const int socket = connectTo(argv[1]);
  const int fd = kind == "none" ? -1 : memoryOf(kind, std::atoll(argv[3]));
  if (socket < 0 || !sendWith(socket, bytes, fd)) return 1;
  ssize_t got;
  while ((got = read(socket, buffer, sizeof buffer)) > 0) fwrite(buffer, 1, static_cast<size_t>(got), stdout);
  return 0;
}
