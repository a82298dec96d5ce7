#include "client/commands/submit_summary.hpp"

#include <cstdio>

#include "client/commands/command.hpp"
#include "client/commands/times.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::client {
namespace {

void print_json(const SubmitTally& tally, const SubmitSummary& summary) {
  std::string line;
  JsonWriter json(line);
  json.begin_object().field("event", "submitted").field("batch", summary.batch);
  json.field("stream", summary.stream).field("submitted", tally.submitted);
  json.field("known", tally.known)
      .field("refused", tally.refused)
      .field("warned", tally.warned)
      .field("completed", tally.completed)
      .field("failed", tally.failed)
      .field("cancelled", tally.cancelled)
      .field("expired", tally.expired)
      .field("closed", tally.closed);
  json.end_object();
  std::fprintf(summary.waited ? stderr : stdout, "%s\n", line.c_str());
}

void print_ends(const SubmitTally& tally, const SubmitSummary& summary) {
  const std::string expired =
      tally.expired == 0 ? "" : ", of which " + std::to_string(tally.expired) + " expired";
  std::fprintf(stderr, "%llu completed, %llu failed%s\n", wide(tally.completed), wide(tally.failed),
               expired.c_str());
  if (!summary.errors.empty() && tally.failed + tally.refused > 0) {
    std::fprintf(stderr, "Errors: %s\n", printable_name(summary.errors).c_str());
  }
}

// "8 jobs submitted, 3 of them known already, 1 line refused": what is zero is not told.
std::string counts_text(const SubmitTally& tally) {
  std::string text = count_text(tally.submitted, "job") + " submitted";
  if (tally.known > 0 && tally.known == tally.submitted) {
    text += tally.known == 1 ? ", which was known already" : ", all of them known already";
  } else if (tally.known > 0) {
    text += ", " + std::to_string(tally.known) + " of them known already";
  }
  return text + (tally.refused == 0 ? "" : ", " + count_text(tally.refused, "line") + " refused");
}

}  // namespace

void print_submit_summary(const SubmitTally& tally, const SubmitSummary& summary) {
  if (summary.json) {
    print_json(tally, summary);
    return;
  }
  if (!summary.waited && tally.refused > summary.shown) {
    std::fprintf(stderr, "millrace: %s more refused\n",
                 count_text(tally.refused - summary.shown, "line").c_str());
  }
  std::fprintf(stderr, "%s; batch %s\n", counts_text(tally).c_str(),
               printable_name(summary.batch).c_str());
  if (tally.warned > 0) {
    std::fprintf(stderr, "%s with warnings, the first at %s\n",
                 count_text(tally.warned, "line").c_str(),
                 printable_name(tally.first_warned).c_str());
  }
  if (summary.waited) {
    print_ends(tally, summary);
  } else if (tally.submitted > 0) {
    const std::string batch = tally.other_batch ? "" : " --batch " + summary.batch;
    std::fprintf(stderr, "Read the results with: millrace results %s%s --follow%s\n",
                 printable_name(summary.stream).c_str(), printable_name(batch).c_str(),
                 printable_name(summary.broker).c_str());
  }
  if (tally.other_batch || (tally.other_stream && !summary.waited)) {
    std::fprintf(stderr, "Lines that name a batch or a stream of their own are in that one\n");
  }
  if (tally.cancelled > 0) {
    std::fprintf(
        stderr,
        "%llu of those that %s were cancelled and stay cancelled. To run them, submit them "
        "with another --batch, or with another id where a line has its own.\n",
        wide(tally.cancelled), summary.waited ? "failed" : "were known already");
  }
}

}  // namespace millrace::client
