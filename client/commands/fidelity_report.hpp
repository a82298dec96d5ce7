#pragma once
// What `millrace fidelity` found, as a table, a plot, and JSON. Thread safety: plain values and
// pure functions.
#include <cstdint>
#include <string>
#include <vector>

#include "client/plot/scatter.hpp"
#include "engine/core/fidelity/measure.hpp"

namespace millrace::client {

struct FidelityReport {
  std::string model, device, math, reference;  // reference: the file's path; empty: none
  std::string centered_by;                     // digest of the mean keys (--kv-center); empty: none
  std::uint32_t contexts = 0, context_tokens = 0;
  struct Row {
    std::string name;  // as the user gave it: "k5v3"
    engine::PolicyFidelity found;
  };
  std::vector<Row> rows;
};

std::string fidelity_title(const FidelityReport& report);   // one line
std::string fidelity_tables(const FidelityReport& report);  // against fp16 KV and the reference
// Returns one policy as a JSON object.
std::string fidelity_json(const FidelityReport& report, const FidelityReport::Row& row);
// Mean KLD over bytes per token, measured against the reference if there is one.
Scatter fidelity_scatter(const FidelityReport& report);

}  // namespace millrace::client
