#include "binding/transfer.h"

#include <algorithm>
#include <array>

#include "binding/checked.h"
#include "transfer/memory_tokens.h"

namespace svc {

using transfer::Event;
using transfer::EventKind;

namespace {

/// Saved blocks name their send by a signed integer of 32 bits.
constexpr int64_t kMaxId = INT32_MAX;
constexpr int64_t kMaxBlocks = 1 << 24;
constexpr int64_t kMaxGroup = UINT8_MAX;
constexpr int64_t kMaxSockets = 16;
constexpr int64_t kMaxBytes = int64_t{1} << 46;

const std::array kTransports{&transfer::shmTransport(), &transfer::tcpTransport(), &transfer::cudaIpcTransport(),
                             &transfer::ncclTransport()};

uint64_t ticketArgument(const Napi::CallbackInfo& info, size_t index) {
  bool isLossless = false;
  const uint64_t ticket = info[index].IsBigInt() ? info[index].As<Napi::BigInt>().Uint64Value(&isLossless) : 0;
  if (!isLossless) throw Napi::TypeError::New(info.Env(), "a ticket is a bigint of 64 bits without sign");
  return ticket;
}

uint32_t idArgument(const Napi::CallbackInfo& info, size_t index, const char* what) {
  return static_cast<uint32_t>(integerArgument(info, index, 0, kMaxId, what));
}

const transfer::Transport& transportArgument(const Napi::CallbackInfo& info, size_t index) {
  const std::string kind = info[index].ToString();
  for (const transfer::Transport* transport : kTransports) {
    if (kind == transport->name()) return *transport;
  }
  throw Napi::RangeError::New(info.Env(), "a link is shm, tcp, cuda-ipc or nccl, got " + kind);
}

transfer::Cut cutFrom(const Napi::Object& cut) {
  return {cut.Get("shards").ToNumber().Uint32Value(), cut.Get("tokens").ToNumber().Uint32Value()};
}

/// [{ token, layers: { first, end }, heads: { first, end } }]
std::vector<transfer::KvPart> takeParts(const Napi::Array& list) {
  std::vector<transfer::KvPart> parts;
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const auto part = list.Get(i).As<Napi::Object>();
    const auto end = [&](const char* range, const char* name) {
      return part.Get(range).As<Napi::Object>().Get(name).ToNumber().Uint32Value();
    };
    bool isLossless = false;
    auto table = transfer::MemoryTokens::ofProcess().take(part.Get("token").As<Napi::BigInt>().Uint64Value(&isLossless));
    if (!table) throw std::runtime_error("the token names no KV memory, or was used before");
    const transfer::KvPlace place{end("layers", "first"), end("layers", "end"), end("heads", "first"), end("heads", "end")};
    parts.push_back({place, std::move(table)});
  }
  return parts;
}

/// [layers] the group of each, empty where there is one.
std::vector<int> layerGroupsFrom(const Napi::Object& options) {
  std::vector<int> groups;
  if (!options.Get("layerGroups").IsArray()) return groups;
  const auto list = options.Get("layerGroups").As<Napi::Array>();
  for (uint32_t i = 0; i < list.Length(); ++i) {
    const int64_t group = list.Get(i).ToNumber().Int64Value();
    if (group < 0 || group > kMaxGroup) throw std::runtime_error("a group of layers is a number from 0 to 255");
    groups.push_back(static_cast<int>(group));
  }
  return groups;
}

/// [blocks] the group of layers of each; left out, all are of the first.
std::vector<uint8_t> blockGroupsFrom(const Napi::CallbackInfo& info, size_t index, size_t blocks, const transfer::KvParts& memory) {
  if (info[index].IsUndefined()) return std::vector<uint8_t>(blocks);
  const auto array = arrayOf<uint8_t>(info[index], "the groups of layers of a transfer");
  std::vector<uint8_t> groups(array.Data(), array.Data() + array.ElementLength());
  const bool areKnown = std::ranges::all_of(groups, [&](uint8_t group) { return group < memory.places().groups; });
  if (groups.size() != blocks || !areKnown) throw Napi::RangeError::New(info.Env(), "a group of layers for each block of the transfer");
  return groups;
}

std::vector<transfer::Listener> listen(const Napi::Object& options, const transfer::KvParts& memory) {
  std::vector<transfer::Listener> listeners;
  const std::string cudaIpc = options.Get("cudaIpc").ToString();
  const bool isPossible = cudaIpc == "possible" && transfer::canUseCudaIpc(memory);
  if (cudaIpc == "required" || isPossible) listeners.push_back(transfer::listenCudaIpc(memory));
  if (options.Get("shm").ToBoolean()) listeners.push_back(transfer::listenShm());
  const auto listenAt = [&](const char* name, transfer::Listener (*listen)(const std::string&, int)) {
    if (!options.Get(name).IsObject()) return;
    const auto address = options.Get(name).As<Napi::Object>();
    const std::string host = address.Get("host").ToString();
    listeners.push_back(listen(host, address.Get("port").ToNumber().Int32Value()));
  };
  listenAt("tcp", transfer::listenTcp);
  listenAt("nccl", transfer::listenNccl);
  return listeners;
}

bool listensFor(const std::vector<transfer::Listener>& listeners, const transfer::Transport& transport) {
  return std::ranges::any_of(listeners, [&](const auto& listener) { return listener.transport == &transport; });
}

/// What opens NCCL when it is needed.
transfer::PairSender::OpenPairs pairsOf(const Napi::Object& options) {
  const std::string library = options.Has("ncclLibrary") ? options.Get("ncclLibrary").ToString().Utf8Value() : "";
  const int channels = options.Has("ncclChannels") ? options.Get("ncclChannels").ToNumber().Int32Value() : 0;
  return [library, channels](const transfer::KvMemory& memory) {
    if (!memory.isOfDevice()) {
      throw std::runtime_error("NCCL sends from GPU to GPU, and this KV cache is memory of the host: use --device cuda, or another transport");
    }
    return memory.memory.device->openPairs(library, channels);
  };
}

/// What receives over NCCL. Throws std::runtime_error, with the reason, where that cannot be.
transfer::PairReceiver::PairsOfParts openReceivingPairs(const transfer::PairSender::OpenPairs& openPairs, const transfer::KvParts& memory) {
  transfer::PairReceiver::PairsOfParts pairs;
  for (const transfer::KvPart& part : memory.all()) pairs.push_back(openPairs(part.memory()));
  if (!memory.suitsDevices()) throw std::runtime_error("blocks go over NCCL in multiples of 16 bytes");
  return pairs;
}

using Queue = std::shared_ptr<transfer::EventQueue>;

napi_threadsafe_function openSignal(napi_env env, napi_value onEvents, const Queue& events,
                                    napi_threadsafe_function_call_js deliver) {
  napi_threadsafe_function signal = nullptr;
  const Napi::String name = Napi::String::New(env, "svc-kv-transfer");
  auto queue = std::make_unique<Queue>(events);
  const auto drop = [](napi_env, void*, void* queue) { delete static_cast<Queue*>(queue); };
  const bool isOpen = napi_create_threadsafe_function(env, onEvents, nullptr, name, 0, 1, nullptr, drop, queue.get(),
                                                      deliver, &signal) == napi_ok;
  if (!isOpen) throw std::runtime_error("onEvents must be a function");
  queue.release();
  // Code that waits for a transfer keeps the process alive by its own timer or socket.
  napi_unref_threadsafe_function(env, signal);
  return signal;
}

Napi::Object describe(Napi::Env env, const Event& event) {
  Napi::Object object = Napi::Object::New(env);
  const auto set = [&](const char* type, const char* name, const Napi::Value& id) {
    object.Set("type", type);
    object.Set(name, id);
  };
  const auto number = [&] { return Napi::Number::New(env, static_cast<double>(event.id)); };
  const auto ticket = [&] { return Napi::BigInt::New(env, event.id); };
  switch (event.kind) {
    case EventKind::LinkUp: set("linkUp", "link", number()); break;
    case EventKind::LinkDown:
      set("linkDown", "link", number());
      object.Set("reason", event.reason);
      break;
    case EventKind::Sent: set("sent", "send", number()); break;
    case EventKind::SendClosed: set("sendClosed", "send", number()); break;
    case EventKind::Received: set("received", "ticket", ticket()); break;
    case EventKind::Corrupt: set("corrupt", "ticket", ticket()); break;
    case EventKind::ReceiveClosed: set("receiveClosed", "ticket", ticket()); break;
    case EventKind::Loaded:
      set("loaded", "load", number());
      object.Set("isIntact", event.isIntact);
      break;
  }
  return object;
}

}  // namespace

TransferEngine::Parts::Parts(transfer::KvParts parts, size_t receiveBytes, size_t deviceBytes,
                             std::vector<transfer::Listener> listeners, transfer::PairReceiver::PairsOfParts pairs,
                             transfer::PairSender::OpenPairs openPairs, transfer::EventQueue& events)
    : memory(std::move(parts)),
      area(receiveBytes),
      devices(memory, deviceBytes / memory.blockBytes()),
      loader(memory, events),
      receiver(memory, std::move(pairs), std::move(listeners), loader, events),
      sender(memory, std::move(openPairs), events) {}

template <TransferEngine::Method method>
Napi::Value TransferEngine::call(const Info& info) {
  return checked(info, [&] { return (this->*method)(info); });
}

Napi::Function TransferEngine::define(Napi::Env env) {
  return DefineClass(
      env, "TransferEngine",
      {
          InstanceAccessor<&TransferEngine::call<&TransferEngine::endpoints>>("endpoints"),
          InstanceMethod<&TransferEngine::call<&TransferEngine::connect>>("connect"),
          InstanceMethod<&TransferEngine::call<&TransferEngine::disconnect>>("disconnect"),
          InstanceMethod<&TransferEngine::call<&TransferEngine::openSend>>("openSend"),
          InstanceMethod<&TransferEngine::call<&TransferEngine::grant>>("grant"),
          InstanceMethod<&TransferEngine::call<&TransferEngine::closeSend>>("closeSend"),
          InstanceMethod<&TransferEngine::call<&TransferEngine::openReceive>>("openReceive"),
          InstanceMethod<&TransferEngine::call<&TransferEngine::progress>>("progress"),
          InstanceMethod<&TransferEngine::call<&TransferEngine::closeReceive>>("closeReceive"),
          InstanceMethod<&TransferEngine::call<&TransferEngine::load>>("load"),
          InstanceAccessor<&TransferEngine::call<&TransferEngine::bytesSent>>("bytesSent"),
          InstanceMethod<&TransferEngine::call<&TransferEngine::bytesSentOver>>("bytesSentOver"),
          InstanceAccessor<&TransferEngine::call<&TransferEngine::bytesReceived>>("bytesReceived"),
          InstanceMethod<&TransferEngine::call<&TransferEngine::close>>("close"),
      });
}

TransferEngine::TransferEngine(const Info& info)
    : Napi::ObjectWrap<TransferEngine>(info), events_(std::make_shared<transfer::EventQueue>([this] {
        napi_call_threadsafe_function(signal_, nullptr, napi_tsfn_nonblocking);
      })) {
  const auto options = info[1].As<Napi::Object>();
  checked(info, [&] {
    transfer::KvParts memory(takeParts(info[0].As<Napi::Array>()), layerGroupsFrom(options));
    const double bytes = options.Get("receiveBytes").ToNumber().DoubleValue();
    if (!(bytes >= 0 && bytes <= static_cast<double>(kMaxBytes))) throw std::runtime_error("receiveBytes is no size");
    const double deviceBytes = options.Has("deviceBytes") ? options.Get("deviceBytes").ToNumber().DoubleValue() : 0;
    if (!(deviceBytes >= 0 && deviceBytes <= bytes)) throw std::runtime_error("deviceBytes is no part of the receive memory");
    auto listeners = listen(options, memory);
    const bool usesNccl = listensFor(listeners, transfer::ncclTransport());
    const bool comesFromDevices = usesNccl || listensFor(listeners, transfer::cudaIpcTransport());
    auto openPairs = pairsOf(options);
    auto pairs = usesNccl ? openReceivingPairs(openPairs, memory) : transfer::PairReceiver::PairsOfParts{};
    signal_ = openSignal(info.Env(), info[2], events_, deliver);
    try {
      parts_ = std::make_unique<Parts>(std::move(memory), static_cast<size_t>(bytes), comesFromDevices ? static_cast<size_t>(deviceBytes) : 0,
                                       std::move(listeners), std::move(pairs), std::move(openPairs), *events_);
    } catch (...) {
      napi_release_threadsafe_function(signal_, napi_tsfn_release);
      throw;
    }
    // Hooks run last in, first out, so the threads end before the function that they call is freed.
    napi_add_env_cleanup_hook(info.Env(), endAtExit, this);
    return info.Env().Undefined();
  });
}

TransferEngine::~TransferEngine() { end(); }

void TransferEngine::deliver(napi_env env, napi_value onEvents, void* queue, void*) {
  if (env == nullptr) return;
  const std::vector<Event> events = (*static_cast<Queue*>(queue))->take();
  try {
    Napi::Array list = Napi::Array::New(env, events.size());
    for (uint32_t i = 0; i < events.size(); ++i) list.Set(i, describe(env, events[i]));
    Napi::Function(env, onEvents).Call({list});
  } catch (const Napi::Error& error) {
    napi_fatal_exception(env, error.Value());
  }
}

void TransferEngine::end() {
  if (!parts_) return;
  parts_.reset();
  events_->take();
  napi_release_threadsafe_function(signal_, napi_tsfn_release);
  napi_remove_env_cleanup_hook(Env(), endAtExit, this);
}

TransferEngine::Parts& TransferEngine::parts(const Info& info) {
  if (!parts_) throw Napi::Error::New(info.Env(), "the transfer engine is closed");
  return *parts_;
}

Napi::Value TransferEngine::endpoints(const Info& info) {
  Napi::Object object = Napi::Object::New(info.Env());
  object.Set("shm", info.Env().Null());
  object.Set("tcp", info.Env().Null());
  for (const transfer::Listener& listener : parts(info).receiver.listeners()) {
    object.Set(listener.transport->name(), listener.address);
  }
  return object;
}

Napi::Value TransferEngine::connect(const Info& info) {
  const transfer::Transport& transport = transportArgument(info, 0);
  const std::string address = info[1].ToString();
  const int wanted = static_cast<int>(integerArgument(info, 2, 1, kMaxSockets, "connect: sockets"));
  const transfer::KvParts& memory = parts(info).memory;
  const int sockets = transport.maps(memory.all().front().memory()) ? 1 : wanted;
  const transfer::Cut cut = info[3].IsUndefined() ? memory.ownCut() : cutFrom(info[3].As<Napi::Object>());
  return checked(info, [&] { return Napi::Number::New(info.Env(), parts(info).sender.connect(transport, address, sockets, cut)); });
}

Napi::Value TransferEngine::disconnect(const Info& info) {
  parts(info).sender.disconnect(idArgument(info, 0, "disconnect: a link"));
  return info.Env().Undefined();
}

Napi::Value TransferEngine::openSend(const Info& info) {
  const uint32_t send = idArgument(info, 0, "openSend: a send");
  const auto blocks = static_cast<size_t>(integerArgument(info, 1, 1, kMaxBlocks, "openSend: blocks"));
  const transfer::KvParts& memory = parts(info).memory;
  const std::vector<uint8_t> groups = blockGroupsFrom(info, 2, blocks, memory);
  for (const transfer::KvPart& part : memory.distinct()) part.table->open(send, groups);
  return info.Env().Undefined();
}

Napi::Value TransferEngine::grant(const Info& info) {
  const uint32_t send = idArgument(info, 0, "grant: a send"), link = idArgument(info, 1, "grant: a link");
  const uint64_t ticket = ticketArgument(info, 2);
  const auto first = static_cast<uint32_t>(integerArgument(info, 3, 0, kMaxId, "grant: the first run"));
  const int64_t end = info[4].IsUndefined() ? kMaxId : integerArgument(info, 4, 0, kMaxId, "grant: the end of the runs");
  for (const transfer::KvPart& part : parts(info).memory.distinct()) {
    part.table->grant(send, link, ticket, first, static_cast<uint32_t>(end));
  }
  return info.Env().Undefined();
}

Napi::Value TransferEngine::closeSend(const Info& info) {
  parts(info).sender.closeSend(idArgument(info, 0, "closeSend: a send"));
  return info.Env().Undefined();
}

Napi::Value TransferEngine::openReceive(const Info& info) {
  Parts& all = parts(info);
  const uint64_t ticket = ticketArgument(info, 0);
  const auto first = static_cast<uint32_t>(integerArgument(info, 1, 0, kMaxBlocks, "openReceive: the first block"));
  const auto offsets = arrayOf<double>(info[2], "openReceive: offsets");
  if (offsets.ElementLength() == 0) throw Napi::RangeError::New(info.Env(), "openReceive: places of at least one block");
  const int64_t tokens = all.memory.tokens();
  const int64_t lastTokens = info[3].IsUndefined() ? tokens : integerArgument(info, 3, 1, tokens, "openReceive: tokens of the last block");
  const double blockBytes = static_cast<double>(all.memory.blockBytes());
  std::vector<char*> places;
  std::vector<size_t> slots;
  for (size_t i = 0; i < offsets.ElementLength(); ++i) {
    const double offset = offsets[i];
    if (!(offset >= 0 && offset + blockBytes <= static_cast<double>(all.area.size()))) {
      throw Napi::RangeError::New(info.Env(), "openReceive: an offset outside of the receive memory");
    }
    places.push_back(all.area.data() + static_cast<size_t>(offset));
    slots.push_back(static_cast<size_t>(offset) / all.memory.blockBytes());
  }
  const auto last = static_cast<uint32_t>(lastTokens);
  auto groups = blockGroupsFrom(info, 4, places.size(), all.memory);
  all.receiver.open(std::make_shared<transfer::Receive>(all.memory, all.devices, ticket, first, last, std::move(places), std::move(slots),
                                                        std::move(groups)));
  return info.Env().Undefined();
}

Napi::Value TransferEngine::progress(const Info& info) {
  const auto receive = parts(info).receiver.find(ticketArgument(info, 0));
  return Napi::Number::New(info.Env(), receive ? static_cast<double>(receive->numCome()) : 0);
}

Napi::Value TransferEngine::closeReceive(const Info& info) {
  parts(info).receiver.close(ticketArgument(info, 0));
  return info.Env().Undefined();
}

Napi::Value TransferEngine::load(const Info& info) {
  Parts& all = parts(info);
  const uint32_t id = idArgument(info, 0, "load: a load");
  auto receive = all.receiver.find(ticketArgument(info, 1));
  const auto first = static_cast<uint32_t>(integerArgument(info, 2, 0, kMaxBlocks, "load: the first block"));
  const auto blocks = arrayOf<int32_t>(info[3], "load: blocks");
  std::vector<uint32_t> kvBlocks;
  for (size_t i = 0; i < blocks.ElementLength(); ++i) {
    if (blocks[i] < 0 || static_cast<uint32_t>(blocks[i]) >= all.memory.blocks()) {
      throw Napi::RangeError::New(info.Env(), "load: a block outside of the KV memory");
    }
    kvBlocks.push_back(static_cast<uint32_t>(blocks[i]));
  }
  if (receive) all.loader.load({id, std::move(receive), first, std::move(kvBlocks)});
  else events_->push({EventKind::Loaded, id});
  return info.Env().Undefined();
}

Napi::Value TransferEngine::bytesSent(const Info& info) {
  uint64_t bytes = 0;
  for (const transfer::Transport* transport : kTransports) bytes += parts(info).sender.bytesSent(*transport);
  return Napi::Number::New(info.Env(), static_cast<double>(bytes));
}

Napi::Value TransferEngine::bytesSentOver(const Info& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(parts(info).sender.bytesSent(transportArgument(info, 0))));
}

Napi::Value TransferEngine::bytesReceived(const Info& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(parts(info).receiver.bytesReceived()));
}

Napi::Value TransferEngine::close(const Info& info) {
  end();
  return info.Env().Undefined();
}

}  // namespace svc
