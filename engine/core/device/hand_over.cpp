#include "engine/core/device/hand_over.hpp"

#include <algorithm>
#include <utility>

namespace millrace::engine {

HandOver::HandOver(Device& from, Device& to, std::uint32_t most, std::string what)
    : from_(&from), to_(&to), what_(std::move(what)), places_(most) {}

HandOver::~HandOver() {
  for (Place& place : places_) static_cast<void>(wait(place));
}

// Waits until no device uses the memory.
Status HandOver::wait(Place& place) {
  const DeviceEvent read = std::exchange(place.read, {});
  const DeviceEvent written = std::exchange(place.written, {});
  Status status;
  if (read) status = from_->wait(read);
  if (written) {
    if (Status arrived = to_->wait(written); !arrived) status = std::move(arrived);
  }
  return status;
}

Status HandOver::take(const Buffer& buffer, std::uint64_t bytes) {
  if (full()) {
    return fail(Code::internal,
                what_ + " were taken " + std::to_string(waiting()) + " times and not given");
  }
  Place& place = places_[taken_ % places_.size()];
  MILLRACE_TRY(wait(place));
  if (place.memory.bytes().size() < bytes) {
    const std::uint64_t larger = std::max<std::uint64_t>(bytes, 2 * place.memory.bytes().size());
    place.memory = {};
    MILLRACE_ASSIGN(place.memory, from_->allocate_host(larger, what_));
  }
  place.bytes = bytes;
  MILLRACE_ASSIGN(place.read, from_->enqueue_read(buffer, 0, place.memory.bytes().first(bytes)));
  ++taken_;
  return from_->flush();
}

Status HandOver::give(const Buffer& buffer) {
  if (waiting() == 0) return fail(Code::internal, what_ + " were given before they were taken");
  Place& place = places_[given_ % places_.size()];
  ++given_;
  MILLRACE_TRY(from_->wait(std::exchange(place.read, {})));
  MILLRACE_ASSIGN(place.written,
                  to_->enqueue_write(buffer, 0, place.memory.bytes().first(place.bytes)));
  return {};
}

}  // namespace millrace::engine
