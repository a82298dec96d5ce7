#pragma once
// Hands jobs to engines, as many as their credit allows. Each hand-out is a claim in the ledger for
// one tenant, or for all that wait, where the engine works for every tenant: they share what the
// engines of one model take (fair_share.hpp). The jobs of the reply are sent as leases. Where a
// claim found nothing, the engine claims for that tenant again when its generation has grown: when
// jobs were queued. A tenant that holds as many leases as it may gets none until one of them has
// ended.
//
// Engines of one model share what is ready (ClaimReply): all have their part as long as much is,
// and at its end each takes what it would end no later than the others (speed_share.hpp).
//
// The last jobs of a closed batch or of a tenant go out by their cost, longest first, once they are
// no more than the engines of a model could hold at once (broker/ledger/tails.hpp).
//
// An engine that holds nothing gets suspects first: one group of them, and then other jobs beside
// it, unless the suspect has to run alone. An engine at work gets a group only where suspects have
// waited for group_wait_ms, and never a second one beside the first. For a suspect that has to run
// alone and has waited for suspect_wait_ms, one engine is kept free. An engine that brings leases
// of another broker gets nothing until this one has read what they are: it may have to run one of
// them alone. Thread safety: none.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/doorbell.hpp"
#include "broker/core/engine_table.hpp"
#include "broker/core/fair_share.hpp"
#include "broker/core/outbox.hpp"

namespace millrace::broker {

class Dispatcher {
 public:
  Dispatcher(Outbox& out, const CoreConfig& config, EngineTable& engines, Doorbell& doorbell)
      : out_(out), config_(config), engines_(engines), doorbell_(doorbell) {}

  void open() { open_ = true; }
  void close() { open_ = false; }  // ends all hand-outs

  // So many of the tenant's jobs are ready that were not before (none: nobody knows how many):
  // claims again for engines that found no work.
  void work_arrived(const std::string& tenant, std::optional<std::uint64_t> jobs = {});
  void paused(const std::string& tenant, std::uint64_t ready);  // so many jobs are ready still
  void suspects_arrived(const std::string& tenant);             // the same for suspects
  void offer(Engine& engine);  // hands out what the engine's state and credit allow
  void lease_ended(const std::string& tenant);
  // Takes what all queues hold; may keep an engine free for a suspect that waits long. Claims again
  // where jobs are queued: another broker on this ledger may have queued them.
  void count(const std::vector<TenantInfo>& tenants);

 private:
  struct Queues {  // of a tenant
    // Generations: incremented whenever jobs, or suspects, were queued. 0: there were none yet.
    std::uint64_t work = 0, suspects = 0;
    std::uint64_t suspects_counted = 0;
    std::int64_t suspects_raised_us = 0;
    bool at_limit = false;                     // it holds as many leases as it may
    std::optional<std::uint64_t> ready;        // its jobs that are, as far as it is known
    std::vector<SuspectQueue> overdue_groups;  // at the last count
  };
  struct Overdue {  // suspects that have to run alone and wait too long
    std::string tenant, model, kv;
  };
  struct Search {  // a claim on its way
    std::string engine;
    ClaimFrom from = ClaimFrom::jobs;
    std::vector<std::pair<std::string, std::uint64_t>> tenants;  // with their generations
    FairShare* share = nullptr;  // of the engines for every tenant; null: it is none of them
    SharesAsked asked{};         // without shares: one tenant waits alone
    std::uint64_t entry = 0;     // of the engine; set by `ask`
  };

  void offer_all();
  bool can_claim(const Engine& engine) const;
  bool may_have(const Engine& engine, const std::string& tenant, ClaimFrom from) const;
  const std::string* next_tenant(const Engine& engine, ClaimFrom from) const;
  std::vector<const std::string*> waiting(const Engine& engine) const;
  std::optional<std::uint64_t> ready_for(const Engine& engine) const;
  bool shares_with(const Engine& engine, const Engine& other) const;
  std::uint32_t share_in_turn(const Engine& engine) const;
  std::optional<std::uint32_t> share_by_speed(const Engine& engine) const;
  std::uint32_t wanted_jobs(const Engine& engine, ClaimFrom from) const;
  std::uint32_t tail_jobs(const Engine& engine) const;
  Claim claim_for(const Engine& engine, ClaimFrom from) const;
  void claim(Engine& engine, const std::string& tenant, ClaimFrom from);
  void claim_shared(Engine& engine, std::span<const std::string* const> tenants);
  void ask(Engine& engine, Search search, Operation claim);
  void claimed(const Search& search, Result<Reply> reply);
  void settle(const Search& search, const ClaimReply& got, Engine* engine);
  void send(Engine& engine, std::vector<ClaimedJob> jobs);
  void count_hand_out(const ClaimedJob& job);
  void return_unsent(const std::string& engine, const std::vector<ClaimedJob>& jobs);
  void count_suspects(const TenantInfo& tenant, std::vector<Overdue>& overdue);
  void reserve_one(std::vector<Overdue> overdue);

  Outbox& out_;
  const CoreConfig& config_;
  EngineTable& engines_;
  Doorbell& doorbell_;
  bool open_ = false;
  std::map<std::string, Queues> queues_;     // by tenant
  std::map<std::string, FairShare> shares_;  // by model, of the engines for every tenant
};

}  // namespace millrace::broker
