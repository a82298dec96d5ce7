#pragma once
// The fields of the messages that operate a broker: backup and drain. The visitor is that of
// describe.hpp, which includes this file. Thread safety: pure functions.
#include "schemas/describe_streams.hpp"

namespace millrace {

void fields(auto& v, Is<BackupRequest> auto& m) {
  v.required("name", m.name, short_name,
             "the name of the copy: letters, digits, `-`, `_` and `.`, the last not first");
}
void fields(auto& v, Is<BackupAnswer> auto& m) {
  v.required("folder", m.folder, "the folder of the copy, on the broker's machine");
  v.field("bytes", m.bytes, "the bytes of the ledger's file");
  v.field("copied", m.copied, "how many of them are copied");
  v.field("done", m.done, "the copy is whole and on disk");
}
void fields(auto& v, Is<DrainRequest> auto& m) {
  v.field("engines", m.engines, "also tell the engines to finish or release their jobs and leave");
}
void fields(auto& v, Is<DrainAnswer> auto& m) {
  v.field("wait_ms", m.wait_ms, "how long running jobs may go on");
}

}  // namespace millrace
