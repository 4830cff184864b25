// The transfer engine as JavaScript sees it: src/native/native-transfer.ts types and explains it. One JavaScript thread owns it.
#pragma once

#include <napi.h>

#include <memory>

#include "memory/pages.h"
#include "transfer/event.h"
#include "transfer/loader.h"
#include "transfer/receiver.h"
#include "transfer/sender.h"

namespace svc {

class TransferEngine : public Napi::ObjectWrap<TransferEngine> {
 public:
  static Napi::Function define(Napi::Env env);
  /// new TransferEngine(parts, options, onEvents)
  explicit TransferEngine(const Napi::CallbackInfo& info);
  ~TransferEngine() override;

 private:
  using Info = Napi::CallbackInfo;
  using Method = Napi::Value (TransferEngine::*)(const Info&);

  /// The parts that `close` ends, the last one first: each uses those before it.
  struct Parts {
    /// Of `receiveBytes` of receive memory the first `deviceBytes` have places on devices, too.
    Parts(transfer::KvParts memory, size_t receiveBytes, size_t deviceBytes, std::vector<transfer::Listener> listeners,
          transfer::PairReceiver::PairsOfParts pairs, transfer::PairSender::OpenPairs openPairs, transfer::EventQueue& events);

    transfer::KvParts memory;
    Pages area;
    const transfer::DeviceSlots devices;
    transfer::Loader loader;
    transfer::Receiver receiver;
    transfer::Sender sender;
  };

  template <Method method>
  Napi::Value call(const Info& info);
  Parts& parts(const Info& info);

  Napi::Value endpoints(const Info&);
  Napi::Value connect(const Info&);
  Napi::Value disconnect(const Info&);
  Napi::Value openSend(const Info&);
  Napi::Value grant(const Info&);
  Napi::Value closeSend(const Info&);
  Napi::Value openReceive(const Info&);
  Napi::Value progress(const Info&);
  Napi::Value closeReceive(const Info&);
  Napi::Value load(const Info&);
  Napi::Value bytesSent(const Info&);
  Napi::Value bytesSentOver(const Info&);
  Napi::Value bytesReceived(const Info&);
  Napi::Value close(const Info&);
  /// Ends the threads before the function that they call is freed.
  void end();
  /// Runs if the environment ends first: a process or a worker may end without `close`.
  static void endAtExit(void* engine) { static_cast<TransferEngine*>(engine)->end(); }

  /// Gives the events in `queue` to `onEvents` on the JavaScript thread, unless the environment is ending. An error of it is
  /// uncaught.
  static void deliver(napi_env env, napi_value onEvents, void* queue, void*);

  /// The function that delivers has it too: it may run once more after this object is freed.
  const std::shared_ptr<transfer::EventQueue> events_;
  napi_threadsafe_function signal_ = nullptr;
  std::unique_ptr<Parts> parts_;
};

}  // namespace svc
