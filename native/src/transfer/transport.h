// The interface of a kind of link between instances: its addresses and sockets, and whether pieces travel in the
// stream or the receiver copies them out of the sender's memory.
#pragma once

#include <memory>
#include <string>

#include "transfer/descriptor.h"
#include "transfer/frame.h"
#include "transfer/kv_parts.h"

namespace svc::transfer {

/// Each kind has one object, which is never destroyed: a process may end while threads still use it.
class Transport {
 public:
  virtual const char* name() const = 0;
  /// Whether the receiver copies pieces out of this memory of the sender; otherwise they follow their frame.
  virtual bool maps(const KvMemory& memory) const = 0;
  /// Whether a receiver answers a greeting once it has all that frames need (`kReady`): a link is up then, and not before.
  virtual bool isAnswered() const { return false; }
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

/// Unix sockets in the abstract namespace: one host, one user. Pieces of a device's memory follow their frames.
const Transport& shmTransport();
/// The same sockets; the receiver copies from GPU to GPU.
const Transport& cudaIpcTransport();
/// Addresses as of tcp; pieces go from GPU to GPU over NCCL, links are those of `PairSender`.
const Transport& ncclTransport();
/// `host:port`, IPv6 in brackets.
const Transport& tcpTransport();

Listener listenShm();
/// Whether GPUs of other processes of this host can send to `memory`.
bool canUseCudaIpc(const KvParts& memory);
/// Throws std::runtime_error, with the reason, where they cannot.
Listener listenCudaIpc(const KvParts& memory);
Listener listenNccl(const std::string& host, int port);
/// Port 0 takes any. Throws std::runtime_error with the reason.
Listener listenTcp(const std::string& host, int port);
/// Whether the other end of a local socket belongs to the user of this process.
bool isOwnUser(int socket);
/// Checks and prepares an accepted socket. False if it is to be closed.
bool admit(const Listener& listener, int socket);

}  // namespace svc::transfer
