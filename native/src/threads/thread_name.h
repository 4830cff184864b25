// What marks a thread as ours: a name for those who look at the process, and that signals are not for it.
#pragma once

#include <csignal>
#include <pthread.h>

namespace svc {

/// The calling thread, as `top -H` and debuggers show it; at most 15 characters.
inline void nameThread(const char* name) { pthread_setname_np(pthread_self(), name); }

/// Threads that are started meanwhile take no signals but those that their own instructions raise: the others are the
/// main thread's.
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
