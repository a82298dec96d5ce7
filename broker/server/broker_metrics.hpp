#pragma once
// What a broker measures, as a page for Prometheus: the names, and the values.
// Thread safety: pure functions.
#include <span>
#include <string>

#include "broker/server/measures.hpp"
#include "schemas/base/metrics/page.hpp"

namespace millrace::broker {

// All metrics of a broker, in the order of the page. ops/metrics/README.md lists them for people.
std::span<const metrics::Metric* const> broker_metrics();

std::string metrics_page(const Measures& measures);

}  // namespace millrace::broker
