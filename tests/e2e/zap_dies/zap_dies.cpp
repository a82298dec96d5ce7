// Makes the thread that checks keys fail. Preloaded into a process, it lets the next receive of the
// thread named millrace-zap fail once a file exists.
//
//   LD_PRELOAD=libzap_dies.so ZAP_DIES=/a/file PROGRAM...
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

extern "C" int zmq_msg_recv(void* message, void* socket, int flags) {
  using Receive = int (*)(void*, void*, int);
  static const auto receive = reinterpret_cast<Receive>(::dlsym(RTLD_NEXT, "zmq_msg_recv"));
  std::array<char, 32> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  const char* const file = std::getenv("ZAP_DIES");
  if (std::string_view(name.data()) == "millrace-zap" && file != nullptr &&
      ::access(file, F_OK) == 0) {
    errno = EFAULT;
    return -1;
  }
  return receive(message, socket, flags);
}
