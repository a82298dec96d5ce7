#pragma once
// Posts bodies to one address with libcurl, which only the source of this header knows. The
// connection is kept from one post to the next. Thread safety: one thread, but for `stop`.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "schemas/base/error.hpp"
#include "schemas/trace/settings.hpp"

namespace millrace::trace {

struct Posted {
  long status = 0;            // of HTTP; 0: there was no answer
  std::string body{};         // its beginning
  std::string error{};        // why there was no answer
  std::uint64_t wait_ms = 0;  // what the answer asks to wait before the next post; 0: nothing
};

class Post {
 public:
  // `settings` must outlive it. A post ends early once `*until_us`, a time of the monotonic clock,
  // has passed. Errors: internal.
  static Result<std::unique_ptr<Post>> open(const Settings& settings,
                                            const std::atomic<std::int64_t>& until_us);
  virtual ~Post() = default;
  virtual Posted send(const std::string& body) = 0;
};

}  // namespace millrace::trace
