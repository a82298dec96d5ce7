#include "tests/simulation/actors.hpp"

#include <algorithm>
#include <iterator>

namespace millrace::broker::simulation {

// ---- client

void SimClient::tick() {
  if (endpoints_.is_silent(clock_.now_us())) turn();
  if (!welcome_) {
    hello();
  } else {
    submit();
    fetch();
    if (dice_.chance(0.04)) cancel();
    if (dice_.chance(0.4)) pause_or_resume();
  }
  clock_.after(static_cast<std::int64_t>(400'000 + dice_.below(800'000)), [this] { tick(); });
}

void SimClient::turn() {
  record_.turns += endpoints_.next(clock_.now_us());
  welcome_ = false;
}

void SimClient::hello() {
  Hello hello;
  hello.name = peer_.route;
  send(next_id_++, hello);
}

// Sends unanswered jobs again after a while, which their ids make safe.
void SimClient::submit() {
  if (waiting_.empty() || !dice_.chance(plan_.submit)) return;
  Submit message;
  const auto count = 1 + dice_.below(std::min<std::uint64_t>(waiting_.size(), plan_.together));
  for (std::uint64_t i = 0; i < count; ++i) {
    message.jobs.push_back(waiting_[dice_.below(waiting_.size())]);
  }
  const auto id = next_id_++;
  asked_[id] = message.jobs;
  send(id, std::move(message));
}

void SimClient::fetch() {
  Fetch fetch;
  fetch.from = next_number_;
  fetch.epoch = epoch_;
  fetch.max_entries = static_cast<std::uint32_t>(1 + dice_.below(20));
  send(next_id_++, std::move(fetch));
}

// Also the jobs of other tenants, which are none of its business.
void SimClient::cancel() {
  if (record_.acknowledged.empty()) return;
  auto job = record_.acknowledged.begin();
  std::advance(job, static_cast<std::ptrdiff_t>(dice_.below(record_.acknowledged.size())));
  if (job->starts_with("kill")) return;
  if (record_.tenants.at(*job) == tenant_) record_.cancelled.insert(*job);
  send(next_id_++, Cancel{{*job}, {}});
}

// Resumes much more often than it pauses, and whatever any client of the tenant may have paused:
// messages that were sent before may still arrive.
void SimClient::pause_or_resume() {
  ChangePause change;
  change.paused = !record_.calm() && dice_.chance(0.1);
  switch (dice_.below(4)) {
    case 0:
      change.all = true;
      break;
    case 1:
      change.model = dice_.chance(0.5) ? "m" : "*";
      break;
    default:
      change.batch = tenant_ + (dice_.chance(0.5) ? "-0" : "-1");
  }
  send(next_id_++, std::move(change));
}

void SimClient::receive(const Envelope& envelope) {
  endpoints_.heard(clock_.now_us());
  if (std::holds_alternative<Welcome>(envelope.message)) welcome_ = true;
  if (std::holds_alternative<Goodbye>(envelope.message)) turn();
  if (const auto* refused = std::get_if<Refused>(&envelope.message)) {
    if (refused->error.code == Code::unexpected_message) welcome_ = false;
    if (refused->error.code == Code::epoch_changed) {
      record_.violations.push_back("the epoch changed");
    }
  }
  if (const auto* answer = std::get_if<Submitted>(&envelope.message)) {
    submitted(*answer, envelope.id);
  }
  if (const auto* got = std::get_if<Data>(&envelope.message)) data(*got);
}

void SimClient::submitted(const Submitted& answer, std::uint64_t id) {
  const auto asked = asked_.find(id);
  if (asked == asked_.end()) return;
  for (std::size_t i = 0; i < answer.answers.size(); ++i) {
    if (answer.answers[i].error) {
      if (!may_be_refused(answer.answers[i].error->code)) {
        record_.violations.push_back("refused: " + answer.answers[i].error->text());
      }
      continue;
    }
    const auto& job = answer.answers[i].job;
    if (!record_.is_stored(job)) record_.violations.push_back(job + " acknowledged unstored");
    record_.acknowledged.insert(job);
    std::erase(waiting_, asked->second[i]);
  }
  asked_.erase(asked);
}

// No engine has joined yet, the disk is full, or the tenant's queue is.
bool SimClient::may_be_refused(Code code) const {
  if (code == Code::overloaded && plan_.tenants.at(tenant_).queued < limits::queued_jobs) {
    ++record_.queue_full;
    return true;
  }
  return code == Code::unknown_model || (code == Code::disk_full && record_.may_be_full());
}

void SimClient::data(const Data& data) {
  epoch_ = data.epoch;
  for (const auto& entry : data.entries) {
    if (entry.number < next_number_) continue;  // the answer came late or twice
    if (entry.number != next_number_) {
      // Entries of one answer are consecutive; a late answer may start at a higher number.
      if (&entry != &data.entries.front()) record_.violations.push_back("a gap in the stream");
      return;
    }
    ++next_number_;
    ++read_[entry.job];
  }
}

// ---- engine

void SimEngine::tick() {
  if (dead_) return;
  const auto now = clock_.now_us();
  if (now >= frozen_until_us_) {
    if (endpoints_.is_silent(now)) turn();
    if (!welcome_) {
      Hello hello;
      hello.role = Role::engine;
      hello.name = hello.instance = name_;
      hello.engine.facts.model = "m";
      send(1, hello);
    } else {
      if (!hanging_) step();
      if (dead_) return;
      if (now - beat_us_ >= 1'000'000) heartbeat();
    }
  }
  clock_.after(static_cast<std::int64_t>(50'000 + dice_.below(100'000)), [this] { tick(); });
}

void SimEngine::begin_jobs() {
  std::uint32_t rows = 0;
  for (const auto& [lease, running] : running_) rows += running.begun;
  Begun begun;
  for (auto& [lease, running] : running_) {
    if (running.begun || rows >= rows_) continue;
    running.begun = true;
    ++rows;
    begun.leases.push_back(lease);
  }
  if (!begun.leases.empty()) send(0, std::move(begun));
}

void SimEngine::step() {
  if (running_.empty()) return;
  begin_jobs();
  ++steps_;
  for (const auto& [lease, running] : running_) {
    if (running.begun && running.job.starts_with("kill") && dice_.chance(0.5)) {
      if (record_.is_current(lease, running.job)) ++record_.deaths_by[running.job];
      return die();
    }
  }
  for (auto it = running_.begin(); it != running_.end();) {
    auto& [lease, running] = *it;
    if (running.cancelled || (running.begun && --running.steps_left <= 0)) {
      const auto state = running.cancelled ? JobState::cancelled : JobState::completed;
      ended_[lease] = {running.job, state};
      it = running_.erase(it);
    } else {
      ++it;
    }
  }
  send_ends();
  if (counted_ && credit() > 0) send(0, Ready{credit()});
}

void SimEngine::send_ends() {
  if (ended_.empty()) return;
  Ends ends;
  for (const auto& [lease, end] : ended_) {
    const Body result = end.second == JobState::completed ? encode_generation({}) : Body();
    ends.ends.push_back({lease, end.second, result, {}});
  }
  send(0, std::move(ends));
}

void SimEngine::heartbeat() {
  beat_us_ = clock_.now_us();
  Heartbeat beat;
  for (const auto& [lease, running] : running_) {
    beat.leases.push_back(lease);
    if (!running.begun) beat.waiting.push_back(lease);
  }
  for (const auto& item : ended_) beat.leases.push_back(item.first);
  beat.steps = steps_;
  beat.credit = hanging_ ? 0 : credit();
  beat.prefixes.assign(prefixes_.begin(), prefixes_.end());
  send(2, std::move(beat));
  send_ends();  // again, until the broker has answered
}

void SimEngine::receive(const Envelope& envelope) {
  if (dead_) return;
  endpoints_.heard(clock_.now_us());
  if (std::holds_alternative<Welcome>(envelope.message)) {
    welcome_ = true;
    counted_ = false;
    heartbeat();  // first, so that the broker counts the leases that are held
  }
  if (std::holds_alternative<Goodbye>(envelope.message)) turn();
  if (const auto* refused = std::get_if<Refused>(&envelope.message)) {
    if (refused->error.code == Code::unexpected_message) {  // the broker has started again
      welcome_ = false;
      ++connection_;
    }
  }
  if (const auto* got = std::get_if<Leases>(&envelope.message)) {
    for (const auto& lease : got->leases) {
      if (!seen_.insert(lease.lease).second) continue;
      const int steps =
          lease.job.starts_with("kill") ? 1'000'000 : 1 + static_cast<int>(dice_.below(60));
      running_[lease.lease] = {lease.job, steps};
      if (lease.prefix != 0) hold(lease.prefix);
    }
  }
  if (const auto* answer = std::get_if<HeartbeatAnswer>(&envelope.message)) {
    counted_ = true;
    for (const auto lease : answer->lost) {
      running_.erase(lease);
      ended_.erase(lease);
    }
    for (const auto lease : answer->cancelled) {
      if (const auto it = running_.find(lease); it != running_.end()) it->second.cancelled = true;
    }
  }
  if (const auto* answer = std::get_if<Committed>(&envelope.message)) {
    for (const auto lease : answer->committed) {
      if (const auto it = ended_.find(lease); it != ended_.end()) {
        const auto& job = it->second.first;
        if (!record_.has_ended(job)) record_.violations.push_back(job + " called committed");
        ended_.erase(it);
      }
    }
    for (const auto lease : answer->stale) ended_.erase(lease);
  }
}

// Has room for few beginnings, and forgets those that were used least recently.
void SimEngine::hold(std::uint64_t prefix) {
  constexpr std::size_t most = 3;
  std::erase(prefixes_, prefix);
  prefixes_.push_back(prefix);
  if (prefixes_.size() > most) prefixes_.erase(prefixes_.begin());
}

void SimEngine::die() {
  if (dead_) return;
  dead_ = true;
  ++record_.engine_deaths;
}

void SimEngine::hang() {
  constexpr std::int64_t supervisor_waits_us = 120'000'000;
  if (hanging_) return;
  hanging_ = true;
  clock_.after(supervisor_waits_us, [this] { die(); });
}

void SimEngine::reconnect() {
  peer_.route = name_ + "/" + std::to_string(++route_);
  welcome_ = false;
}

// It takes its leases along.
void SimEngine::turn() {
  record_.turns += endpoints_.next(clock_.now_us());
  reconnect();
}

void SimEngine::leave() {
  if (dead_) return;
  send_ends();
  send(0, Goodbye{"leaving"});
  dead_ = true;
}

}  // namespace millrace::broker::simulation
