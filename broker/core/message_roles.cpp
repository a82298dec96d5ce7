#include "broker/core/message_roles.hpp"

#include <variant>

#include "broker/core/overloaded.hpp"

namespace millrace::broker {
namespace {

// What admin may do because submit or read may is not named here: KeyRoles::sufficient() adds it.
KeyRoles needed_of_clients(const Message& message) {
  using enum KeyRole;
  return std::visit(
      Overloaded{
          [](const Hello&) {
            return KeyRoles{submit, read, operate};
          },
          [](const Goodbye&) {
            return KeyRoles{submit, read, operate};
          },
          [](const BackupRequest&) { return KeyRoles{operate}; },
          [](const DrainRequest&) { return KeyRoles{operate}; },
          // Without a name it has counts and engines alone: an operator sees that the broker works.
          [](const StatusRequest& one) {
            const bool named = !one.job.empty() || !one.stream.empty() || !one.batch.empty();
            return named ? KeyRoles{submit, read} : KeyRoles{submit, read, operate};
          },
          [](const JobsRequest&) {
            return KeyRoles{submit, read};
          },
          [](const BatchesRequest&) {
            return KeyRoles{submit, read};
          },
          [](const ChangeBatch&) { return KeyRoles{submit}; },
          [](const ChangePause&) { return KeyRoles{submit}; },
          [](const Drop&) { return KeyRoles{submit}; },
          [](const Submit&) { return KeyRoles{submit}; },
          [](const Cancel&) { return KeyRoles{submit}; },
          [](const Retry&) { return KeyRoles{submit}; },
          [](const Fetch&) { return KeyRoles{read}; }, [](const Watch&) { return KeyRoles{read}; },
          [](const StreamsRequest&) { return KeyRoles{read}; },
          [](const CursorsRequest&) { return KeyRoles{read}; },
          [](const Acknowledge&) { return KeyRoles{read}; },
          [](const auto&) { return KeyRoles{admin}; },  // also each message that is new here
      },
      message);
}

}  // namespace

KeyRoles roles_for(Endpoint endpoint, const Message& message) {
  using enum KeyRole;
  switch (endpoint) {
    case Endpoint::engine:
      return {work};
    case Endpoint::push:
      return KeyRoles{submit}.sufficient();
    case Endpoint::client:
      break;
  }
  return needed_of_clients(message).sufficient();
}

}  // namespace millrace::broker
