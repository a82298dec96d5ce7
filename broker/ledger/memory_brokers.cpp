// The brokers that use the store in memory, and what they tell each other.
#include <algorithm>

#include "broker/ledger/memory_records.hpp"

namespace millrace::broker {

void MemoryRecords::begin(const MemoryCaller& caller, std::uint64_t batch, std::int64_t now_us) {
  caller_ = caller;
  now_us_ = now_us;
  if (batch == 0 || caller.broker.empty()) return;
  const auto [at, is_new] = handles_.try_emplace(caller.handle, Handle{caller.broker, 0, {}});
  note_undo([this, name = caller.handle, before = at->second.batch, is_new] {
    if (is_new) {
      handles_.erase(name);
    } else {
      handles_.at(name).batch = before;
    }
  });
  at->second.batch = batch;
}

bool MemoryRecords::lives(const std::string& broker) const {
  const auto at = brokers_.find(broker);
  return at != brokers_.end() && at->second > now_us_;
}

bool MemoryRecords::others_live() const {
  return !caller_.broker.empty() && std::ranges::any_of(brokers_, [&](const auto& item) {
    return item.first != caller_.broker && item.second > now_us_;
  });
}

void MemoryRecords::forget_news_of(const std::string& broker, std::int64_t until_us) {
  for (auto& [name, handle] : handles_) {
    if (handle.broker != broker) continue;
    const auto kept = std::ranges::find_if(
        handle.news, [&](const Told& told) { return told.written_us >= until_us; });
    std::vector<Told> forgotten(handle.news.begin(), kept);
    if (forgotten.empty()) continue;
    handle.news.erase(handle.news.begin(), kept);
    note_undo([this, name, forgotten = std::move(forgotten)] {
      auto& news = handles_.at(name).news;
      news.insert(news.begin(), forgotten.begin(), forgotten.end());
    });
  }
}

std::uint64_t MemoryRecords::beat(std::int64_t alive_us) {
  if (caller_.broker.empty()) return 0;
  const auto [at, is_new] = brokers_.try_emplace(caller_.broker, 0);
  note_undo([this, broker = caller_.broker, before = at->second, is_new] {
    if (is_new) {
      brokers_.erase(broker);
    } else {
      brokers_.at(broker) = before;
    }
  });
  at->second = now_us_ + alive_us;
  forget_news_of(caller_.broker, now_us_ - news_kept_us);
  std::uint64_t others = 0;
  for (const auto& [broker, until_us] : brokers_) {
    if (until_us < now_us_ - news_kept_us) forget_news_of(broker, INT64_MAX);  // it is gone
    others += broker != caller_.broker && until_us > now_us_;
  }
  return others;
}

std::set<LeaseId> MemoryRecords::held_elsewhere(std::span<const LeaseId> leases) {
  std::set<LeaseId> out;
  for (const LeaseId lease : leases) {
    const auto at = leases_.find(lease);
    if (at == leases_.end()) continue;
    const std::string& broker = at->second.broker;
    if (broker != caller_.broker && lives(broker)) out.insert(lease);
  }
  return out;
}

// The numbers of a handle's batches grow in the order of its commits, so the last one that was read
// of each handle is the mark.
std::vector<News> MemoryRecords::read_news(NewsMarks& marks) {
  std::vector<News> out;
  if (caller_.broker.empty()) return out;
  for (const auto& [name, handle] : handles_) {
    if (handle.broker == caller_.broker) continue;
    std::uint64_t& mark = marks[name];
    for (const Told& told : handle.news) {
      if (told.batch > mark) out.push_back(told.news);
    }
    mark = handle.batch;
  }
  return out;
}

void MemoryRecords::tell(std::vector<News> news) {
  if (news.empty()) return;
  Handle& handle = handles_.at(caller_.handle);
  note_undo([this, name = caller_.handle, before = handle.news.size()] {
    handles_.at(name).news.resize(before);
  });
  for (News& one : news) handle.news.push_back({handle.batch, now_us_, std::move(one)});
}

}  // namespace millrace::broker
