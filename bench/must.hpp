#pragma once
// Error handling of the benchmarks: they print an error and exit with 1.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "schemas/base/error.hpp"

namespace millrace::bench {

[[noreturn]] inline void die(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}
[[noreturn]] inline void die(const Error& error) {
  die(error.text());
}
inline void must(const Status& status) {
  if (!status) die(status.error());
}
template <class T>
T must(Result<T> result) {
  if (!result) die(result.error());
  return *std::move(result);
}

}  // namespace millrace::bench
