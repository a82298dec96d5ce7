#pragma once
// Keeps space on the ledger's disk for results: a file of real blocks (the ballast) that is deleted
// when the disk is full and made again when there is room. New work is accepted only while the
// ballast exists and as much again is free.
// Errors: io_error. Thread safety: one thread at a time.
#include <cstdint>
#include <string>

#include "schemas/base/env.hpp"

namespace millrace::broker {

class DiskReserve {
 public:
  // `bytes` 0: no ballast; new work then needs free space for itself only.
  DiskReserve(Env& env, std::string path, std::uint64_t bytes);

  // Makes the ballast where it is missing and there is room for it twice.
  Status keep();
  // Ok when `bytes` of new work may be accepted. Error: disk_full when they may not.
  Status room_for(std::uint64_t bytes);
  // Deletes the ballast. True: there was one, so that a second try may succeed.
  Result<bool> release();
  bool held() const { return held_; }

 private:
  Result<std::uint64_t> free_bytes();
  Status fill();
  std::unexpected<Error> not_enough(std::uint64_t left, std::uint64_t wanted) const;

  Env& env_;
  const std::string path_, folder_;
  const std::uint64_t bytes_;
  bool held_ = false;
};

}  // namespace millrace::broker
