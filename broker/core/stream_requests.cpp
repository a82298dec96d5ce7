#include "broker/core/stream_requests.hpp"

#include <utility>

namespace millrace::broker {
namespace {

constexpr std::int64_t second_us = 1'000'000;

std::optional<std::int64_t> to_us(std::optional<std::uint64_t> seconds) {
  if (!seconds) return std::nullopt;
  return static_cast<std::int64_t>(*seconds) * second_us;
}
std::uint64_t to_s(std::int64_t us) {
  return static_cast<std::uint64_t>(us / second_us);
}
std::optional<std::uint64_t> to_s(std::optional<std::int64_t> us) {
  if (!us) return std::nullopt;
  return to_s(*us);
}

}  // namespace

StreamState StreamRequests::state_of(StreamInfo info) const {
  const Retention applied = limits_of(info.set, config_.retention.streams);
  return {std::move(info.stream),
          info.first,
          info.high,
          info.bytes,
          info.cursors,
          {to_s(info.set.age_us), info.set.bytes, to_s(info.set.cursor_age_us)},
          {to_s(applied.age_us), applied.bytes, to_s(applied.cursor_age_us)}};
}

// Asks the ledger for one operation. If the ledger refuses it, the request is refused as well.
void StreamRequests::ask(const Asker& asker, Operation operation,
                         std::function<Message(Reply)> answer) {
  if (!answers_.begin(asker)) return;
  answers_.ask(asker, std::move(operation), [this, asker, answer = std::move(answer)](Reply reply) {
    answers_.answer(asker, answer(std::move(reply)));
  });
}

void StreamRequests::change(const Asker& asker, Operation operation) {
  ask(asker, std::move(operation), [this](Reply reply) {
    auto& changed = std::get<StreamReply>(reply);
    return StreamChanged{std::move(changed.epoch), state_of(std::move(changed.stream))};
  });
}

void StreamRequests::streams(const Asker& asker, StreamsRequest request) {
  if (!request.stream.empty()) {
    return ask(asker, GetStream{asker.tenant, std::move(request.stream)}, [this](Reply reply) {
      auto& found = std::get<StreamReply>(reply);
      StreamsAnswer answer{std::move(found.epoch), {}, false};
      answer.streams.push_back(state_of(std::move(found.stream)));
      return answer;
    });
  }
  ask(asker, ListStreams{asker.tenant, std::move(request.after)}, [this](Reply reply) {
    auto& found = std::get<ListStreamsReply>(reply);
    StreamsAnswer answer{std::move(found.epoch), {}, found.more};
    for (StreamInfo& info : found.streams) answer.streams.push_back(state_of(std::move(info)));
    return answer;
  });
}

void StreamRequests::cursors(const Asker& asker, const CursorsRequest& request) {
  ask(asker, ListCursors{asker.tenant, request.stream}, [stream = request.stream](Reply reply) {
    CursorsAnswer answer{stream, {}};
    for (CursorInfo& cursor : std::get<ListCursorsReply>(reply).cursors) {
      answer.cursors.push_back({std::move(cursor.cursor), cursor.number, cursor.moved_us});
    }
    return answer;
  });
}

void StreamRequests::trim(const Asker& asker, Trim trim) {
  change(asker, TrimStream{asker.tenant, std::move(trim.stream), trim.first});
}

void StreamRequests::keep(const Asker& asker, Keep keep) {
  change(asker, KeepStream{asker.tenant,
                           std::move(keep.stream),
                           {to_us(keep.set.age_s), keep.set.bytes, to_us(keep.set.cursor_age_s)}});
}

void StreamRequests::remove(const Asker& asker, Remove remove) {
  if (remove.cursor.empty()) {
    return change(asker, RemoveStream{asker.tenant, std::move(remove.stream)});
  }
  change(asker, RemoveCursor{asker.tenant, std::move(remove.stream), std::move(remove.cursor)});
}

}  // namespace millrace::broker
