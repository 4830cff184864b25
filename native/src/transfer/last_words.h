// The reason that a receiver sends before it closes a connection.
#pragma once

#include <sys/socket.h>

#include <array>
#include <string>

#include "transfer/frame.h"

namespace svc::transfer {

/// What the peer has sent; empty if it sent nothing.
inline std::string lastWords(int socket) {
  std::array<char, kMaxReason> text;
  const ssize_t got = recv(socket, text.data(), text.size(), MSG_DONTWAIT);
  std::string words(text.data(), got > 0 ? static_cast<size_t>(got) : 0);
  std::erase_if(words, [](char c) { return c < ' ' || c > '~'; });
  return words;
}

inline void sendLastWords(int socket, const std::string& reason) {
  [[maybe_unused]] const ssize_t sent = send(socket, reason.data(), std::min(reason.size(), kMaxReason), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace svc::transfer
