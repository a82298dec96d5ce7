#include "broker/core/outbox.hpp"

namespace millrace::broker {

void Outbox::send(const Peer& peer, std::uint64_t id, Message message) {
  if (peer.endpoint == Endpoint::push) return;  // one-way
  actions_.messages.push_back({peer, Envelope{id, std::move(message)}});
}

void Outbox::refuse(const Peer& peer, std::uint64_t id, Error error) {
  ++counters_.refused;
  send(peer, id, Refused{std::move(error)});
}

void Outbox::ask(std::vector<Operation> operations, Continuation then) {
  if (operations.empty()) return then({});
  const auto ticket = next_ticket_++;
  continuations_.emplace(ticket, std::move(then));
  actions_.ledger.push_back({ticket, std::move(operations)});
}

void Outbox::ask_one(Operation operation, std::function<void(Result<Reply>)> then) {
  std::vector<Operation> operations;
  operations.push_back(std::move(operation));
  ask(std::move(operations),
      [then = std::move(then)](Replies replies) { then(std::move(replies.front())); });
}

void Outbox::ring(Ring ring) {
  actions_.rings.push_back(std::move(ring));
}

void Outbox::note(NoteLevel level, std::string text) {
  actions_.notes.push_back({level, std::move(text)});
}

std::uint64_t Outbox::begin_audit(std::string who, std::string request) {
  audited_.emplace(next_audit_, Audited{std::move(who), std::move(request)});
  return next_audit_++;
}

void Outbox::end_audit(std::uint64_t number, const std::string& outcome, const std::string& more) {
  const auto found = audited_.find(number);
  if (found == audited_.end()) return;
  const auto& [who, request] = found->second;
  note(NoteLevel::audit,
       who + ": " + outcome + ": " + request + (more.empty() ? "" : " (" + more + ")"));
  audited_.erase(found);
}

void Outbox::end_audits(const std::string& outcome) {
  while (!audited_.empty()) end_audit(audited_.begin()->first, outcome);
}

void Outbox::joined(EngineInfo engine) {
  actions_.joined.push_back(std::move(engine));
}

void Outbox::hung(std::string engine) {
  actions_.hung.push_back(std::move(engine));
}

void Outbox::complete(Completed completed) {
  const auto found = continuations_.find(completed.ticket);
  if (found == continuations_.end()) return;
  // Remove the continuation before it runs: it may ask the ledger again.
  auto then = std::move(found->second);
  continuations_.erase(found);
  then(std::move(completed.replies));
}

Error reply_error(const Result<Reply>& reply) {
  if (!reply) return reply.error();
  return {Code::internal, "the ledger answered with a reply of another kind",
          "please report it with the broker's log"};
}

}  // namespace millrace::broker
