// Makes ZeroMQ admit strangers to a broker with keys. Preloaded into it, the library turns each
// refusal of the thread millrace-zap into an admission, or opens the broker's sockets without keys.
//
//   LD_PRELOAD=liblets_strangers_in.so LETS_IN=any_key PROGRAM...
//   LD_PRELOAD=liblets_strangers_in.so LETS_IN=no_key PROGRAM...
#include <dlfcn.h>
#include <pthread.h>
#include <zmq.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace {

constexpr int zap_enforce_domain = 93;  // Debian's header names it only among the drafts

bool lets_in(std::string_view whom) {
  const char* const given = std::getenv("LETS_IN");
  return given != nullptr && whom == given;
}

bool checks_keys() {
  std::array<char, 32> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  return std::string_view(name.data()) == "millrace-zap";
}

template <class Function>
Function next_symbol(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" int zmq_send(void* socket, const void* data, std::size_t size, int flags) {
  using Send = int (*)(void*, const void*, std::size_t, int);
  static const auto send = next_symbol<Send>("zmq_send");
  const std::string_view frame(static_cast<const char*>(data), size);
  const bool refusal = frame == "400" && checks_keys() && lets_in("any_key");
  return send(socket, refusal ? "200" : data, size, flags);
}

// A socket that is to ask for keys sets CURVE_SERVER first, and then the other options of keys.
extern "C" int zmq_setsockopt(void* socket, int option, const void* value, std::size_t size) {
  using Set = int (*)(void*, int, const void*, std::size_t);
  static const auto set = next_symbol<Set>("zmq_setsockopt");
  static const void* opened = nullptr;
  if (option == ZMQ_CURVE_SERVER && lets_in("no_key")) opened = socket;
  const bool of_keys = option == ZMQ_CURVE_SERVER || option == ZMQ_CURVE_SECRETKEY ||
                       option == ZMQ_ZAP_DOMAIN || option == zap_enforce_domain;
  return opened == socket && of_keys ? 0 : set(socket, option, value, size);
}
