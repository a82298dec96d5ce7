#include "engine/core/prefix/disk_tier.hpp"

#include <charconv>
#include <chrono>
#include <utility>

#include "schemas/base/hash.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

// Limit of bytes in memory. Pages that are not saved because of it are offered again when they are
// used next.
constexpr std::uint64_t most_unwritten_bytes = 64 * limits::MiB;

constexpr std::string_view suffix = ".kv";
constexpr std::string_view unfinished = ".kv.part";

// The number in a file's name, 16 hex digits; 0 for other files, which the tier does not touch.
SegmentIndex::Number number_of(std::string_view name) {
  SegmentIndex::Number number = 0;
  if (name.size() != 16 + suffix.size() || !name.ends_with(suffix)) return 0;
  const std::string digits(name.substr(0, 16));
  const char* const end = digits.data() + digits.size();
  return std::from_chars(digits.data(), end, number, 16).ptr == end ? number : 0;
}

}  // namespace

Result<std::unique_ptr<DiskTier>> DiskTier::open(std::shared_ptr<Env> env,
                                                 const DiskTierOptions& options) {
  MILLRACE_TRY(check_limit(options.kind, options.bytes));
  MILLRACE_TRY(env->make_directories(options.folder));
  MILLRACE_ASSIGN(std::unique_ptr<FileLock> lock, env->lock(options.folder + "/lock"));
  std::unique_ptr<DiskTier> tier(new DiskTier(std::move(env), options, std::move(lock)));
  MILLRACE_TRY(tier->read_folder());
  tier->make_room(0, {});
  tier->thread_ = std::thread([t = tier.get()] { t->work(); });
  return tier;
}

DiskTier::DiskTier(std::shared_ptr<Env> env, const DiskTierOptions& options,
                   std::unique_ptr<FileLock> lock)
    : SegmentTier(options.kind, options.bytes),
      env_(std::move(env)),
      options_(options),
      lock_(std::move(lock)) {}

DiskTier::~DiskTier() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    loads_.clear();
  }
  asked_.notify_all();
  if (thread_.joinable()) thread_.join();
  take();  // logs failed writes
}

Status DiskTier::read_folder() {
  MILLRACE_ASSIGN(const std::vector<std::string> names, env_->list(options_.folder));
  for (const std::string& name : names) {
    if (name.ends_with(unfinished)) {
      log_warn("a half-written prefix segment is removed", {{"file", name}});
      MILLRACE_TRY(env_->remove(options_.folder + "/" + name));
    } else if (const SegmentIndex::Number number = number_of(name); number != 0) {
      next_ = std::max(next_, number + 1);
      read_file(name, number);
    }
  }
  if (foreign_ > 0) {
    log_warn("prefix segments of another model or engine are not read",
             {{"folder", options_.folder}, {"segments", foreign_}});
  }
  return {};
}

void DiskTier::read_file(const std::string& name, SegmentIndex::Number number) {
  const Result<SegmentFile> file = read_segment_header(*env_, options_.folder + "/" + name);
  if (!file) {
    tell(number, "a prefix segment cannot be read and is removed", file.error());
    forget(number);
  } else if (file->segment.kind != options_.kind) {
    ++foreign_;
    index_.add_foreign(number, file->bytes);
  } else {
    index_.add(number, file->segment);
    index_.finished(number);
  }
}

SegmentIndex::Number DiskTier::enter(const Segment& segment) {
  index_.add(next_, segment);
  return next_++;
}

void DiskTier::save(SegmentIndex::Number number, std::vector<char> bytes) {
  const std::lock_guard lock(mutex_);
  unwritten_bytes_ += bytes.size();
  writes_.push_back({number, index_.segment(number), std::move(bytes), {}});
  asked_.notify_all();
}

bool DiskTier::accepts() const {
  const std::lock_guard lock(mutex_);
  return !write_failed_ && unwritten_bytes_ < most_unwritten_bytes;
}

std::uint64_t DiskTier::unwritten_bytes() const {
  const std::lock_guard lock(mutex_);
  return unwritten_bytes_;
}

void DiskTier::load(std::uint64_t ticket, const SegmentIndex::Piece& piece) {
  const std::lock_guard lock(mutex_);
  // A segment that was removed since it was found is queued like all others, because answers keep
  // their order.
  const bool there = index_.contains(piece.segment);
  loads_.push_back({{ticket, piece, {}}, there ? index_.segment(piece.segment) : Segment(), {}});
  asked_.notify_all();
}

std::vector<SegmentTier::Loaded> DiskTier::take() {
  std::deque<Load> loaded;
  std::deque<Write> written;
  {
    const std::lock_guard lock(mutex_);
    loaded.swap(loaded_);
    written.swap(written_);
  }
  for (const Write& write : written) {
    if (write.status && index_.contains(write.number)) {
      index_.finished(write.number);
    } else if (!write.status) {
      if (!write_failed_) {
        tell(write.number, "a prefix segment cannot be written; nothing more is saved",
             write.status.error());
      }
      write_failed_ = true;
      forget(write.number);
    }
  }
  std::vector<Loaded> out;
  for (Load& load : loaded) {
    const SegmentIndex::Number number = load.answer.piece.segment;
    if (!load.status) {
      load.answer.bytes.clear();
      // Several loads may find the same damage, and the segment may have been removed meanwhile.
      if (index_.contains(number)) {
        tell(number, "a prefix segment cannot be read and is removed", load.status.error());
        forget(number);
      }
    }
    out.push_back(std::move(load.answer));
  }
  return out;
}

void DiskTier::wait() {
  std::unique_lock lock(mutex_);
  answered_.wait_for(lock, std::chrono::milliseconds(most_wait_ms), [&] {
    return !loaded_.empty() || !written_.empty() ||
           (loads_.empty() && writes_.empty() && under_way_ == 0);
  });
}

// Removes segments until `bytes` more fit. False: the next segment to remove is still being
// written; it is not skipped, so that the choice does not depend on the speed of the disk.
bool DiskTier::make_room(std::uint64_t bytes, const std::set<SegmentIndex::Number>& kept) {
  while (index_.bytes() + bytes > options_.bytes) {
    const auto number = index_.oldest(kept);
    if (!number || !index_.is_readable(*number)) return false;
    forget(*number);
  }
  return true;
}

// Removes a segment from the index, and its file from the folder after all earlier requests.
void DiskTier::forget(SegmentIndex::Number number) {
  index_.remove(number);
  const std::lock_guard lock(mutex_);
  writes_.push_back({number, {}, {}, {}});
  asked_.notify_all();
}

void DiskTier::tell(SegmentIndex::Number number, const char* what, const Error& error) {
  log_warn(what, {{"file", path_of(number)}, {"error", error.text()}});
}

std::string DiskTier::path_of(SegmentIndex::Number number) const {
  return options_.folder + "/" + hex(number) + std::string(suffix);
}

void DiskTier::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [&] { return stopping_ || !loads_.empty() || !writes_.empty(); });
    const auto answer = [&](auto& from, auto& to) {
      auto request = std::move(from.front());
      from.pop_front();
      ++under_way_;
      lock.unlock();
      carry_out(request);
      lock.lock();
      --under_way_;
      to.push_back(std::move(request));
      answered_.notify_all();
    };
    if (!loads_.empty()) {
      answer(loads_, loaded_);
    } else if (!writes_.empty()) {
      const std::uint64_t bytes = writes_.front().bytes.size();
      answer(writes_, written_);
      unwritten_bytes_ -= bytes;
    } else if (stopping_) {
      return;
    }
  }
}

void DiskTier::carry_out(Load& load) {
  const SegmentIndex::Piece& piece = load.answer.piece;
  if (load.segment.path.empty()) return;  // the segment was removed
  load.answer.bytes.resize(piece.count * load.segment.item_bytes());
  load.status = read_segment_items(*env_, path_of(piece.segment), load.segment, piece.skip,
                                   load.answer.bytes);
}

void DiskTier::carry_out(Write& write) {
  const std::string path = path_of(write.number);
  if (!write.bytes.empty()) {
    write.status = write_segment(*env_, path, write.segment, write.bytes);
    write.bytes = {};
  } else {
    // The file does not exist if its write failed.
    static_cast<void>(env_->remove(path));
  }
}

}  // namespace millrace::engine
