#include "schemas/base/metrics/page.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <cstddef>
#include <sstream>
#include <utility>

namespace millrace::metrics {
namespace {

prometheus::MetricType type_of(Kind kind) {
  switch (kind) {
    case Kind::counter:
      return prometheus::MetricType::Counter;
    case Kind::gauge:
      return prometheus::MetricType::Gauge;
    case Kind::histogram:
      return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Untyped;
}

}  // namespace

std::string_view kind_name(Kind kind) {
  switch (kind) {
    case Kind::counter:
      return "counter";
    case Kind::gauge:
      return "gauge";
    case Kind::histogram:
      return "histogram";
  }
  return "";
}

std::vector<std::string> label_names(const Metric& metric) {
  std::vector<std::string> names;
  std::istringstream in(metric.labels);
  for (std::string name; in >> name;) names.push_back(name);
  return names;
}

Shown shown(const Histogram& histogram) {
  Shown out;
  std::uint64_t values = 0;
  for (std::size_t i = 0; i < histogram.bounds().size(); ++i) {
    values += histogram.counts()[i];
    out.buckets.push_back({histogram.bounds()[i], values});
  }
  out.count = histogram.count();
  out.sum = histogram.sum();
  return out;
}

struct Page::State {
  std::span<const Metric* const> metrics;
  std::vector<prometheus::MetricFamily> families;  // one for each metric

  // The new value of a metric, with its labels; null where the list does not have the metric.
  prometheus::ClientMetric* value_of(const Metric& metric,
                                     std::initializer_list<std::string> labels) {
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      if (metrics[i] != &metric) continue;
      prometheus::ClientMetric& value = families[i].metric.emplace_back();
      const std::vector<std::string> names = label_names(metric);
      auto name = names.begin();
      for (const std::string& label : labels) {
        if (name != names.end()) value.label.push_back({*name++, label});
      }
      return &value;
    }
    return nullptr;
  }
};

Page::Page(std::span<const Metric* const> metrics) : state_(std::make_unique<State>()) {
  state_->metrics = metrics;
  for (const Metric* const metric : metrics) {
    prometheus::MetricFamily& family = state_->families.emplace_back();
    family.name = metric->name;
    family.help = metric->about;
    family.type = type_of(metric->kind);
  }
}

Page::~Page() = default;

void Page::add(const Metric& metric, std::initializer_list<std::string> labels, double value) {
  prometheus::ClientMetric* const added = state_->value_of(metric, labels);
  if (added == nullptr) return;
  added->counter.value = added->gauge.value = value;
}

void Page::add(const Metric& metric, std::initializer_list<std::string> labels,
               const Shown& values) {
  prometheus::ClientMetric* const added = state_->value_of(metric, labels);
  if (added == nullptr) return;
  added->histogram.sample_count = values.count;
  added->histogram.sample_sum = values.sum;
  for (const auto& [bound, below] : values.buckets) {
    added->histogram.bucket.push_back({below, bound});
  }
}

std::string Page::text() const {
  return prometheus::TextSerializer().Serialize(state_->families);
}

}  // namespace millrace::metrics
