#include "broker/core/engines.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/results.hpp"
#include "schemas/base/kv_policy.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::broker {
namespace {

// The canonical names of the announced policies, each once. Skips a name that is no policy: no job
// can ask for it.
std::vector<std::string> kv_names(const std::vector<std::string>& announced) {
  std::vector<std::string> out;
  for (const std::string& policy : announced) {
    const auto name = canonical_kv(policy);
    if (name && std::ranges::find(out, *name) == out.end()) out.push_back(*name);
  }
  return out;
}

}  // namespace

void Engines::before_hello(const Peer& peer, const Hello& hello, const Grant& who) {
  const Engine* before = table_.at(peer);
  if (before == nullptr || before->id == engine_id(who, hello)) return;
  // Two processes never share a routing id: the earlier one has been replaced.
  reclaimer_.died(std::string(before->id), "replaced by another process on its connection");
}

void Engines::hello(const Peer& peer, const Hello& hello, const Grant& who) {
  auto& engine = table_.add(engine_id(who, hello));
  if (engine.peer && *engine.peer != peer) sessions_.close(*engine.peer);
  table_.connect(engine, peer);
  const bool again = engine.joined;
  engine.name = hello.name.empty() ? engine.id : hello.name;
  const std::vector<std::string> kv = kv_names(hello.engine.kv_policies);
  const std::string& model = hello.engine.facts.model;
  engine.tenant = who.tenant;
  table_.forget_prefixes(engine);  // it may tell another model
  engine.profile = hello.engine;
  engine.kv_names = kv;
  engine.joined = true;
  engine.credit = 0;
  engine.searched.clear();
  engine.reserved = engine.lists_unknown = false;
  engine.heard_us = engine.progress_us = out_.now().mono_us;
  models_.serve(engine.tenant, model);
  out_.joined(info_of(engine, out_.now().mono_us));
  out_.note(NoteLevel::info,
            "engine " + engine.label() + (again ? " is back" : " joined") + ", model " + model +
                (hello.engine.facts.kv.empty() ? "" : ", kv ") + hello.engine.facts.kv + ", " +
                std::to_string(engine.leases.size()) + " leases");
  if (table_.drain) out_.send(peer, 0, HeartbeatAnswer{{}, {}, true});
}

void Engines::ready(Engine& engine, const Ready& ready) {
  engine.credit = std::min(ready.credit, limits::leases_per_engine);
  dispatcher_.offer(engine);
}

void Engines::progress(Engine& engine, const Heartbeat& heartbeat) {
  const auto now = out_.now().mono_us;
  const bool moved = heartbeat.steps != engine.steps || heartbeat.tokens != engine.tokens;
  if (moved || engine.leases.empty()) engine.progress_us = now;
  if (moved) engine.hung = false;
  engine.steps = heartbeat.steps;
  engine.rows = heartbeat.rows;
  engine.speed.computes(heartbeat.rows);
  const auto since_us = now - engine.tokens_us;
  const EngineLoad& load = heartbeat.load;
  const bool first = engine.tokens_us == 0;
  const auto take_rate = [&](double& rate, std::uint64_t before, std::uint64_t tokens) {
    if (tokens < before || first) {
      rate = 0;
    } else if (since_us > 0) {
      rate = static_cast<double>(tokens - before) * 1e6 / static_cast<double>(since_us);
    }
  };
  take_rate(engine.tokens_per_second, engine.tokens, heartbeat.tokens);
  take_rate(engine.prompt_tokens_per_second, engine.load.prompt_tokens, load.prompt_tokens);
  take_rate(engine.completion_tokens_per_second, engine.load.completion_tokens,
            load.completion_tokens);
  engine.load = load;
  engine.tokens = heartbeat.tokens;
  engine.tokens_us = now;
}

void Engines::heartbeat(Engine& engine, std::uint64_t id, const Heartbeat& heartbeat) {
  const std::size_t listed = std::max(heartbeat.leases.size(), heartbeat.waiting.size());
  if (listed > 2 * std::size_t{limits::leases_per_engine}) {
    return out_.refuse(*engine.peer, id,
                       {Code::limit_exceeded, "heartbeat: " + std::to_string(listed) + " leases",
                        "an engine holds at most " + std::to_string(limits::leases_per_engine)});
  }
  if (heartbeat.prefixes.size() > limits::prefixes_per_engine) {
    return out_.refuse(
        *engine.peer, id,
        {Code::limit_exceeded,
         "heartbeat: " + std::to_string(heartbeat.prefixes.size()) + " prefixes",
         "announce the " + std::to_string(limits::prefixes_per_engine) + " used last"});
  }
  progress(engine, heartbeat);
  engine.beat_us = out_.now().mono_us;
  for (auto& [lease, held] : engine.leases) held.listed = held.waiting = false;
  std::vector<LeaseId> asked, done;
  for (const auto lease : heartbeat.leases) {
    if (committed_.contains({engine.id, lease})) {
      done.push_back(lease);
    } else if (!finishing_.contains({engine.id, lease})) {
      asked.push_back(lease);
    }
    const auto held = engine.leases.find(lease);
    if (held == engine.leases.end()) continue;
    held->second.listed = true;
    held->second.seen_us = out_.now().mono_us;
  }
  for (const auto lease : heartbeat.waiting) {
    if (const auto held = engine.leases.find(lease); held != engine.leases.end()) {
      held->second.waiting = true;
    }
  }
  table_.set_prefixes(engine, heartbeat.prefixes);
  // The engine did not know of the leases on their way to it when it computed its credit.
  const auto on_the_way = static_cast<std::uint32_t>(
      std::count_if(engine.leases.begin(), engine.leases.end(),
                    [](const auto& item) { return !item.second.listed; }));
  engine.lists_unknown = config_.shares_ledger && std::ranges::any_of(asked, [&](LeaseId lease) {
                           return table_.holder(lease) == nullptr && !reclaimer_.leaving(lease);
                         });
  const auto credit = std::min(heartbeat.credit, limits::leases_per_engine);
  engine.credit = credit - std::min(credit, on_the_way);
  dispatcher_.offer(engine);
  if (asked.empty()) return renewed(engine.id, id, asked, std::move(done), RenewReply{});
  Renew renew{engine.id, asked, out_.now().unix_us + 1000 * std::int64_t{config_.lease_ms}};
  out_.ask_one(std::move(renew),
               [this, name = engine.id, id, asked = std::move(asked), done = std::move(done)](
                   Result<Reply> reply) { renewed(name, id, asked, done, std::move(reply)); });
}

void Engines::renewed(const std::string& name, std::uint64_t id, const std::vector<LeaseId>& asked,
                      std::vector<LeaseId> done, Result<Reply> reply) {
  Engine* engine = table_.find(name);
  if (engine == nullptr || !engine->peer) return;
  HeartbeatAnswer answer;
  answer.drain = table_.drain;
  if (const auto* r = reply_as<RenewReply>(reply)) {
    adopt(*engine, asked, *r);
    engine->lists_unknown = false;
    for (const auto lease : r->lost) {
      // It ended while the renewal was on its way; the answer to its end tells the engine.
      if (finishing_.contains({name, lease}) || committed_.contains({name, lease})) continue;
      answer.lost.push_back(lease);
      table_.drop(lease);
    }
    answer.cancelled = r->cancelled;
    for (const auto lease : r->cancelled) {
      if (const auto held = engine->leases.find(lease); held != engine->leases.end()) {
        held->second.cancelled = true;
      }
    }
  } else {
    out_.note(NoteLevel::error, "renewing leases failed: " + reply_error(reply).text());
  }
  if (!done.empty()) out_.send(*engine->peer, 0, Committed{std::move(done), {}});
  out_.send(*engine->peer, id, std::move(answer));
  dispatcher_.offer(*engine);
}

// Adds leases that the ledger gives to this engine and that this broker did not know: another
// broker handed them out. Reads what they are, again where that failed.
void Engines::adopt(Engine& engine, const std::vector<LeaseId>& asked, const RenewReply& reply) {
  bool some = false;
  for (const auto lease : asked) {
    const auto known = engine.leases.find(lease);
    some = some || (known != engine.leases.end() && known->second.job.empty());
    if (table_.holder(lease) != nullptr || finishing_.contains({engine.id, lease}) ||
        committed_.contains({engine.id, lease}) || reclaimer_.leaving(lease)) {
      continue;
    }
    if (std::find(reply.lost.begin(), reply.lost.end(), lease) != reply.lost.end()) continue;
    HeldLease held;
    held.listed = true;
    held.seen_us = out_.now().mono_us;
    engine.speed.pass_time(out_.now().mono_us, engine.leases.size());
    table_.hold(engine, lease, std::move(held));
    some = true;
  }
  if (some) reclaimer_.learn(engine.id);
}

void Engines::begun(Engine& engine, const Begun& begun) {
  for (const auto lease : begun.leases) {
    if (const auto held = engine.leases.find(lease); held != engine.leases.end()) {
      held->second.waiting = false;
    }
  }
}

void Engines::ends(Engine& engine, std::uint64_t id, Ends ends) {
  Committed answer;
  std::vector<LeaseId> leases;
  std::vector<Operation> operations;
  engine.progress_us = out_.now().mono_us;
  engine.speed.pass_time(out_.now().mono_us, engine.leases.size());
  for (auto& end : ends.ends) {
    const auto lease = end.lease;
    if (committed_.contains({engine.id, lease})) {
      answer.committed.push_back(lease);
      continue;
    }
    if (finishing_.contains({engine.id, lease}))
      continue;  // sent twice: the commit of the first answers it
    if (table_.holder(lease) == &engine) {
      engine.speed.ended(table_.drop(lease)->cost_tokens);
    }
    auto checked = finish_of(std::move(end), engine.id);
    if (!checked.sound) {
      out_.note(NoteLevel::warning, "engine " + engine.label() +
                                        " sent an unusable result for lease " +
                                        std::to_string(lease));
    }
    finishing_.emplace(engine.id, lease);
    leases.push_back(lease);
    operations.push_back(std::move(checked.finish));
  }
  if (operations.empty()) {
    if (!answer.committed.empty()) out_.send(*engine.peer, id, std::move(answer));
    return;
  }
  out_.ask(std::move(operations),
           [this, name = engine.id, id, leases = std::move(leases), answer = std::move(answer)](
               Replies replies) { finished(name, id, leases, answer, std::move(replies)); });
  dispatcher_.offer(engine);
}

void Engines::finished(const std::string& name, std::uint64_t id,
                       const std::vector<LeaseId>& leases, Committed answer, Replies replies) {
  for (std::size_t i = 0; i < leases.size(); ++i) {
    finishing_.erase({name, leases[i]});
    if (const auto* r = reply_as<FinishReply>(replies[i])) {
      ++(r->number == 0 ? out_.counters().run_again : out_.counters().finished);
      answer.committed.push_back(leases[i]);
      remember({name, leases[i]});
      if (r->number != 0) {
        doorbell_.written(*r);
      } else {
        out_.tally().ended(*r);
        if (out_.tells_jobs()) out_.tell({JobStep::given_back, r->tenant, r->job});
      }
      dispatcher_.lease_ended(r->tenant);
      continue;
    }
    const auto error = reply_error(replies[i]);
    if (error.code == Code::stale) {
      ++out_.counters().stale;
      answer.stale.push_back(leases[i]);
      continue;
    }
    // The result is neither stored nor refused: the engine keeps it for the next broker process.
    fatal_ = error;
    out_.note(NoteLevel::error, "a result could not be stored: " + error.text());
  }
  Engine* engine = table_.find(name);
  if (engine == nullptr || !engine->peer) return;
  out_.send(*engine->peer, id, std::move(answer));
  dispatcher_.offer(*engine);
}

void Engines::tell_uncommitted() const {
  if (finishing_.empty()) return;
  out_.note(NoteLevel::warning, "no commit came for " + count_text(finishing_.size(), "result") +
                                    ": the engines keep them and send them again");
}

void Engines::remember(const EndOf& end) {
  if (!committed_.insert(end).second) return;
  committed_order_.push_back(end);
  if (committed_order_.size() <= ends_kept) return;
  committed_.erase(committed_order_.front());
  committed_order_.pop_front();
}

void Engines::release(Engine& engine, const Release& release) {
  std::vector<LeaseId> own;
  for (const auto lease : release.leases) {
    const Engine* holder = table_.holder(lease);
    if (holder == &engine || (holder == nullptr && !finishing_.contains({engine.id, lease}))) {
      own.push_back(lease);
    }
  }
  reclaimer_.give_back(engine.id, std::move(own), Blame::none);
}

void Engines::partials(Engine& engine, Partials partials) {
  std::map<std::pair<std::string, std::string>, std::vector<PartialEntry>> by_stream;
  for (auto& entry : partials.entries) {
    const auto held = engine.leases.find(entry.lease);
    // The engine no longer holds this lease, or the broker has not read the lease's job.
    if (held == engine.leases.end() || held->second.stream.empty()) continue;
    if (out_.tells_jobs() && !std::exchange(held->second.partial_told, true)) {
      out_.tell({JobStep::partial, held->second.tenant, held->second.job});
    }
    entry.lease = 0;
    entry.job = held->second.job;
    entry.custom_id = held->second.custom_id;
    entry.attempt = held->second.attempt;
    by_stream[{held->second.tenant, held->second.stream}].push_back(std::move(entry));
  }
  for (const auto& [key, entries] : by_stream) {
    const auto& [tenant, stream] = key;
    for (const auto& [peer, session] : sessions_.all()) {
      if (session.tenant != tenant || !session.watched.contains(stream)) continue;
      out_.send(peer, 0, Partials{stream, entries});
    }
  }
}

void Engines::cancel(const std::vector<LapsedLease>& leases) {
  std::map<std::string, std::vector<LeaseId>> by_engine;
  for (const auto& lease : leases) by_engine[lease.engine].push_back(lease.lease);
  for (auto& [id, cancelled] : by_engine) {
    Engine* engine = table_.find(id);
    if (engine == nullptr || !engine->peer) continue;
    for (const auto lease : cancelled) {
      if (const auto held = engine->leases.find(lease); held != engine->leases.end()) {
        held->second.cancelled = true;
      }
    }
    out_.send(*engine->peer, 0, HeartbeatAnswer{{}, std::move(cancelled), table_.drain});
  }
}

void Engines::drain() {
  table_.drain = true;
  for (const auto& [id, engine] : table_.all()) {
    if (engine.peer) out_.send(*engine.peer, 0, HeartbeatAnswer{{}, {}, true});
  }
}

}  // namespace millrace::broker
