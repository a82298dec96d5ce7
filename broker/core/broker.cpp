#include "broker/core/broker.hpp"

#include <map>
#include <utility>

#include "broker/core/audit_text.hpp"
#include "broker/core/overloaded.hpp"
#include "broker/core/results.hpp"

namespace millrace::broker {
namespace {

Error say_hello_first() {
  return {Code::unexpected_message, "no session is open on this connection",
          "send hello first, and again after each such answer: the broker may have restarted"};
}

}  // namespace

Broker::Broker(CoreConfig config)
    : config_(std::move(config)),
      access_(out_, config_.grants),
      sessions_(out_, config_),
      answers_(out_, sessions_),
      doorbell_(out_, config_),
      models_(out_),
      dispatcher_(out_, config_, table_, doorbell_),
      reclaimer_(out_, config_, table_, sessions_, dispatcher_, doorbell_),
      engines_(out_, config_, table_, sessions_, models_, dispatcher_, reclaimer_, doorbell_),
      others_(out_, config_, models_, dispatcher_, engines_, reclaimer_, doorbell_),
      submissions_(out_, config_, sessions_, models_, table_, doorbell_,
                   [this](const std::string& tenant, std::uint64_t jobs) {
                     dispatcher_.work_arrived(tenant, jobs);
                   }),
      readers_(out_, sessions_),
      requests_(out_, sessions_, table_),
      job_requests_(out_, sessions_, table_, engines_, dispatcher_, doorbell_),
      batch_requests_(out_, sessions_, doorbell_),
      pause_requests_(out_, sessions_, models_,
                      [this](const std::string& tenant, bool paused, const PauseReply& reply) {
                        pause_changed(tenant, paused, reply);
                      }),
      stream_requests_(out_, sessions_, config_),
      retainer_(out_, config_),
      backups_(out_, sessions_) {
  out_.tell_jobs(config_.tell_jobs);
}

Actions Broker::handle(Event event, Now now) {
  out_.begin(now);
  std::visit(Overloaded{
                 [this](Start&) { start(); },
                 [this](Received& e) { received(std::move(e)); },
                 [this](Malformed& e) { malformed(std::move(e)); },
                 [this](PeerGone& e) { peer_gone(e); },
                 [this](Stalled& e) { readers_.stalled(e.peer, e.on); },
                 [this](Completed& e) { out_.complete(std::move(e)); },
                 [this](Tick&) { tick(); },
                 [this](Drain& e) { drain(e); },
                 [this](CutShort&) { cut_short(); },
                 [this](GrantsChanged& e) { replace_grants(e.grants); },
                 [this](Retune& e) { static_cast<CoreTuning&>(config_) = std::move(e.tuning); },
                 [this](EngineDied& e) { reclaimer_.died_by_name(e.engine); },
             },
             event);
  if (draining_) check_drained();
  doorbell_.flush();
  return out_.take();
}

void Broker::start() {
  swept_us_ = out_.now().mono_us;
  recovering_ = 1;
  others_.join([this] { recover(); });
}

void Broker::recover() {
  recovering_ = 2;
  const auto one_done = [this] {
    if (--recovering_ == 0) recovered();
  };
  reclaimer_.recover(one_done);
  count_queues([this, one_done](const std::vector<TenantInfo>& tenants) {
    std::vector<std::string> names;
    for (const TenantInfo& tenant : tenants) names.push_back(tenant.tenant);
    models_.recover(std::move(names), one_done);
  });
}

// Asks the ledger what the queues of all tenants hold, and tells the dispatcher.
void Broker::count_queues(std::function<void(const std::vector<TenantInfo>&)> then) {
  out_.ask_one(ListTenants{}, [this, then = std::move(then)](Result<Reply> reply) {
    const auto* r = reply_as<ListTenantsReply>(reply);
    if (r == nullptr) {
      out_.note(NoteLevel::error, "counting jobs failed: " + reply_error(reply).text());
      return then({});
    }
    dispatcher_.count(r->tenants);
    then(r->tenants);
  });
}

void Broker::recovered() {
  if (!draining_) dispatcher_.open();
  for (auto& event : std::exchange(early_, {})) received(std::move(event));
  early_bytes_ = 0;
}

void Broker::received(Received event) {
  if (stopped_) return;
  if (!ready()) {
    if (early_.size() < early_messages && early_bytes_ + event.bytes <= early_bytes) {
      early_bytes_ += event.bytes;
      return early_.push_back(std::move(event));
    }
    return out_.refuse(
        event.peer, event.envelope.id,
        {Code::overloaded, "the broker is still starting", "try again", limits::retry_start_ms});
  }
  message(std::move(event));
}

void Broker::message(Received event) {
  auto& [peer, envelope, bytes, key] = event;
  const Grant* who = access_.find(key);
  if (auto allowed = access_.check(who, peer.endpoint, envelope.message); !allowed) {
    return out_.refuse(peer, envelope.id, std::move(allowed.error()));
  }
  if (peer.endpoint == Endpoint::push) {
    return push_message(who->tenant, std::move(envelope.message));
  }
  if (const auto* greeting = std::get_if<Hello>(&envelope.message)) {
    if (bytes > limits::hello_bytes) {
      return out_.refuse(peer, envelope.id,
                         {Code::too_large,
                          "hello: " + std::to_string(bytes) + " bytes, the limit is " +
                              std::to_string(limits::hello_bytes),
                          "give shorter names, and fewer of them"});
    }
    return hello(peer, envelope.id, *greeting, *who);
  }
  if (sessions_.heard(peer, key) == nullptr) {
    return out_.refuse(peer, envelope.id, say_hello_first());
  }
  if (std::holds_alternative<Goodbye>(envelope.message)) return goodbye(peer);
  if (peer.endpoint == Endpoint::client) {
    const bool only_asks = backups_.is_asked_how_far(envelope.message);
    const std::uint64_t audited = only_asks ? 0 : answers_.begin_audit(*who, envelope.message);
    client_message({peer, envelope.id, who->tenant, audited, who->roles.has(KeyRole::operate)},
                   std::move(envelope.message));
  } else {
    engine_message(peer, envelope.id, std::move(envelope.message));
  }
}

void Broker::client_message(const Asker& asker, Message message) {
  std::visit(Overloaded{
                 [&](Submit& m) {
                   if (draining_) {
                     return out_.refuse(
                         asker.peer, asker.id,
                         {Code::draining, "the broker is stopping and takes no new jobs",
                          "send them again when it is back", limits::retry_start_ms});
                   }
                   submissions_.submit(asker, std::move(m));
                 },
                 [&](Fetch& m) { readers_.fetch(asker, std::move(m)); },
                 [&](Watch& m) { requests_.watch(asker, std::move(m)); },
                 [&](Acknowledge& m) { requests_.acknowledge(asker, std::move(m)); },
                 [&](Cancel& m) { job_requests_.cancel(asker, std::move(m)); },
                 [&](Retry& m) { job_requests_.retry(asker, std::move(m)); },
                 [&](Drop& m) { job_requests_.drop(asker, std::move(m)); },
                 [&](JobsRequest& m) { job_requests_.jobs(asker, std::move(m)); },
                 [&](BatchesRequest& m) { batch_requests_.batches(asker, std::move(m)); },
                 [&](ChangeBatch& m) { batch_requests_.change(asker, std::move(m)); },
                 [&](ChangePause& m) { pause_requests_.change(asker, m); },
                 [&](StatusRequest& m) {
                   StatusAnswer answer;
                   answer.draining = draining_;
                   answer.refuses = submissions_.disk_full();
                   requests_.status(asker, std::move(m), std::move(answer));
                 },
                 [&](StreamsRequest& m) { stream_requests_.streams(asker, std::move(m)); },
                 [&](CursorsRequest& m) { stream_requests_.cursors(asker, m); },
                 [&](Trim& m) { stream_requests_.trim(asker, std::move(m)); },
                 [&](Keep& m) { stream_requests_.keep(asker, std::move(m)); },
                 [&](Remove& m) { stream_requests_.remove(asker, std::move(m)); },
                 [&](BackupRequest& m) { backups_.request(asker, std::move(m)); },
                 [&](DrainRequest& m) {
                   answers_.answer_at_once(asker, DrainAnswer{config_.drain_wait_ms});
                   drain({.engines = m.engines});
                 },
                 [&](auto&) { refuse_unexpected(asker.peer, asker.id, message); },
             },
             message);
}

void Broker::engine_message(const Peer& peer, std::uint64_t id, Message message) {
  Engine* engine = table_.at(peer);
  if (engine == nullptr) return out_.refuse(peer, id, say_hello_first());
  engine->heard_us = out_.now().mono_us;
  std::visit(Overloaded{
                 [&](Ready& m) { engines_.ready(*engine, m); },
                 [&](Heartbeat& m) { engines_.heartbeat(*engine, id, m); },
                 [&](Begun& m) { engines_.begun(*engine, m); },
                 [&](Ends& m) { engines_.ends(*engine, id, std::move(m)); },
                 [&](Release& m) { engines_.release(*engine, m); },
                 [&](Partials& m) { engines_.partials(*engine, std::move(m)); },
                 [&](auto&) { refuse_unexpected(peer, id, message); },
             },
             message);
}

void Broker::push_message(const std::string& tenant, Message message) {
  if (auto* submit = std::get_if<Submit>(&message)) {
    if (submit->jobs.size() <= limits::jobs_per_submit)
      return submissions_.push(tenant, std::move(*submit));
    ++out_.counters().refused;
    return submissions_.reject(
        tenant, {}, {},
        {Code::limit_exceeded,
         "submit: " + std::to_string(submit->jobs.size()) + " jobs in one message, the limit is " +
             std::to_string(limits::jobs_per_submit),
         "send them in several messages"});
  }
  ++out_.counters().refused;
  submissions_.reject(tenant, {}, {},
                      {Code::unexpected_message, "the push endpoint accepts submit only",
                       "connect to the client endpoint for anything else"});
}

void Broker::refuse_unexpected(const Peer& peer, std::uint64_t id, const Message&) {
  const bool client = peer.endpoint == Endpoint::client;
  out_.refuse(
      peer, id,
      {Code::unexpected_message,
       client ? "a message that clients do not send" : "a message that engines do not send",
       client ? "clients send submit, fetch, watch, acknowledge, cancel, retry, drop, "
                "status_request, jobs_request, batches_request, change_batch, change_pause, "
                "streams_request, cursors_request, trim, keep, remove, backup_request, "
                "drain_request"
              : "engines send ready, heartbeat, begun, ends, release, partials"});
}

void Broker::hello(const Peer& peer, std::uint64_t id, const Hello& hello, const Grant& who) {
  // Without an instance the broker could not tell an engine that died and was started again from
  // one that reconnected, and would never blame the job that killed it.
  if (peer.endpoint == Endpoint::engine && hello.instance.empty()) {
    return out_.refuse(peer, id,
                       {Code::missing_field, "hello: the engine names no instance",
                        "give instance, a random id of the process"});
  }
  if (peer.endpoint == Endpoint::engine) engines_.before_hello(peer, hello, who);
  if (auto opened = sessions_.open(peer, hello, who); !opened) {
    return out_.refuse(peer, id, std::move(opened.error()));
  }
  out_.send(peer, id, sessions_.welcome(peer.endpoint, who));
  if (peer.endpoint == Endpoint::engine) engines_.hello(peer, hello, who);
}

void Broker::goodbye(const Peer& peer) {
  if (const Engine* engine = table_.at(peer)) reclaimer_.leave(std::string(engine->id));
  sessions_.close(peer);
}

void Broker::malformed(Malformed event) {
  ++out_.counters().malformed;
  if (event.peer.endpoint == Endpoint::push) {
    const Grant* who = access_.find(event.key);
    if (ready() && who != nullptr) {
      submissions_.reject(who->tenant, {}, {}, std::move(event.error));
    }
    return;
  }
  out_.refuse(event.peer, event.id, std::move(event.error));
}

void Broker::peer_gone(const PeerGone& gone) {
  const Peer& peer = gone.peer;
  if (const Session* session = gone.unread ? sessions_.find(peer) : nullptr) {
    out_.note(NoteLevel::warning,
              "the client " + session->name + " of tenant " + session->tenant +
                  " does not read its answers: its session ends, its waiting answers are dropped");
  }
  // An engine may come back on another connection: its leases stay live until they lapse.
  if (peer.endpoint == Endpoint::engine) table_.disconnect(peer);
  sessions_.close(peer);
  readers_.tick();
}

void Broker::tick() {
  if (!ready()) return;
  doorbell_.tick();
  sessions_.tick();
  readers_.tick();
  submissions_.tick();
  retainer_.tick();
  others_.tick();
  if (out_.now().mono_us - swept_us_ >= 1000 * std::int64_t{config_.sweep_ms}) sweep();
}

// Ends the sessions of keys that are gone or may do other things now. Jobs that a revoked engine
// holds go back to the queue without blame.
void Broker::replace_grants(const std::vector<Grant>& grants) {
  std::map<Peer, Grant> before;
  for (const auto& [peer, session] : sessions_.all()) {
    if (const Grant* grant = access_.find(session.key)) before[peer] = *grant;
  }
  for (const std::string& change : access_.replace(grants)) {
    out_.note(NoteLevel::audit, "the list of keys: " + change);
  }
  std::size_t ended = 0;
  for (const auto& [peer, grant] : before) {
    const Grant* now = access_.find(grant.key);
    if (now != nullptr && *now == grant) continue;
    out_.send(peer, 0, Goodbye{"what the key of this connection may do was changed or revoked"});
    goodbye(peer);
    ++ended;
  }
  out_.note(NoteLevel::info, "the list of keys was read: " + std::to_string(grants.size()) +
                                 " keys may connect, " + std::to_string(ended) + " sessions ended");
}

void Broker::drain(const Drain& how) {
  drain_at_once_ = drain_at_once_ || how.at_once;
  if (how.engines) engines_.drain();
  if (std::exchange(draining_, true)) return;
  drain_us_ = out_.now().mono_us;
  dispatcher_.close();
  retainer_.close();
  backups_.close();
  submissions_.drain();
  out_.note(NoteLevel::info, "draining: the broker takes no new jobs and hands out none");
}

void Broker::check_drained() {
  if (stopped_) return;
  overdue_ = drain_at_once_ ||
             out_.now().mono_us - drain_us_ >= 1000 * std::int64_t{config_.drain_wait_ms};
  if (!submissions_.idle() || !engines_.idle()) return;
  for (const auto& [id, engine] : table_.all()) {
    const bool busy = engine.claiming || (engine.joined && !engine.leases.empty());
    if (busy && !overdue_) return;
  }
  if (ready() && out_.waiting() > 0 && !overdue_) return;
  if (others_.beating() && !overdue_) return;  // else it could count after the broker has left
  say_goodbye("the broker is stopping; its queue is on disk");
  others_.leave();
}

// What waits for a commit gets no answer any more, so nobody takes it for stored.
void Broker::cut_short() {
  if (stopped_) return;
  submissions_.tell_unanswered();
  engines_.tell_uncommitted();
  say_goodbye("the broker had to stop; what it has not acknowledged may not be stored");
}

void Broker::say_goodbye(const std::string& reason) {
  for (const auto& [peer, session] : sessions_.all()) out_.send(peer, 0, Goodbye{reason});
  out_.end_audits("no answer before the broker stopped");
  stopped_ = true;
}

}  // namespace millrace::broker
