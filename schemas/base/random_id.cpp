#include "schemas/base/random_id.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

#include "schemas/base/hash.hpp"

namespace millrace {

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  // Up to 256 bytes are given whole; only a signal during early boot can interrupt the call.
  while (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) {
    if (errno != EINTR) std::abort();  // a kernel without getrandom: nothing would be safe
  }
  return bits;
}

std::string random_id() {
  return hex(random_bits()) + hex(random_bits());
}

}  // namespace millrace
