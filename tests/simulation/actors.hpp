#pragma once
// The clients and engines of the simulation, in their simplest correct form. They send into `Wire`,
// receive what arrives, and retry as real clients and engines do.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "broker/core/events.hpp"
#include "schemas/codec.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/plan.hpp"

namespace millrace::broker::simulation {

using Wire = std::function<void(std::size_t broker, const Peer&, Envelope)>;

// The broker that a client or an engine uses: one of several at a time, and the next one when it is
// silent or says goodbye.
class Endpoints {
 public:
  Endpoints(std::size_t brokers, std::size_t first) : brokers_(brokers), at_(first % brokers) {}
  std::size_t at() const { return at_; }
  void heard(std::int64_t now_us) { heard_us_ = now_us; }
  bool is_silent(std::int64_t now_us) const {
    return brokers_ > 1 && now_us - heard_us_ > 5 * second;
  }
  // Whether there is another one.
  bool next(std::int64_t now_us) {
    at_ = (at_ + 1) % brokers_;
    heard_us_ = now_us;
    return brokers_ > 1;
  }

 private:
  std::size_t brokers_, at_;
  std::int64_t heard_us_ = 0;
};

inline constexpr std::uint32_t most_held = 6;  // jobs that an engine holds

// What the checker needs to know about the run.
struct Record {
  std::set<std::string> acknowledged;          // jobs that a client was told are stored
  std::map<std::string, std::string> tenants;  // by job: whose it is
  std::set<std::string> cancelled;             // jobs that their own tenant asked to cancel
  std::uint64_t queue_full = 0;                // times that a tenant's queue took no job
  std::uint64_t turns = 0;                     // of clients and engines to another broker
  // Ask the ledger at the moment when a client or an engine gets an answer.
  std::function<bool(const std::string&job)> is_stored, has_ended;
  std::function<bool(LeaseId, const std::string& job)> is_current;
  std::function<bool()> calm;         // nothing is paused any more, so that all can finish
  std::function<bool()> may_be_full;  // whether the disk may have refused a job
  std::vector<std::string> violations;
  std::uint64_t engine_deaths = 0;
  std::map<std::string, std::uint64_t> deaths_by;  // engine deaths by the job that caused them
};

// Submits its jobs, several in a message, until each is answered, and reads the stream of its
// tenant to the end.
class SimClient {
 public:
  SimClient(const Plan& plan, std::size_t place, std::string tenant, std::vector<Body> jobs,
            Clock& clock, Dice& dice, Wire wire, Record& record)
      : peer_{Endpoint::client, "client-" + std::to_string(place)},
        endpoints_(plan.brokers, place),
        plan_(plan),
        tenant_(std::move(tenant)),
        waiting_(std::move(jobs)),
        clock_(clock),
        dice_(dice),
        wire_(std::move(wire)),
        record_(record) {}

  void start() { tick(); }
  bool done(std::size_t jobs_of_tenant) const {
    return waiting_.empty() && read_.size() >= jobs_of_tenant;
  }
  const std::string& tenant() const { return tenant_; }
  const std::map<std::string, int>& read() const { return read_; }
  const Peer& peer() const { return peer_; }
  std::size_t broker() const { return endpoints_.at(); }
  void turn();  // to the next broker
  void receive(const Envelope& envelope);

 private:
  void tick();
  void hello();
  void submit();
  void fetch();
  void cancel();
  void pause_or_resume();
  void submitted(const Submitted& answer, std::uint64_t id);
  void data(const Data& data);

  bool may_be_refused(Code code) const;

  void send(std::uint64_t id, Message message) {
    wire_(endpoints_.at(), peer_, {id, std::move(message)});
  }

  Peer peer_;
  Endpoints endpoints_;
  const Plan& plan_;
  const std::string tenant_;
  std::vector<Body> waiting_;
  Clock& clock_;
  Dice& dice_;
  Wire wire_;
  Record& record_;
  bool welcome_ = false;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::vector<Body>> asked_;
  std::uint64_t next_number_ = 1;
  std::string epoch_;
  std::map<std::string, int> read_;  // how often each job was seen in the stream
};

// Holds `slots_` leased jobs and computes `rows_` of them at a time, a few steps each. It tells the
// broker which of them wait. It dies of jobs whose id begins with "kill".
class SimEngine {
 public:
  SimEngine(const Plan& plan, std::size_t place, Clock& clock, Dice& dice, Wire wire,
            Record& record)
      : peer_{Endpoint::engine, "engine-" + std::to_string(place)},
        endpoints_(plan.brokers, place),
        name_(peer_.route),
        clock_(clock),
        dice_(dice),
        wire_(std::move(wire)),
        record_(record) {}

  void start() { tick(); }
  const Peer& peer() const { return peer_; }
  std::size_t broker() const { return endpoints_.at(); }
  void turn();  // to the next broker
  const std::string& name() const { return name_; }
  bool dead() const { return dead_; }
  // Counts its connections. What either side sent on an earlier one never comes, where it can turn.
  std::uint32_t connection() const { return connection_; }
  bool holds(LeaseId lease) const { return running_.contains(lease) || ended_.contains(lease); }
  void receive(const Envelope& envelope);
  void die();   // without a goodbye
  void hang();  // sends heartbeats but makes no steps, until its supervisor ends it
  void freeze_us(std::int64_t us) { frozen_until_us_ = clock_.now_us() + us; }
  void reconnect();  // the same process with another route
  void leave();      // goodbye

 private:
  struct Running {
    std::string job;
    int steps_left = 1;
    bool cancelled = false;
    bool begun = false;
  };
  void tick();
  void begin_jobs();
  void hold(std::uint64_t prefix);
  void step();
  void heartbeat();
  void send_ends();
  std::uint32_t credit() const {
    return running_.size() >= slots_ ? 0 : slots_ - static_cast<std::uint32_t>(running_.size());
  }

  static constexpr std::uint32_t slots_ = most_held;
  static constexpr std::uint32_t rows_ = 4;

  void send(std::uint64_t id, Message message) {
    wire_(endpoints_.at(), peer_, {id, std::move(message)});
  }

  Peer peer_;
  Endpoints endpoints_;
  std::string name_;
  Clock& clock_;
  Dice& dice_;
  Wire wire_;
  Record& record_;
  bool welcome_ = false, dead_ = false, hanging_ = false;
  // Its connection may lose messages, which those of real engines do not: so it asks for jobs only
  // where a heartbeat has arrived.
  bool counted_ = false;
  int route_ = 0;
  std::uint32_t connection_ = 0;
  std::int64_t frozen_until_us_ = 0, beat_us_ = 0;
  std::uint64_t steps_ = 0;
  std::map<LeaseId, Running> running_;
  std::map<LeaseId, std::pair<std::string, JobState>> ended_;  // not yet committed
  std::vector<std::uint64_t> prefixes_;                        // that it holds, the last one last
  std::set<LeaseId> seen_;  // runs a lease that comes twice only once
};

}  // namespace millrace::broker::simulation
