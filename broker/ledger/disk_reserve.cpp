#include "broker/ledger/disk_reserve.hpp"

#include <algorithm>
#include <utility>

#include "schemas/base/limits.hpp"
#include "schemas/base/log.hpp"

namespace millrace::broker {
namespace {

// Bytes on disk for each byte of a body: the row, its index entries, the copy in the write-ahead
// log.
constexpr std::uint64_t write_amplification = 4;

}  // namespace

DiskReserve::DiskReserve(Env& env, std::string path, std::uint64_t bytes,
                         std::shared_ptr<const DiskMarks> marks)
    : env_(env),
      path_(std::move(path)),
      folder_(parent_directory(path_)),
      bytes_(bytes),
      marks_(marks ? std::move(marks) : std::make_shared<const DiskMarks>()) {}

Result<std::uint64_t> DiskReserve::free_bytes() {
  return env_.free_bytes(folder_);
}

// Writes bytes instead of setting the file's size: a hole would reserve nothing.
Status DiskReserve::fill() {
  MILLRACE_ASSIGN(const auto file, env_.open(path_, OpenMode::write));
  MILLRACE_ASSIGN(std::uint64_t size, file->size());
  if (size > bytes_) {
    MILLRACE_TRY(file->truncate(bytes_));
    size = bytes_;
  }
  std::string block(limits::MiB, '\0');
  for (std::size_t i = 0; i < block.size(); ++i) {
    block[i] = static_cast<char>(i * 2654435761u >> 13);  // some file systems store no zeros
  }
  while (size < bytes_) {
    const auto step = std::min<std::uint64_t>(block.size(), bytes_ - size);
    MILLRACE_TRY(file->write_at(size, std::string_view(block).substr(0, step)));
    size += step;
  }
  return file->sync();
}

void DiskReserve::warn_if_low(std::uint64_t free) {
  const std::uint64_t mark = marks_->warn;
  if (free >= mark + mark / 8) warned_ = false;
  if (free >= mark || std::exchange(warned_, true)) return;
  log_warn("the ledger's disk fills up",
           {{"folder", folder_},
            {"free_bytes", free},
            {"new_jobs_are_refused_below",
             std::max<std::uint64_t>(held_ ? bytes_ : 2 * bytes_, marks_->low)},
            {"hint", "free space, or let the broker keep less: --keep-bytes, --keep-results"}});
}

Status DiskReserve::keep() {
  if (marks_->warn != 0) {
    MILLRACE_ASSIGN(const std::uint64_t left, free_bytes());
    warn_if_low(left);
  }
  if (held_ || bytes_ == 0) return {};
  MILLRACE_ASSIGN(const bool exists, env_.exists(path_));
  MILLRACE_ASSIGN(const std::uint64_t free, free_bytes());
  if (!exists && free < 2 * bytes_) return {};
  if (const Status filled = fill(); !filled) {
    if (filled.error().code != Code::disk_full) return filled;
    MILLRACE_ASSIGN([[maybe_unused]] const bool gave_up, release());
    return {};
  }
  held_ = true;
  return {};
}

std::unexpected<Error> DiskReserve::not_enough(std::uint64_t left, std::uint64_t wanted) const {
  return fail(
      Error{Code::disk_full,
            "the disk of " + folder_ + " has " + std::to_string(left) + " bytes left and " +
                std::to_string(wanted) + " are needed: the broker takes no new jobs",
            "free space on the ledger's disk; a running broker then takes jobs again by itself",
            limits::retry_room_ms});
}

Status DiskReserve::room_for(std::uint64_t bytes) {
  if (!held_ && bytes_ != 0) {
    MILLRACE_TRY(keep());
    if (!held_) {
      MILLRACE_ASSIGN(const std::uint64_t left, free_bytes());
      if (left < 2 * bytes_) return not_enough(left, 2 * bytes_);
      return fail(Error{Code::disk_full,
                        "the disk of " + folder_ + " accepts no more data, although it has " +
                            std::to_string(left) + " bytes left: the broker takes no new jobs",
                        "look for a quota; a running broker takes jobs again by itself",
                        limits::retry_room_ms});
    }
  }
  MILLRACE_ASSIGN(const std::uint64_t free, free_bytes());
  warn_if_low(free);
  const std::uint64_t low = std::max<std::uint64_t>(bytes_, marks_->low);
  const std::uint64_t mark = low_ ? std::max<std::uint64_t>(low, marks_->high) : low;
  const std::uint64_t wanted = mark + write_amplification * bytes;
  low_ = free < mark;
  if (free >= wanted) return {};
  return not_enough(free, wanted);
}

Result<bool> DiskReserve::release() {
  held_ = false;
  MILLRACE_ASSIGN(const bool exists, env_.exists(path_));
  if (!exists) return false;
  MILLRACE_TRY(env_.remove(path_));
  return true;
}

}  // namespace millrace::broker
