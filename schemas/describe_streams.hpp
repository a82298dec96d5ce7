#pragma once
// The fields of the messages about streams and cursors: what they hold, and how long. The visitor
// is that of describe.hpp, which includes this file. Thread safety: pure functions.
#include "schemas/describe_jobs.hpp"
#include "schemas/messages.hpp"

namespace millrace {

void fields(auto& v, Is<KeepLimits> auto& m) {
  v.field("age_s", m.age_s, Range{0, limits::keep_s},
          "results that were written longer ago go; 0: at no age");
  v.field("bytes", m.bytes,
          "the oldest results go while all have more bytes than this, the last one excepted; 0: "
          "any number of bytes");
  v.field("cursor_age_s", m.cursor_age_s, Range{0, limits::keep_s},
          "cursors that were not moved for this long go; 0: at no age");
}
void fields(auto& v, Is<StreamState> auto& m) {
  v.required("stream", m.stream, "the stream's name");
  v.field("first", m.first, "the first number that is kept");
  v.field("high", m.high, "the last number written");
  v.field("bytes", m.bytes,
          "the bytes of the results that are stored, those that are about to go included");
  v.field("cursors", m.cursors, "how many cursors it has");
  v.field("set", m.set, Part{}, "the limits that were set for this stream");
  v.field("applied", m.applied, Part{},
          "the limits that count: those, and the broker's where they are absent. A cursor holds "
          "what it has not passed, up to twice the age and the bytes");
}
void fields(auto& v, Is<StreamsRequest> auto& m) {
  v.field("stream", m.stream, short_label, "the stream; one that does not exist is `not_found`");
  v.field("after", m.after, short_label, "of all streams, those whose names come after this one");
}
void fields(auto& v, Is<StreamsAnswer> auto& m) {
  v.required("epoch", m.epoch, "the epoch of the ledger");
  v.field("streams", m.streams, "the streams, at most 1,000");
  v.field("more", m.more, "there are further ones: ask again after the last of these");
}
void fields(auto& v, Is<CursorState> auto& m) {
  v.required("cursor", m.cursor, "the cursor's name");
  v.field("number", m.number, "the last number that its reader has acknowledged");
  v.field("moved_us", m.moved_us, "Unix time of the last `acknowledge`");
}
void fields(auto& v, Is<CursorsRequest> auto& m) {
  v.required("stream", m.stream, short_name, "the stream");
}
void fields(auto& v, Is<CursorsAnswer> auto& m) {
  v.required("stream", m.stream, "as asked");
  v.field("cursors", m.cursors, "the cursors; a stream has at most 1,000");
}
void fields(auto& v, Is<Trim> auto& m) {
  v.required("stream", m.stream, short_name, "the stream");
  v.required("first", m.first, "the first number to keep, at most the last one written plus one");
}
void fields(auto& v, Is<Keep> auto& m) {
  v.required("stream", m.stream, short_name, "the stream; it need not exist yet");
  v.field("set", m.set, Part{}, "its limits");
}
void fields(auto& v, Is<Remove> auto& m) {
  v.required("stream", m.stream, short_name, "the stream");
  v.field("cursor", m.cursor, short_label, "the cursor; empty: the whole stream");
}
void fields(auto& v, Is<StreamChanged> auto& m) {
  v.required("epoch", m.epoch, "the epoch of the ledger");
  v.required("stream", m.stream, "the stream as it is now");
}

}  // namespace millrace
