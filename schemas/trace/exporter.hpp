#pragma once
// Sends spans to a receiver of OTLP over HTTP (JSON), in batches and from a thread of its own.
//
//   MILLRACE_ASSIGN(auto exporter, Exporter::start(settings));
//   if (exporter) exporter->add(std::move(span));
//
// Whoever adds a span waits for nothing: where the receiver is slow, away or refuses, spans wait in
// a bounded queue, and beyond it they are dropped and counted. A receiver that is busy or away gets
// its batch again, with growing pauses, and then the batch is dropped; one that refuses a batch
// loses it at once. The log says when spans begin and cease to be lost, not each time.
// Thread safety: any thread may call everything.
#include <cstdint>
#include <memory>

#include "schemas/base/error.hpp"
#include "schemas/trace/settings.hpp"
#include "schemas/trace/span.hpp"

namespace millrace::trace {

struct ExportCounts {
  std::uint64_t sent = 0;      // spans that the receiver took
  std::uint64_t dropped = 0;   // that it did not take, or for which the queue had no room
  std::uint64_t failures = 0;  // posts without an answer, or with one that is no success
};

class Exporter {
 public:
  // Null where the settings name no receiver. Errors: internal (libcurl cannot be set up). Whether
  // the receiver is there is not asked.
  static Result<std::shared_ptr<Exporter>> start(Settings settings);
  // Sends what still waits, for at most two seconds.
  virtual ~Exporter() = default;

  virtual const Sampler& sampler() const = 0;
  virtual void add(Span span) = 0;
  virtual ExportCounts counts() const = 0;
};

}  // namespace millrace::trace
