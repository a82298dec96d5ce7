#pragma once
// The operations by which several brokers share one ledger: a broker says that it lives, and learns
// what the others have committed. A ledger that serves one broker (SQLite) knows of no others and
// has no news.
//
// Each lease belongs to the broker that handed it out or renewed it last. A broker lives as long as
// its heartbeat counts, by the clock of the store. FindLapsed leaves the leases of other brokers
// that live to these, and so does a GiveBack with `only_own`. Whoever an engine turns to, though,
// may renew, end and release its leases.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace millrace::broker {

// This broker lives, for so long from now on. 0: it leaves, and its leases are nobody's.
struct BeatBroker {
  std::int64_t alive_us = 0;
};
struct BeatReply {
  std::uint64_t others = 0;  // other brokers that live
};

// What another broker has committed and this one has to know at once.
struct News {
  enum class Kind : std::uint8_t {
    entry,      // the stream `name` goes up to `number`
    work,       // `number` more jobs of the tenant are ready; 0: nobody has counted them
    suspects,   // suspects of the tenant are queued
    cancelled,  // the job of the lease `number`, of the engine `name`, is to be cancelled
    lost,       // the lease `number`, of the engine `name`, ended without its engine
  };
  Kind kind = Kind::entry;
  std::string tenant, name;
  std::uint64_t number = 0;
};

// Where each of the other brokers' handles is: the high mark up to which news were read.
using NewsMarks = std::map<std::string, std::uint64_t>;
// What others have committed since these marks. News are kept for news_kept_us; a handle without a
// mark is read from its oldest news on, so some may be told twice.
struct ReadNews {
  NewsMarks since;
};
struct NewsReply {
  std::vector<News> news;
  NewsMarks marks;  // for the next question
  std::string epoch;
};
inline constexpr std::int64_t news_kept_us = 60'000'000;

}  // namespace millrace::broker
