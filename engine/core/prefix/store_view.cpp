#include "engine/core/prefix/store_view.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "schemas/base/limits.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

// The headers of most segments are shorter, so that one read suffices.
constexpr std::size_t beginning_bytes = 64 * limits::KiB;

// A file that cannot be read this often, without a success between, is not tried again until it is
// written anew, so that it does not keep the engine from the others.
constexpr int most_faults = 2;

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds long_refusal{1};

SegmentSource in_memory(std::string place, std::span<const char> file) {
  return {std::move(place), file.size(),
          [file](std::uint64_t offset, std::span<char> into) -> Result<std::size_t> {
            if (offset >= file.size()) return std::size_t{0};
            const std::size_t size = std::min(into.size(), file.size() - offset);
            std::memcpy(into.data(), file.data() + offset, size);
            return size;
          }};
}

}  // namespace

StoreView::StoreView(SegmentStore& store, const PageKind& kind, std::uint64_t most_bytes)
    : store_(&store), kind_(kind), kind_name_(kind_name(kind)), most_bytes_(most_bytes) {}

Result<std::vector<std::string>> StoreView::refresh(std::uint64_t coming,
                                                    const std::set<std::string>& kept) {
  MILLRACE_ASSIGN(listed_, store_->list());
  std::ranges::sort(listed_, goes_before);
  bytes_ = 0;
  for (const StoredFile& file : listed_) bytes_ += file.bytes;
  make_room(coming, kept);
  std::set<std::string> there;
  for (const StoredFile& file : listed_) {
    const std::string& name = file.name;
    if (!is_segment_name(name) || !name.starts_with(kind_name_)) continue;
    const auto faults = faults_.find(name);
    if (faults != faults_.end() && faults->second >= most_faults) continue;
    there.insert(name);
    if (!known_.contains(name)) unread_.push_back(name);
  }
  std::vector<std::string> gone;
  std::ranges::set_difference(known_, there, std::back_inserter(gone));
  std::erase_if(unread_, [&](const std::string& name) { return !there.contains(name); });
  known_ = std::move(there);
  return gone;
}

// Several engines may do this at once: each removes the oldest files, and those that another one
// has removed are no error. One that may not be removed keeps no other file; but a store that takes
// long to refuse is away, and is not asked again before the next listing.
void StoreView::make_room(std::uint64_t coming, const std::set<std::string>& kept) {
  bool away = false;
  std::erase_if(listed_, [&](const StoredFile& file) {
    if (away || bytes_ + coming <= most_bytes_ || kept.contains(file.name)) return false;
    const auto asked = Clock::now();
    const Status removed = store_->remove(file.name);
    if (!removed && removed.error().code != Code::not_found) {
      if (!std::exchange(told_unremovable_, true)) {
        log_warn("an old prefix segment cannot be removed; the store may outgrow --prefix-disk",
                 removed.error());
      }
      away = Clock::now() - asked >= long_refusal;
      return false;
    }
    bytes_ -= file.bytes;
    return true;
  });
}

Result<std::optional<Segment>> StoreView::read_header() {
  const std::string name = std::move(unread_.back());
  unread_.pop_back();
  const auto listed = std::ranges::find(listed_, name, &StoredFile::name);
  std::vector<char> beginning(std::min<std::uint64_t>(listed->bytes, beginning_bytes));
  std::optional<Error> store_error;
  const auto read = [&](std::uint64_t offset, std::span<char> into) {
    auto got = store_->read(name, offset, into);
    if (!got) store_error = got.error();
    return got;
  };
  Result<SegmentFile> file = SegmentFile();
  if (const auto got = read(0, beginning)) {
    beginning.resize(*got);
    SegmentSource source = in_memory(store_->place(name), beginning);
    source.bytes = listed->bytes;
    source.read_at = [&, start = source.read_at](std::uint64_t offset, std::span<char> into) {
      return offset + into.size() <= beginning.size() ? start(offset, into) : read(offset, into);
    };
    file = read_segment_header(source);
  }
  if (store_error) {
    known_.erase(name);
    if (store_error->code == Code::not_found) return std::nullopt;
    ++faults_[name];
    return fail(*std::move(store_error));
  }
  if (file && segment_name(file->segment) == name) {
    faults_.erase(name);
    return std::move(file->segment);
  }
  refuse(name, file ? Error{Code::io_error, "it holds another path or another model's pages", {}}
                    : file.error());
  return std::nullopt;
}

Result<std::optional<std::vector<char>>> StoreView::load(const Segment& segment, std::uint32_t skip,
                                                         std::uint32_t count) {
  const std::string name = segment_name(segment);
  // A file that is longer than it should be is damaged, too.
  std::vector<char> file(segment_file_bytes(segment) + 1);
  const auto got = store_->read(name, 0, file);
  if (!got) {
    if (got.error().code != Code::not_found) {
      ++faults_[name];
      return fail(got.error());
    }
    known_.erase(name);
    return std::nullopt;
  }
  const auto whole = std::span<const char>(file).first(*got);
  std::vector<char> items(count * segment.item_bytes());
  const Status status =
      read_segment_items(in_memory(store_->place(name), whole), segment, skip, items);
  if (status) {
    faults_.erase(name);
    return items;
  }
  refuse(name, status.error());
  return std::nullopt;
}

void StoreView::refuse(const std::string& name, const Error& error) {
  log_warn("a prefix segment cannot be used and is removed; it is computed again",
           {{"file", store_->place(name)}, {"error", error.text()}});
  known_.erase(name);
  const Status removed = store_->remove(name);
  if (!removed && removed.error().code != Code::not_found) faults_[name] = most_faults;
}

Result<bool> StoreView::save(const Segment& segment, std::span<const char> items) {
  const std::string name = segment_name(segment);
  if (known_.contains(name)) return true;
  std::string content = segment_header(segment, items);
  content.append(items.data(), items.size());
  const Status written = store_->write(name, content);
  if (written) {
    known_.insert(name);
    faults_.erase(name);
  }
  if (!written && written.error().code != Code::not_found) return fail(written.error());
  return written.has_value();
}

// A use that cannot be recorded only lets the file seem older.
void StoreView::touch(const std::string& name) {
  static_cast<void>(store_->touch(name));
}

}  // namespace millrace::engine
