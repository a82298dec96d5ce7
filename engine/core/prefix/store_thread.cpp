#include "engine/core/prefix/store_thread.hpp"

#include <chrono>
#include <utility>

#include "schemas/base/clock.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

std::int64_t now_us() {
  return SystemClock().monotonic_us();
}

std::chrono::milliseconds in_ms(std::uint32_t ms) {
  return std::chrono::milliseconds(ms);
}

}  // namespace

StoreThread::StoreThread(std::unique_ptr<SegmentStore> store, const SharedTierOptions& options)
    : store_(std::move(store)), options_(options), view_(*store_, options.kind, options.bytes) {}

void StoreThread::load(const Segment& segment, std::uint32_t skip, std::uint32_t count) {
  const std::lock_guard lock(mutex_);
  loads_.push_back({segment, skip, count});
  asked_.notify_all();
}

void StoreThread::save(SegmentIndex::Number number, const Segment& segment, std::vector<char> bytes,
                       std::set<std::string> kept) {
  const std::lock_guard lock(mutex_);
  unwritten_bytes_ += bytes.size();
  requests_.push_back(Save{number, segment, std::move(bytes), std::move(kept)});
  asked_.notify_all();
}

void StoreThread::touch(std::string name) {
  const std::lock_guard lock(mutex_);
  requests_.push_back(Touch{std::move(name)});
  asked_.notify_all();
}

void StoreThread::want_listing() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(wanted_, true)) return;
  asked_.notify_all();
}

std::vector<StoreThread::Answer> StoreThread::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

std::uint64_t StoreThread::unwritten_bytes() const {
  const std::lock_guard lock(mutex_);
  return unwritten_bytes_;
}

void StoreThread::wait(std::uint32_t ms) {
  std::unique_lock lock(mutex_);
  answered_.wait_for(lock, in_ms(ms), [&] {
    return !answers_.empty() || (loads_.empty() && requests_.empty() && !under_way_);
  });
}

void StoreThread::wait_for_listing(std::uint32_t ms) {
  std::unique_lock lock(mutex_);
  answered_.wait_for(lock, in_ms(ms), [&] { return known_; });
}

bool StoreThread::stop(std::uint32_t ms) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  loads_.clear();
  asked_.notify_all();
  if (answered_.wait_for(lock, in_ms(ms), [&] { return ended_; })) return true;
  requests_.clear();
  store_->give_up();
  return answered_.wait_for(lock, in_ms(ms / 4), [&] { return ended_; });
}

void StoreThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (work(lock)) continue;
    if (stopping_) break;
    if (wanted_) {
      const auto until =
          std::chrono::steady_clock::time_point(std::chrono::microseconds(next_listing_us_));
      asked_.wait_until(lock, until);
    } else {
      asked_.wait(lock);
    }
  }
  ended_ = true;
  answered_.notify_all();
}

// Carries out one request. False: there is nothing to do now.
bool StoreThread::work(std::unique_lock<std::mutex>& lock) {
  const auto unlocked = [&](auto&& carry_out) {
    under_way_ = true;
    lock.unlock();
    carry_out();
    lock.lock();
    under_way_ = false;
    answered_.notify_all();
  };
  if (!loads_.empty()) {
    const Load load = std::move(loads_.front());
    loads_.pop_front();
    unlocked([&] { answer(carry_out(load)); });
  } else if (!stopping_ && !away_ && view_.unread() > 0) {
    unlocked([&] { read_header(); });
  } else if (!requests_.empty()) {
    auto request = std::move(requests_.front());
    requests_.pop_front();
    auto* const save = std::get_if<Save>(&request);
    const std::uint64_t bytes = save == nullptr ? 0 : save->bytes.size();
    unlocked([&] {
      if (save != nullptr) {
        carry_out(*save);
      } else if (!away_) {
        view_.touch(std::get<Touch>(request).name);
      }
    });
    unwritten_bytes_ -= bytes;
    // What several engines have written at once may be too much together.
    if (save != nullptr && !away_) {
      wanted_ = true;
      next_listing_us_ = 0;
    }
  } else if (!stopping_ && wanted_ && now_us() >= next_listing_us_) {
    unlocked([&] { list(0, {}); });
    wanted_ = false;
    next_listing_us_ = now_us() + us_per_ms * (away_ ? options_.pause_ms : options_.refresh_ms);
  } else {
    return false;
  }
  if (!known_ && (away_ || (listed_ && view_.unread() == 0))) {
    known_ = true;
    answered_.notify_all();
  }
  return true;
}

StoreThread::Loaded StoreThread::carry_out(const Load& load) {
  if (load.segment.path.empty()) return {{}, true};  // it was removed from the index
  if (away_) return {};
  auto items = view_.load(load.segment, load.skip, load.count);
  if (!items) {
    failed(items.error());
    return {};
  }
  if (!*items) return {{}, true};
  return {**std::move(items), false};
}

void StoreThread::carry_out(Save& save) {
  Saved saved{save.number};
  if (!away_) list(segment_file_bytes(save.segment), save.kept);
  if (!away_) {
    const Result<bool> written = view_.save(save.segment, save.bytes);
    saved.written = written.value_or(false);
    saved.failed = !written;
    if (saved.failed && !write_failed_) {
      log_warn("a prefix segment cannot be written; nothing is saved for a while",
               {{"store", store_->place()}, {"error", written.error().text()}});
    }
    write_failed_ = saved.failed;
  }
  save.bytes = {};
  answer(saved);
}

void StoreThread::list(std::uint64_t coming, const std::set<std::string>& kept) {
  const auto gone = view_.refresh(coming, kept);
  if (!gone) {
    failed(gone.error());
    return;
  }
  for (const std::string& name : *gone) answer(Gone{name});
  if (!std::exchange(listed_, true)) {
    log_info("prefixes are shared in a store", {{"store", store_->place()},
                                                {"files", view_.files()},
                                                {"bytes", view_.bytes()},
                                                {"own_segments", view_.unread()}});
  } else if (away_) {
    log_info("the prefix store can be used again", {{"store", store_->place()}});
  }
  if (std::exchange(away_, false)) answer(Usable{true});
}

void StoreThread::read_header() {
  auto segment = view_.read_header();
  if (!segment) {
    failed(segment.error());
  } else if (*segment) {
    answer(Found{**std::move(segment)});
  }
}

void StoreThread::failed(const Error& error) {
  if (std::exchange(away_, true)) return;
  log_warn("the prefix store cannot be used; prompts are computed, and it is tried again later",
           {{"store", store_->place()}, {"retry_ms", options_.pause_ms}, {"error", error.text()}});
  answer(Usable{false});
  const std::lock_guard lock(mutex_);
  next_listing_us_ = now_us() + us_per_ms * options_.pause_ms;
}

void StoreThread::answer(Answer answer) {
  const std::lock_guard lock(mutex_);
  answers_.push_back(std::move(answer));
}

}  // namespace millrace::engine
