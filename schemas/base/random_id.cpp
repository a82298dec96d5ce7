#include "schemas/base/random_id.hpp"

#include <sys/random.h>

#include <cerrno>
#include <cstdlib>

#include "schemas/base/hash.hpp"

namespace millrace {

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  // A call returns up to 256 bytes whole; only a signal during early boot can interrupt it.
  while (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) {
    if (errno != EINTR) std::abort();  // a kernel without getrandom cannot give safe ids
  }
  return bits;
}

std::string random_id() {
  return hex(random_bits()) + hex(random_bits());
}

}  // namespace millrace
