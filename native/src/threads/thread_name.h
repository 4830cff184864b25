// Marks a thread as ours: gives it a name that tools show, and keeps signals away from it.
#pragma once

#include <csignal>
#include <pthread.h>

namespace svc {

/// The calling thread, as `top -H` and debuggers show it; at most 15 characters.
inline void nameThread(const char* name) { pthread_setname_np(pthread_self(), name); }

/// While an object of this class exists, new threads take no signals but those that their own instructions raise: all
/// others are for the main thread.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP, SIGABRT}) sigdelset(&blocked, signal);
    pthread_sigmask(SIG_SETMASK, &blocked, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t previous_;
};

}  // namespace svc
