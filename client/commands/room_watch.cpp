#include "client/commands/room_watch.hpp"

#include <utility>

namespace millrace::client {

Status RoomWatch::tick() {
  const std::uint64_t waited_ms = submitter_.without_room_ms();
  if (waited_ms == 0) {
    told_ = false;
    return {};
  }
  const Error& reason = submitter_.pause_reason();
  if (waited_ms > std::uint64_t{timeout_s_} * 1000) {
    MILLRACE_ASSIGN(const std::string tally, tally_());
    return fail(reason.code,
                "the broker had no room for " + std::to_string(timeout_s_) +
                    " s (--timeout): " + reason.message + "; " + tally,
                reason.hint + "; the same command goes on");
  }
  if (!std::exchange(told_, true)) {
    tell_("no_room", "the broker has no room and is asked again: " + reason.text());
  }
  return {};
}

}  // namespace millrace::client
