#pragma once
// A simulated clock with a queue of events, and a network that loses, doubles and delays
// messages.
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>

namespace millrace::broker::simulation {

inline constexpr std::int64_t second = 1'000'000;  // in microseconds

// The only source of randomness, so that a seed repeats a run exactly.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : generator_(seed) {}
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : generator_() % n; }
  bool chance(double p) { return static_cast<double>(generator_() >> 11) * 0x1.0p-53 < p; }

 private:
  std::mt19937_64 generator_;
};

class Clock {
 public:
  std::int64_t now_us() const { return now_us_; }
  void after(std::int64_t us, std::function<void()> what) {
    queue_.emplace(std::pair{now_us_ + us, next_++}, std::move(what));
  }
  // Runs the next event, if it comes before `until_us`.
  bool step(std::int64_t until_us) {
    if (queue_.empty() || queue_.begin()->first.first > until_us) return false;
    auto node = queue_.extract(queue_.begin());
    now_us_ = node.key().first;
    node.mapped()();
    return true;
  }

 private:
  std::int64_t now_us_ = 1'000'000;
  std::uint64_t next_ = 0;
  std::map<std::pair<std::int64_t, std::uint64_t>, std::function<void()>> queue_;
};

struct NetworkFaults {
  double lose = 0.01, twice = 0.01, late = 0.02;
  std::int64_t usual_us = 2'000, late_us = 3'000'000;
};

// The connections of the peers. One that is cut loses what is sent over it; one that is held
// delivers it afterwards, in order, as ZeroMQ does when a peer is stopped or its link stalls.
class Links {
 public:
  void cut(const std::string& peer, std::int64_t until_us) { cut_until_us_[peer] = until_us; }
  void hold(const std::string& peer, std::int64_t until_us) { held_until_us_[peer] = until_us; }
  bool is_cut(const std::string& peer, std::int64_t now_us) const {
    return until(cut_until_us_, peer) > now_us;
  }
  std::int64_t held_until_us(const std::string& peer) const { return until(held_until_us_, peer); }

 private:
  using Times = std::map<std::string, std::int64_t>;
  static std::int64_t until(const Times& times, const std::string& peer) {
    const auto at = times.find(peer);
    return at == times.end() ? 0 : at->second;
  }
  Times cut_until_us_, held_until_us_;
};

// Calls `what` once, twice, late or never. Delays differ, so that messages overtake each other.
inline void carry(Clock& clock, Dice& dice, const NetworkFaults& faults,
                  const std::function<void()>& what) {
  if (dice.chance(faults.lose)) return;
  const int copies = dice.chance(faults.twice) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    const bool late = dice.chance(faults.late);
    const auto most = static_cast<std::uint64_t>(late ? faults.late_us : faults.usual_us);
    clock.after(static_cast<std::int64_t>(1 + dice.below(most)), what);
  }
}

}  // namespace millrace::broker::simulation
