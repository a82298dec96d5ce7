#pragma once
// A page of metrics in the text format of Prometheus. Each program declares its metrics once, in a
// list, and fills a new page with values when somebody asks for it; nothing is counted here.
//
//   Page page(list);
//   page.add(jobs, {tenant, "queued"}, 3);
//   page.text();
//
// Metrics of the list without a value appear with their description alone. Thread safety: one
// thread at a time for each page.
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/histogram.hpp"

namespace millrace::metrics {

enum class Kind : std::uint8_t { counter, gauge, histogram };
std::string_view kind_name(Kind kind);

struct Metric {
  const char* name;
  Kind kind;
  const char* labels;  // their names, with blanks between them; empty: none
  const char* about;   // a sentence
};
std::vector<std::string> label_names(const Metric& metric);

// A histogram as it is shown: how many values lie up to each bound, those of lower bounds included.
struct Shown {
  struct Bucket {
    double bound = 0;
    std::uint64_t values = 0;
  };
  std::vector<Bucket> buckets;
  std::uint64_t count = 0;  // of all values, also of those above the last bound
  double sum = 0;
};
Shown shown(const Histogram& histogram);

class Page {
 public:
  // The metrics must outlive the page.
  explicit Page(std::span<const Metric* const> metrics);
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  // Adds a value of a metric of the list. `labels` are the values of its labels, in their order; a
  // value of the same labels is added twice only by mistake, and Prometheus refuses such a page.
  void add(const Metric& metric, std::initializer_list<std::string> labels, double value);
  void add(const Metric& metric, std::initializer_list<std::string> labels, std::uint64_t value) {
    add(metric, labels, static_cast<double>(value));
  }
  void add(const Metric& metric, std::initializer_list<std::string> labels, const Shown& values);

  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What a server of such a page names as its content type.
inline constexpr const char* content_type = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace millrace::metrics
