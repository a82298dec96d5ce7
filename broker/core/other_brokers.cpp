#include "broker/core/other_brokers.hpp"

#include <optional>
#include <utility>

#include "schemas/base/number_text.hpp"

namespace millrace::broker {
namespace {

// A heartbeat counts for so many lease times: all leases of a broker that died have lapsed then,
// and its engines have had a lease time to turn to another one.
constexpr std::int64_t lease_times = 2;

}  // namespace

void OtherBrokers::join(std::function<void()> then) {
  if (!config_.shares_ledger) return then();
  beat(std::move(then));
}

void OtherBrokers::sweep() {
  if (config_.shares_ledger && !beating_) beat([] {});
}

void OtherBrokers::beat(std::function<void()> then) {
  beating_ = true;
  const std::int64_t alive_us = lease_times * 1000 * std::int64_t{config_.lease_ms};
  out_.ask_one(BeatBroker{alive_us}, [this, then = std::move(then)](Result<Reply> reply) {
    beating_ = false;
    if (const auto* beaten = reply_as<BeatReply>(reply)) {
      if (beaten->others != others_) {
        out_.note(NoteLevel::info, "this ledger is served by " +
                                       count_text(beaten->others, "other broker") + " now");
      }
      others_ = beaten->others;
    } else {
      out_.note(NoteLevel::error, "telling the other brokers that this one lives failed: " +
                                      reply_error(reply).text());
    }
    then();
  });
}

void OtherBrokers::tick() {
  if (others_ == 0 || reading_) return;
  reading_ = true;
  out_.ask_one(ReadNews{marks_}, [this](Result<Reply> reply) {
    reading_ = false;
    if (const auto* news = reply_as<NewsReply>(reply)) return take(*news);
    out_.note(NoteLevel::error,
              "reading the news of other brokers failed: " + reply_error(reply).text());
  });
}

void OtherBrokers::take(const NewsReply& reply) {
  marks_ = reply.marks;
  std::vector<LapsedLease> cancelled, lost;
  for (const News& news : reply.news) {
    LapsedLease lease;
    lease.lease = news.number;
    lease.engine = news.name;
    lease.tenant = news.tenant;
    switch (news.kind) {
      case News::Kind::entry:
        if (news.name == models_stream) models_.refresh(news.tenant);
        doorbell_.written_elsewhere(news.tenant, news.name, reply.epoch, news.number);
        break;
      case News::Kind::work:
        dispatcher_.work_arrived(news.tenant,
                                 news.number > 0 ? std::optional(news.number) : std::nullopt);
        break;
      case News::Kind::suspects:
        dispatcher_.suspects_arrived(news.tenant);
        break;
      case News::Kind::cancelled:
        cancelled.push_back(std::move(lease));
        break;
      case News::Kind::lost:
        lost.push_back(std::move(lease));
        break;
    }
  }
  if (!cancelled.empty()) engines_.cancel(cancelled);
  if (!lost.empty()) reclaimer_.revoke(lost);
}

void OtherBrokers::leave() {
  if (config_.shares_ledger) out_.ask_one(BeatBroker{0}, [](const Result<Reply>&) {});
}

}  // namespace millrace::broker
