#include "broker/server/server.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "broker/core/broker.hpp"
#include "broker/core/results.hpp"
#include "broker/core/submissions.hpp"
#include "broker/ledger/open_ledger.hpp"
#include "broker/server/authenticator.hpp"
#include "broker/server/job_traces.hpp"
#include "broker/server/ledger_client.hpp"
#include "broker/server/measuring.hpp"
#include "broker/server/sockets.hpp"
#include "broker/server/stranger_test.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/random_id.hpp"
#include "schemas/keys/keyring.hpp"

namespace millrace::broker {
namespace {

constexpr std::int64_t tick_us = 100'000;
constexpr std::size_t frames_a_turn = 64;

void log_note(const Note& note) {
  switch (note.level) {
    case NoteLevel::info:
      return log_info("broker", {{"what", note.text}});
    case NoteLevel::warning:
      return log_warn("broker", {{"what", note.text}});
    case NoteLevel::audit:
      return log_audit(note.text);
    case NoteLevel::error:
      return log_error("broker", {{"what", note.text}});
  }
}

Error has_ended() {
  return {Code::draining, "the broker has ended", {}};
}

}  // namespace

struct BrokerServer::State {
  explicit State(ServerOptions o) : options(std::move(o)) {}

  ServerOptions options;
  std::unique_ptr<Env> env = posix_env();
  SystemClock clock;
  net::Context context;
  std::unique_ptr<net::Waker> waker;
  std::unique_ptr<Authenticator> authenticator;  // none: there are no keys
  std::optional<Sockets> sockets;
  std::unique_ptr<LedgerClient> ledger_client;
  std::unique_ptr<Broker> core;
  std::optional<JobTraces> job_traces;  // none: nobody takes spans
  std::thread thread;
  std::string clients, engines, doorbell, push;  // as bound
  std::atomic<bool> running = false, read_keys = false;
  std::mutex joining;

  std::mutex mutex;             // guards the members below, and the end of `ledger_client`
  std::vector<Event> commands;  // from other threads
  Status result;
  ServerStatistics last;

  Status open();
  Status open_sockets(std::optional<std::vector<Grant>>& grants);
  Status test_strangers(const std::string& own);
  Status check_keys();
  void take_keys(std::vector<Event>& events);
  void run();
  Status loop();
  Status turn(net::Poller& poller);
  Status feed(Event event, std::vector<Event>& more);
  Status feed_all(std::vector<Event> events);
  Now now() const { return {clock.monotonic_us(), clock.wall_us()}; }
  void publish();
  void command(Event event) {
    {
      const std::lock_guard lock(mutex);
      commands.push_back(std::move(event));
    }
    waker->wake();
  }

  Status take_completed(std::vector<Event>& events);
  Measures measures() const;

  std::int64_t ticked_us = 0;
  Measuring measuring;
};

Status BrokerServer::State::open() {
  MILLRACE_TRY(check_endpoints(options));
  if (options.ledger.kind == LedgerPlace::Kind::memory) {
    log_warn("the ledger is in memory: acknowledged jobs are lost when the broker ends");
  }
  OpenLedgerOptions ledger_options;
  ledger_options.publish = published_end;
  ledger_options.read_columns = [match_kv = options.core.match_kv](const Body& job) {
    return columns_of(job, match_kv);
  };
  ledger_options.env = env.get();
  ledger_options.disk_marks = options.disk_marks;
  ledger_options.backups = options.backups;
  auto config = options.core;
  if (config.broker_id.empty()) config.broker_id = random_id();
  config.shares_ledger = options.ledger.kind == LedgerPlace::Kind::postgres;
  ledger_options.broker = config.broker_id;
  // Open the ledger before the sockets: who holds the ledger may take over the endpoints.
  MILLRACE_ASSIGN(auto ledger, open_ledger(options.ledger, std::move(ledger_options)));
  MILLRACE_ASSIGN(waker, net::Waker::create());
  MILLRACE_TRY(open_sockets(config.grants));
  clients = sockets->clients();
  engines = sockets->engines();
  doorbell = sockets->doorbell();
  push = sockets->push();
  config.doorbell = doorbell;
  config.push = !push.empty();
  config.tell_jobs = options.traces != nullptr;
  if (options.traces) job_traces.emplace(options.traces);
  core = std::make_unique<Broker>(std::move(config));
  LedgerThreadOptions thread_options;
  if (options.ledger.kind == LedgerPlace::Kind::postgres) {
    // A batch takes as many statements and round trips whatever its size.
    thread_options.commit_operations *= 4;
  }
  ledger_client = std::make_unique<LedgerClient>(
      std::move(ledger), [w = waker.get()] { w->wake(); }, std::move(thread_options));
  return {};
}

// Sets `grants` where there are keys.
Status BrokerServer::State::open_sockets(std::optional<std::vector<Grant>>& grants) {
  Security security;
  if (!options.keys.empty()) {
    MILLRACE_ASSIGN(auto keyring, Keyring::open(options.keys));
    if (keyring.grants().empty()) log_warn("no key may connect yet", {{"keys", options.keys}});
    security.curve = {keyring.own().public_key, keyring.own().secret_key, {}};
    security.grants = keyring.grants();
    grants = keyring.grants();
    MILLRACE_ASSIGN(authenticator, Authenticator::start(context, clock, std::move(keyring),
                                                        [w = waker.get()] { w->wake(); }));
  }
  MILLRACE_ASSIGN(auto opened, Sockets::open(context, options, security));
  sockets = std::move(opened);
  return authenticator ? test_strangers(security.curve.public_key) : Status();
}

Status BrokerServer::State::test_strangers(const std::string& own) {
  const KeyPair stranger = new_key_pair();
  authenticator->expect_stranger(stranger.public_key);
  for (const auto& [kind, endpoint] : {std::pair(net::Kind::dealer, sockets->clients()),
                                       std::pair(net::Kind::dealer, sockets->engines()),
                                       std::pair(net::Kind::sub, sockets->doorbell()),
                                       std::pair(net::Kind::push, sockets->push())}) {
    if (!endpoint.empty()) MILLRACE_TRY(refuses_strangers(kind, endpoint, stranger, own));
  }
  return sockets->forget_strangers(strangers_each);
}

// Ends the broker when nobody checks keys any more, and reads the list of keys when it has changed.
Status BrokerServer::State::check_keys() {
  if (!authenticator) return {};
  if (auto failure = authenticator->failure()) return fail(*std::move(failure));
  authenticator->refresh(read_keys.exchange(false));
  return sockets->check_strangers(clock.monotonic_us());
}

// A list that was read again comes before the messages that were received since then: some may be
// of peers that it has let in. A turn takes it once: of two lists the older would come last, and
// stay in force.
void BrokerServer::State::take_keys(std::vector<Event>& events) {
  auto grants = authenticator ? authenticator->take_change() : std::nullopt;
  if (!grants) return;
  sockets->replace_grants(*grants);
  events.insert(events.begin(), GrantsChanged{*std::move(grants)});
}

// Passes one event to the core and carries out the actions. Events that they cause go to `more`.
Status BrokerServer::State::feed(Event event, std::vector<Event>& more) {
  auto actions = core->handle(std::move(event), now());
  for (const auto& note : actions.notes) log_note(note);
  for (auto& request : actions.ledger) MILLRACE_TRY(ledger_client->post(std::move(request)));
  for (const auto& out : actions.messages)
    MILLRACE_TRY(sockets->send(out, clock.monotonic_us(), more));
  for (const auto& ring : actions.rings) MILLRACE_TRY(sockets->ring(ring));
  for (const auto& news : actions.jobs) job_traces->take(news, clock.wall_us());
  for (const auto& engine : actions.joined) {
    if (options.engine_joined) options.engine_joined(engine);
  }
  for (const auto& name : actions.hung) {
    if (options.engine_hung) options.engine_hung(name);
  }
  if (core->overdue()) ledger_client->give_up_soon();
  if (core->fatal()) return fail(*core->fatal());
  return {};
}

Status BrokerServer::State::feed_all(std::vector<Event> events) {
  std::vector<Event> more;  // peers that an answer could not reach
  for (auto& event : events) MILLRACE_TRY(feed(std::move(event), more));
  while (!more.empty()) {
    std::vector<Event> next;
    for (auto& event : more) MILLRACE_TRY(feed(std::move(event), next));
    more = std::move(next);
  }
  return {};
}

Status BrokerServer::State::turn(net::Poller& poller) {
  const auto tick_due_us = ticked_us + tick_us;
  const auto due_us = std::min(tick_due_us, sockets->waiting_due_us().value_or(tick_due_us));
  sockets->watch_push(poller, core->accepts_push());
  MILLRACE_TRY(poller.wait(
      std::clamp<std::int64_t>((due_us - clock.monotonic_us()) / 1000 + 1, 0, tick_us / 1000)));
  waker->drain();
  std::vector<Event> events;
  {
    const std::lock_guard lock(mutex);
    events.swap(commands);
  }
  MILLRACE_TRY(sockets->send_waiting(clock.monotonic_us(), events));
  MILLRACE_TRY(take_completed(events));
  MILLRACE_TRY(feed_all(std::exchange(events, {})));
  MILLRACE_TRY(sockets->receive(events, core->accepts_push(), frames_a_turn));
  if (clock.monotonic_us() - ticked_us >= tick_us) {
    ticked_us = clock.monotonic_us();
    MILLRACE_TRY(check_keys());
    events.push_back(Tick{});
  }
  take_keys(events);
  return feed_all(std::move(events));
}

Status BrokerServer::State::loop() {
  net::Poller poller;
  poller.add(*waker);
  sockets->watch(poller);
  MILLRACE_TRY(feed_all({Start{}}));
  while (!core->stopped()) {
    MILLRACE_TRY(turn(poller));
    publish();
  }
  MILLRACE_TRY(sockets->check_strangers(clock.monotonic_us()));
  publish();
  return {};
}

// Passes completions on: those of the core to it, those of the survey to those who measure.
Status BrokerServer::State::take_completed(std::vector<Event>& events) {
  MILLRACE_ASSIGN(auto completed, ledger_client->take());
  for (Completed& done : completed) {
    if (!Survey::owns(done.ticket)) {
      events.push_back(std::move(done));
      continue;
    }
    auto next = measuring.completed(done, [this] { return measures(); });
    if (next) MILLRACE_TRY(ledger_client->post(*std::move(next)));
  }
  if (auto first = measuring.begin()) return ledger_client->post(*std::move(first));
  return {};
}

Measures BrokerServer::State::measures() const {
  Measures out;
  out.now_us = clock.wall_us();
  out.core = core->counters();
  out.tally = core->tally();
  out.ledger = ledger_client->statistics();
  out.store = measure_store(options.ledger, *env);
  out.leased_tokens = core->leased_tokens();
  out.engine_sessions = core->engine_sessions();
  out.client_sessions = core->sessions() - out.engine_sessions;
  out.dropped_messages = sockets->dropped();
  out.refused_handshakes = sockets->refused();
  if (authenticator) out.refused_keys = authenticator->refused();
  if (options.traces) {
    const trace::ExportCounts spans = options.traces->counts();
    out.spans_sent = spans.sent;
    out.spans_dropped = spans.dropped;
  }
  return out;
}

void BrokerServer::State::publish() {
  const std::lock_guard lock(mutex);
  last.core = core->counters();
  last.sessions = core->sessions();
  last.dropped_messages = sockets->dropped();
  if (authenticator) last.refused_connections = sockets->refused() + authenticator->refused();
}

void BrokerServer::State::run() {
  auto status = loop();
  if (!status) {
    log_error("the broker must stop", status.error());
    std::vector<Event> unreachable;
    (void)feed(CutShort{}, unreachable);
  }
  ledger_client->stop();  // carries out all posted operations
  sockets.reset();        // closes them; sent messages still go out within their linger time
  authenticator.reset();
  {
    const std::lock_guard lock(mutex);
    result = std::move(status);
    last.ledger = ledger_client->statistics();
    ledger_client.reset();  // frees the ledger for the next broker
  }
  running = false;
  measuring.refuse(has_ended());
  if (options.ended) options.ended();
}

Result<std::unique_ptr<BrokerServer>> BrokerServer::start(ServerOptions options) {
  auto state = std::make_unique<State>(std::move(options));
  MILLRACE_TRY(state->open());
  state->running = true;
  state->thread = std::thread([s = state.get()] { s->run(); });
  return std::unique_ptr<BrokerServer>(new BrokerServer(std::move(state)));
}

BrokerServer::BrokerServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

BrokerServer::~BrokerServer() {
  if (const auto stopped = stop(); !stopped) {
    log_error("the broker stopped with an error", stopped.error());
  }
}

void BrokerServer::drain(bool engines) {
  state_->command(Drain{engines});
}

void BrokerServer::retune(CoreTuning tuning) {
  state_->read_keys = true;
  state_->command(Retune{std::move(tuning)});
}

void BrokerServer::engine_died(const std::string& engine) {
  state_->command(EngineDied{engine});
}

bool BrokerServer::running() const {
  return state_->running;
}

std::string BrokerServer::clients() const {
  return state_->clients;
}
std::string BrokerServer::engines() const {
  return state_->engines;
}
std::string BrokerServer::doorbell() const {
  return state_->doorbell;
}
std::string BrokerServer::push() const {
  return state_->push;
}

Status BrokerServer::wait() {
  const std::lock_guard joining(state_->joining);
  if (state_->thread.joinable()) state_->thread.join();
  const std::lock_guard lock(state_->mutex);
  return state_->result;
}

Status BrokerServer::stop() {
  state_->command(Drain{.engines = false, .at_once = true});
  return wait();
}

ServerStatistics BrokerServer::statistics() const {
  const std::lock_guard lock(state_->mutex);
  auto statistics = state_->last;
  if (state_->ledger_client) statistics.ledger = state_->ledger_client->statistics();
  return statistics;
}

void BrokerServer::measure(Measured then) {
  state_->measuring.want(std::move(then));
  if (state_->running) return state_->waker->wake();
  state_->measuring.refuse(has_ended());
}

}  // namespace millrace::broker
