// The interface of a kind of link between instances: its addresses and sockets, and whether layer blocks travel in the
// stream or the receiver copies them out of the sender's memory.
#pragma once

#include <memory>
#include <string>

#include "transfer/descriptor.h"
#include "transfer/frame.h"
#include "transfer/kv_memory.h"

namespace svc::transfer {

/// Each kind has one object, which is never destroyed: a process may end while threads still use it.
class Transport {
 public:
  /// Whether a receiver could copy layer blocks out of a sender's memory; otherwise they follow their frame.
  virtual bool sharesMemory() const = 0;
  /// A non-blocking socket that is connecting. Throws std::runtime_error saying why not.
  virtual Descriptor connect(const std::string& address) const = 0;
  /// False if the socket does not take it.
  virtual bool sendHello(int socket, const Hello& hello, const KvMemory& memory) const = 0;
  /// Reads the bytes of a hello that have arrived, from its byte `have` on. @returns bytes read, 0 at the end, -1 with errno.
  virtual ssize_t receiveHello(int socket, Hello& hello, size_t have, Descriptor& memory) const = 0;

 protected:
  ~Transport() = default;
};

/// A listener for connections of peers; `address` is sent to them.
struct Listener {
  const Transport* transport;
  Descriptor socket;
  std::string address;
};

/// Whether layer blocks follow their frame: the host has no memory of a device to share.
inline bool carriesLayerBlocks(const Transport& transport, const KvMemory& memory) {
  return memory.isOfDevice() || !transport.sharesMemory();
}

/// Unix sockets in the abstract namespace: one host, one user.
const Transport& shmTransport();
/// `host:port`, IPv6 in brackets.
const Transport& tcpTransport();

Listener listenShm();
/// Port 0 takes any. Throws std::runtime_error with the reason.
Listener listenTcp(const std::string& host, int port);
/// Whether the other end of a local socket belongs to the user of this process.
bool isOwnUser(int socket);
/// Checks and prepares an accepted socket. False if it is to be closed.
bool admit(const Listener& listener, int socket);

}  // namespace svc::transfer
