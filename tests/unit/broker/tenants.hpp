#pragma once
// A world with two tenants, whose keys have some roles each.
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {

inline Grant grant_to(const std::string& name, const std::string& tenant, KeyRoles roles) {
  return {name, tenant, roles, "key of " + name};
}

// Two tenants, each with a client of all client roles and an engine, and one engine for both.
struct Tenants : World {
  Tenants() : Tenants(CoreConfig()) {}
  explicit Tenants(const CoreConfig& limits) : World(keyed(limits)) {
    for (const std::string name : {"a", "b", "reader", "submitter"}) {
      keys[client(name)] = "key of " + name;
    }
    for (const std::string name : {"engine-a", "engine-b", "engine-all"}) {
      keys[engine(name)] = "key of " + name;
    }
    join_client("a");
    join_client("b");
  }
  static std::vector<Grant> grants() {
    using enum KeyRole;
    return {grant_to("a", "A", {submit, read}), grant_to("b", "B", {submit, read}),
            grant_to("reader", "A", {read}),    grant_to("submitter", "A", {submit}),
            grant_to("engine-a", "A", {work}),  grant_to("engine-b", "B", {work}),
            grant_to("engine-all", "*", {work})};
  }
  static CoreConfig config(std::vector<Grant> grants) {
    CoreConfig config;
    config.grants = std::move(grants);
    return config;
  }
  static CoreConfig keyed(const CoreConfig& limits) {
    CoreConfig config = limits;
    config.grants = grants();
    return config;
  }
  std::vector<SubmitAnswer> submit_as(const std::string& name, std::vector<Body> jobs) {
    say(client(name), Submit{std::move(jobs)}, 7);
    auto answers = take<Submitted>(client(name));
    return answers.empty() ? std::vector<SubmitAnswer>{} : std::move(answers.back().answers);
  }
  template <class Answer>
  Answer ask_as(const std::string& name, Message message) {
    say(client(name), std::move(message), 8);
    auto answers = take<Answer>(client(name));
    EXPECT_EQ(answers.size(), 1u) << name;
    return answers.empty() ? Answer{} : std::move(answers.front());
  }
  // Submits a job as this tenant, and has its own engine complete it.
  void complete(const std::string& who, const std::string& id) {
    submit_as(who, {job_body(id, "*")});
    join_engine("engine-" + who, 1);
    for (const Lease& lease : leases("engine-" + who)) {
      say(engine("engine-" + who), Ends{{completed(lease.lease)}}, 3);
    }
  }
};

inline Fetch fetch_from(const std::string& stream) {
  Fetch fetch;
  fetch.stream = stream;
  return fetch;
}

}  // namespace millrace::broker::testing
